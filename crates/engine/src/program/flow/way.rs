//! Actions of the whole chain, ready to be done: what is the same for all flows of a class is here, what is a flow's own is in its
//! entry.
//!
//! A packet's first 64 bytes are read once and written once: bytes kept, bytes set, the time to live counted down; then the flow's
//! addresses and ports; then each checksum, with one number that stands for all changes along the chain (RFC 1624: one's complement
//! sums add up; that no sum of differences is zero unless nothing changed keeps both zeros apart). A UDP checksum that comes to zero
//! between two elements stays zero from there on: a flow knows its own ([`Flow::danger`]), and such packets go the long way.

use super::super::code::Code;
use super::super::image::{CONST, Term, Value};
use super::super::path::{Path, PathEnd};
use super::super::regs::{Bits, Source, write_bits};
use super::guard::{GuardBox, Parsed, WINDOW};
use super::wide::{Any, Wide};
use onefold_elements::Accounts;
use onefold_packet::{Packet, checksum};
use onefold_synth::program::{EndAt, LenAt, SumKind};

/// Most fields that are copied from one place of the packet to another.
const MAX_MOVES: usize = 4;
/// Most bytes that are pulled or pushed.
const MAX_SHIFT: i32 = 32;

/// A count: element, tag, and how its bytes follow from the packet's length or the IP header's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Count {
    pub elem: u32,
    pub tag: u16,
    /// The length that the IP header says, instead of the packet's.
    pub of_ip: bool,
    /// Bytes to be added.
    pub add: i32,
}

impl Count {
    /// Bytes of so many packets, with so many bytes in all and so many as IP headers say.
    pub fn bytes(&self, packets: u64, bytes: u64, ip_bytes: u64) -> u64 {
        let base = if self.of_ip { ip_bytes } else { bytes };
        base.wrapping_add_signed(i64::from(self.add).wrapping_mul(packets as i64))
    }
}

/// What recognizes a way: packets that passed the same rules within one box, with the same counts, to the same end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Name {
    pub rules: Vec<u32>,
    pub counts: Vec<Count>,
    pub end: PathEnd,
    pub guard: u32,
    flows: bool,
}

/// Packets not yet accounted for.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Pending {
    pub packets: u64,
    pub bytes: u64,
    pub ip_bytes: u64,
}

impl Pending {
    /// One more, of so many bytes, and so many as its IP header says.
    #[inline(always)]
    pub fn add(&mut self, bytes: u64, ip_bytes: u32) {
        self.packets += 1;
        self.bytes += bytes;
        self.ip_bytes += u64::from(ip_bytes);
    }
}

/// See the module's text.
///
/// What every packet needs stands first.
#[derive(Debug, Clone)]
#[repr(C, align(64))]
pub(super) struct Way {
    keep: [u8; WINDOW],
    set: [u8; WINDOW],
    sub: [u8; WINDOW],
    pub pending: Pending,
    start: i32,
    l3: u32,
    /// The sink where packets leave; [`NO_SINK`] where they are dropped.
    pub sink: u32,
    /// [`Way::apply`] and a count of packets that can wait are all there is to do.
    pub plain: bool,
    /// Packets begin where they began, and no fields are copied.
    in_place: bool,
    trim: bool,
    changes: bool,
    udp: bool,
    /// First byte of the addresses in the window, if the flow has its own; else [`NOWHERE`].
    vars: u8,
    /// Where the ports go.
    first: u8,
    second: u8,
    /// Where checksums are, or [`NOWHERE`]: nothing is to be added then.
    ip_sum: u8,
    l4_sum: u8,
    /// Flows have checksums that come to zero on the way.
    pub danger: bool,
    /// Something is written or added that follows from the flow's key.
    pub keyed: bool,
    pub name: Name,
    /// How many of [`Name::counts`] can wait for anyone to ask, and how many then for the end of the moment; the rest cannot wait.
    pub late: (usize, usize),
    pub moment: Pending,
    moves: Box<[(Bits, i32, u8)]>,
}

/// No place in the window.
const NOWHERE: u8 = WINDOW as u8;

/// See [`Way::sink`].
pub(super) const NO_SINK: u32 = u32::MAX;

/// What a flow has for itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Flow {
    /// Addresses as they leave, their first byte the least significant.
    pub addresses: u64,
    /// Ports, likewise.
    pub ports: u32,
    /// To be added to the complement of each checksum, as it stands on the wire; 0 for none.
    pub ip: u16,
    pub l4: u16,
    /// UDP checksums that come to zero on the way, four to a word; zero for none.
    pub danger: [u64; 3],
}

/// Does a value follow from key and box?
enum Known {
    /// From the box.
    Way(u128),
    /// From the key.
    Flow(u128),
    No,
}

struct Maker<'a> {
    code: &'a Code,
    path: &'a Path,
    guard: &'a GuardBox,
}

impl Maker<'_> {
    fn bits_of(&self, v: &Value) -> Option<(i32, u8)> {
        match self.code.sources.get(usize::from(v.reg))? {
            Source::Bits(b) => Some(b.position()),
            _ => None,
        }
    }
    fn known(&self, v: &Value) -> Known {
        let now = v.get(&self.path.values);
        if v.reg == CONST {
            return Known::Way(now);
        }
        if usize::from(v.reg) < self.code.slots {
            return Known::Flow(now);
        }
        match self.bits_of(v) {
            Some((bit, n)) if self.guard.shape.in_key(bit, n) => Known::Flow(now),
            Some((bit, n)) if self.guard.pins(bit, n) => Known::Way(now),
            _ => Known::No,
        }
    }
    /// How much less than its register a value is, where that cannot wrap around.
    fn less(&self, v: &Value) -> Option<(u128, (i32, u8))> {
        let (bit, n) = self.bits_of(v)?;
        let less = v.add.wrapping_neg() & v.mask;
        (less <= self.guard.least(bit, n) && less <= 0xff).then_some((less, (bit, n)))
    }

    /// What is added to a complement by one term; `None` where it depends on more than key and box.
    fn term(&self, t: &Term, keyed: &mut bool) -> Option<u64> {
        let Term::Change {
            from,
            to,
            shift,
            words,
        } = t
        else {
            *keyed |= matches!(t, Term::Slot(_));
            return Some(t.sum(&self.path.values));
        };
        match (self.known(from), self.known(to)) {
            (Known::No, _) | (_, Known::No) => {}
            both => {
                *keyed |= !matches!(both, (Known::Way(_), Known::Way(_)));
                return Some(t.sum(&self.path.values));
            }
        }
        let ((a, field), (b, same)) = (self.less(from)?, self.less(to)?);
        if from.reg != to.reg || field != same || *words != 1 || !(0..=8).contains(shift) {
            return None;
        }
        // old less new, in the word where it stands; never zero
        let more = (a as i64 - b as i64) << shift;
        Some(more.rem_euclid(0xffff) as u64 + 0xffff)
    }
}

/// Something that no program has.
const ODD: &str = "not understood";

/// The way that a packet went, and what is its flow's own. `window`: the packet as it arrived. The error says why it cannot be gone again like
/// this. `when` tells when an element must hear of what it counts.
pub(super) fn make(
    code: &Code,
    path: &Path,
    guard: &GuardBox,
    window: &[u8; WINDOW],
    when: &dyn Fn(u32) -> Accounts,
) -> Result<(Way, Flow), &'static str> {
    let m = Maker { code, path, guard };
    let l3 = guard.shape.l3 as i32;
    let ip_end = |e: EndAt| match e {
        EndAt::Same => Some(false),
        EndAt::Ip4(at) if at == l3 && !guard.shape.v6 => Some(true),
        EndAt::Ip6(at) if at == l3 && guard.shape.v6 => Some(true),
        _ => None,
    };
    let count = |(elem, tag, len): &(u32, u16, LenAt)| {
        let of_ip = ip_end(len.end)?;
        // behind the fixed part of the header a length could come to less than nothing
        if len.start > l3 + 20 {
            return None;
        }
        let add = if of_ip { l3 - len.start } else { -len.start };
        Some(Count {
            elem: *elem,
            tag: *tag,
            of_ip,
            add,
        })
    };
    let mut counts: Vec<Count> = path
        .counts
        .iter()
        .map(count)
        .collect::<Option<_>>()
        .ok_or("a length in counts")?;
    // the order among those that only add up is nobody's business
    counts.sort_by_key(|c| when(c.elem));
    let late = counts.partition_point(|c| when(c.elem) == Accounts::Later);
    let moment = counts.partition_point(|c| when(c.elem) <= Accounts::Moment) - late;
    let mut way = Way::ends(Name {
        rules: path.rules.clone(),
        counts,
        end: path.end,
        guard: guard.id,
        flows: false,
    });
    way.late = (late, moment);
    way.plain = late == path.counts.len();
    way.l3 = l3 as u32;
    way.udp = guard.shape.udp();
    let mut flow = Flow::default();
    let PathEnd::Output(sink, image) = path.end else {
        return Ok((way, flow));
    };
    way.sink = sink;
    let image = code.images.get(image as usize).ok_or(ODD)?;
    if image.start.abs() > MAX_SHIFT {
        return Err("the packet begins elsewhere");
    }
    way.start = image.start;
    way.trim = ip_end(image.end).ok_or("the packet ends elsewhere")?;

    // writes
    let (mut keep, mut set, mut sub) = ([0xff_u8; WINDOW], [0u8; WINDOW], [0u8; WINDOW]);
    let mut moves = Vec::new();
    let shape = guard.shape;
    let (addresses, ports) = (shape.addresses().0, shape.ports());
    // the key as it leaves
    let mut vars = *window;
    for f in &image.writes {
        let end = f.bit + i32::from(f.bits);
        let whole = f.bit & 7 == 0 && f.bits & 7 == 0;
        if m.bits_of(&f.value) == Some((f.bit, f.bits)) && f.value.add & f.value.mask == 0 {
            continue;
        }
        // what is not in the packet that leaves need not be written
        if end <= image.start * 8 {
            continue;
        }
        let at = f.bit - image.start * 8;
        if at < 0 || at + i32::from(f.bits) > WINDOW as i32 * 8 {
            return Err("a field behind the first 64 bytes is written");
        }
        let over = shape.meets_key(f.bit, f.bits);
        let in_vars = !shape.v6 && shape.in_key(f.bit, f.bits);
        match m.known(&f.value) {
            Known::Way(v) if in_vars || !over => {
                write_bits(&mut keep, 0, at, f.bits, 0);
                write_bits(&mut set, 0, at, f.bits, v);
                if in_vars {
                    write_bits(&mut vars, 0, f.bit, f.bits, v);
                }
            }
            Known::Flow(v) if in_vars => {
                write_bits(&mut vars, 0, f.bit, f.bits, v);
                way.name.flows = true;
            }
            _ => match m.less(&f.value) {
                Some((n, field)) if field == (f.bit, f.bits) && whole && f.bits == 8 => {
                    *sub.get_mut(at as usize / 8).ok_or(ODD)? = n as u8;
                }
                _ => {
                    let Some(Source::Bits(b)) = code.sources.get(usize::from(f.value.reg)) else {
                        return Err("a value that is no field is written");
                    };
                    if f.value.add & f.value.mask != 0 || b.position().1 != f.bits || over {
                        return Err("a field is written that depends on another");
                    }
                    moves.push((*b, at, f.bits));
                }
            },
        }
    }
    if way.name.flows {
        way.keyed = true;
        let place = |at: usize| u8::try_from(at as i32 - image.start).map_err(|_| ODD);
        let vars = |at: usize, n: usize| vars.get(at..at + n).ok_or(ODD);
        let of = |v: &[u8]| v.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        way.vars = place(addresses)?;
        flow.addresses = of(vars(addresses, 8)?);
        // where there is no second port the first one is written over it, and where there is none the addresses over both
        (way.first, way.second) = match ports.1 - ports.0 {
            4 => (place(ports.0)?, place(ports.0 + 2)?),
            2 => (place(ports.0)?, place(ports.0)?),
            _ => (way.vars, way.vars),
        };
        flow.ports = of(vars(ports.0, ports.1 - ports.0)?) as u32;
    }

    // checksums
    for s in &image.sums {
        let at = s.at - image.start;
        let place = usize::try_from(at).ok().filter(|a| a + 2 <= WINDOW);
        let place = place.ok_or("a checksum behind the first 64 bytes")?;
        let place = place as u8;
        let expected = match s.kind {
            SumKind::Ip4 => !guard.shape.v6 && s.at == l3 + 10,
            SumKind::Tcp => shape.tcp() && s.at == shape.l4() as i32 + 16,
            SumKind::Udp => shape.udp() && s.at == shape.l4() as i32 + 6,
            // a message of nothing but zeros is something else: a reply with the identifier zero
            SumKind::Icmp => {
                let request = guard.least(shape.l4() as i32 * 8, 8) == 8;
                shape.echo() && s.at == shape.l4() as i32 + 2 && (request || flow.ports != 0)
            }
        };
        if s.anew || !expected {
            return Err("a checksum that is computed anew");
        }
        let mut sum = 0;
        let mut dangers = 0;
        for (i, g) in s.groups.iter().enumerate() {
            for t in g {
                sum += m
                    .term(t, &mut way.keyed)
                    .ok_or("a checksum that depends on more than the flow")?;
            }
            // as numbers modulo 65,535: what it was less what was added so far
            if s.kind == SumKind::Udp && i + 1 < s.groups.len() && sum > 0 {
                let place = flow.danger.get_mut(dangers / 4).ok_or("too many changes")?;
                *place |= u64::from(checksum::fold(sum)) << (dangers % 4 * 16);
                dangers += 1;
                way.danger = true;
            }
        }
        let k = checksum::fold(sum).to_be();
        match s.kind {
            SumKind::Ip4 if way.ip_sum == NOWHERE => (way.ip_sum, flow.ip) = (place, k),
            _ if s.kind != SumKind::Ip4 && way.l4_sum == NOWHERE => {
                (way.l4_sum, flow.l4) = (place, k);
            }
            _ => return Err(ODD),
        }
    }
    way.changes = keep != [0xff; WINDOW] || sub != [0; WINDOW];
    (way.keep, way.set, way.sub) = (keep, set, sub);
    if moves.len() > MAX_MOVES {
        return Err("too many fields are copied");
    }
    way.in_place = way.start == 0 && moves.is_empty();
    way.moves = moves.into();
    Ok((way, flow))
}

/// The two bytes of a checksum as they stand; something else if there is none.
#[inline(always)]
fn sum_at(w: &[u8; WINDOW], at: u8) -> u16 {
    let at = usize::from(at).min(WINDOW - 2);
    u16::from_ne_bytes([w[at], w[at + 1]])
}

/// Writes what becomes of a checksum. One's complement sums do not mind which way round all of their bytes are.
#[inline(always)]
fn mend(w: &mut [u8; WINDOW], at: u8, x: u16, k: u16, udp: bool) {
    if k == 0 || (udp && x == 0) {
        return;
    }
    let at = usize::from(at).min(WINDOW - 2);
    let sum = u32::from(!x) + u32::from(k);
    let [a, b] = (!((sum >> 16) as u16).wrapping_add(sum as u16)).to_ne_bytes();
    (w[at], w[at + 1]) = (a, b);
}

impl Way {
    /// Nothing is written and nobody told: a drop, or the beginning of more.
    fn ends(name: Name) -> Way {
        Way {
            name,
            late: (0, 0),
            pending: Pending::default(),
            moment: Pending::default(),
            sink: NO_SINK,
            plain: true,
            in_place: false,
            keyed: false,
            start: 0,
            trim: false,
            l3: 0,
            changes: false,
            keep: [0xff; WINDOW],
            set: [0; WINDOW],
            sub: [0; WINDOW],
            vars: NOWHERE,
            first: NOWHERE,
            second: NOWHERE,
            ip_sum: NOWHERE,
            l4_sum: NOWHERE,
            udp: false,
            danger: false,
            moves: Box::default(),
        }
    }

    /// Does this packet's UDP checksum come to zero on the way?
    #[inline(always)]
    pub fn dangerous(&self, flow: &Flow, p: &Packet) -> bool {
        if !self.danger {
            return false;
        }
        // where it is before anything is pulled
        let at = usize::from(self.l4_sum).wrapping_add_signed(self.start as isize);
        let field = p.data().get(at..).and_then(|b| b.first_chunk::<2>());
        let x = u64::from(field.map_or(0, |f| u16::from_be_bytes(*f)));
        const ONES: u64 = 0x0001_0001_0001_0001;
        let mut any = 0;
        for w in flow.danger {
            // a part of four that is zero
            let v = w ^ (x * ONES);
            any |= v.wrapping_sub(ONES) & !v & (ONES << 15);
        }
        x != 0 && any != 0
    }

    /// [`Way::apply`] of a plain way to a packet that neither begins nor ends elsewhere and has no fields copied; its first bytes are at hand. False, and nothing is done, if
    /// that is not so.
    #[inline(always)]
    pub fn apply_in_place<W: Wide>(
        &self,
        wide: W,
        w: &mut [u8; WINDOW],
        len: usize,
        x: &Parsed,
    ) -> bool {
        if !self.in_place || self.trim && (self.l3 + x.total) as usize != len {
            return false;
        }
        // before anything is written: what has just been written as a whole is slow to read in parts
        let (ip, l4) = (sum_at(w, self.ip_sum), sum_at(w, self.l4_sum));
        wide.change(wide.load(w), &self.keep, &self.set, &self.sub, w);
        self.own(w, x.addresses, x.ports);
        mend(w, self.ip_sum, ip, x.ip, false);
        mend(w, self.l4_sum, l4, x.l4, self.udp);
        true
    }

    /// Writes what is a flow's own, if anything is.
    #[inline(always)]
    fn own(&self, w: &mut [u8; WINDOW], addresses: u64, ports: u32) {
        if self.vars == NOWHERE {
            return;
        }
        let port = |at: u8| usize::from(at).min(WINDOW - 2);
        let (second, first) = (port(self.second), port(self.first));
        let [a, b, c, d] = ports.to_le_bytes();
        (w[second], w[second + 1]) = (c, d);
        (w[first], w[first + 1]) = (a, b);
        let at = usize::from(self.vars).min(WINDOW - 8);
        w[at..at + 8].copy_from_slice(&addresses.to_le_bytes());
    }

    /// Makes the packet what leaves. `total`: bytes that its IP header says.
    #[inline(never)]
    pub fn apply(&self, p: &mut Packet, flow: &Flow, total: u32) {
        let mut moved = [0; MAX_MOVES];
        if !self.moves.is_empty() {
            for (v, (b, ..)) in moved.iter_mut().zip(&self.moves) {
                *v = b.read(p.buffer(), p.data_offset());
            }
        }
        if self.trim {
            let end = (self.l3 + total) as usize;
            p.take(p.len().saturating_sub(end));
        }
        match self.start {
            0 => {}
            n if n > 0 => p.pull(n as usize),
            n => p.push(n.unsigned_abs() as usize),
        }
        // there is room: the box was made for packets that have it
        let Some(w) = p.window_mut::<WINDOW>() else {
            return;
        };
        // before anything is written: what has just been written as a whole is slow to read in parts
        let (ip, l4) = (sum_at(w, self.ip_sum), sum_at(w, self.l4_sum));
        if self.changes {
            Any.change(*w, &self.keep, &self.set, &self.sub, w);
        }
        self.own(w, flow.addresses, flow.ports);
        mend(w, self.ip_sum, ip, flow.ip, false);
        mend(w, self.l4_sum, l4, flow.l4, self.udp);
        if !self.moves.is_empty() {
            for ((_, at, bits), v) in self.moves.iter().zip(moved) {
                write_bits(w, 0, *at, *bits, v);
            }
        }
    }
}
