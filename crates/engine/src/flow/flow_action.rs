//! Actions of the whole chain, ready to be done: what is the same for all flows of a class is here, what is a flow's
//! own is in its entry.
//!
//! A packet's first 64 bytes are read once and written once: bytes kept, bytes set, the time to live counted down;
//! then the flow's addresses and ports; then each checksum, with one number that stands for all changes along the
//! chain (RFC 1624: one's complement sums add up; that no sum of differences is zero unless nothing changed keeps
//! both zeros apart). A UDP checksum that comes to zero between two elements stays zero from there on: a flow knows
//! its own ([`Flow::zero_udp_checksum`]), and of such packets all of it is taken off.

use crate::flow::masked_match::MaskedMatch;
use crate::flow::questions::{Question, Questions, address};
use crate::flow::rewrite_template::{EXIT, Flow, MAX_MOVES, RewriteTemplate};
use crate::program::code::{Code, Cut};
use crate::program::headers::registers::{Source, write_bits};
use crate::program::path::{Path, PathEnd};
use crate::program::rewrite::value::{CONST, FieldWrite, Sum, Term, Value};
use crate::simd::At;
use crate::simd::WINDOW;
use crate::simd::window_rewrite::Operands as FlowOperands;
use onefold_element::Accounts;
use onefold_element::model::RouteWhat;
use onefold_nat::BoundBy;
use onefold_packet::checksum;
use onefold_synth::program::{EndAt, LenAt, SumKind};

/// Most bytes that are pulled or pushed.
const MAX_SHIFT: i32 = 32;

/// A count: element, tag, and how its bytes follow from the packet's length or the IP header's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Count {
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

/// What recognizes an action: packets that passed the same rules within one masked match, with the same counts, to
/// the same end.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub rules: Vec<u32>,
    pub counts: Vec<Count>,
    pub end: PathEnd,
    pub guard: u32,
    pub flows: bool,
    /// What tables of neighbours were asked.
    pub asked: Box<[Question]>,
}

/// Packets not yet accounted for.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Pending {
    pub packets: u64,
    pub bytes: u64,
    pub ip_bytes: u64,
}

/// An action of the whole chain. What is done to its packets is a [`RewriteTemplate`], which many actions may have in
/// common; what is counted along is its [`crate::flow::action_table::Tally`]: in a chain with thousands of rules
/// there are thousands of actions, and few things that they do.
#[derive(Debug, Clone)]
pub(crate) struct FlowAction {
    /// [`FlowAction::late`] is all that is to be told.
    pub plain: bool,
    /// Something is written or added that follows from the flow's key.
    pub keyed: bool,
    pub name: Name,
    /// How many of [`Name::counts`] can wait for anyone to ask, and how many then for the end of the moment; the rest
    /// cannot wait.
    pub late: (usize, usize),
    pub moment: Pending,
    /// Rules of [`Name::rules`] whose actions are left at a binding of this number: lists of rules behind it see
    /// nothing.
    pub left: Vec<(u32, u16)>,
    /// Bytes before the IP header.
    pub l3: u32,
    /// Packets were looked at from so many bytes before their first one, and counted with these.
    pub shift: u32,
}

impl FlowAction {
    /// May all that is to be told of its packets wait for the end of the moment?
    pub fn waits(&self) -> bool {
        self.late.0 + self.late.1 == self.name.counts.len()
    }

    /// A packet is counted whose elements are told at the end of the moment. Is it the moment's first one?
    #[inline]
    pub fn counts_in_moment(&mut self, bytes: u64, ip_bytes: u32) -> bool {
        let first = self.moment.packets == 0;
        self.moment.packets += 1;
        self.moment.bytes += bytes;
        self.moment.ip_bytes += u64::from(ip_bytes);
        first
    }

    /// Bytes of so many packets that were counted with so many.
    pub fn bytes(&self, n: Pending) -> u64 {
        n.bytes - u64::from(self.shift) * n.packets
    }
}

/// Does a value follow from key and masked match?
enum Known {
    /// From the masked match.
    Match(u128),
    /// From the key.
    Flow(u128),
    No,
}

/// Where an action is made.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Place {
    /// Packets are looked at from so many bytes before their first one.
    pub shift: i32,
    /// Where its packets go on ([`EXIT`]), if they do.
    pub exit: Option<u32>,
}

struct Maker<'a> {
    shift: i32,
    code: &'a Code,
    path: &'a Path,
    guard: &'a MaskedMatch,
    asked: &'a [Question],
    window: &'a [u8; WINDOW],
}

impl<'a> Maker<'a> {
    fn new(
        code: &'a Code,
        (path, asked): (&'a Path, &'a Questions),
        guard: &'a MaskedMatch,
        (window, shift): (&'a [u8; WINDOW], i32),
    ) -> Maker<'a> {
        Maker {
            shift,
            code,
            path,
            guard,
            asked: &asked.all,
            window,
        }
    }
    fn bits_of(&self, v: &Value) -> Option<(i32, u8)> {
        match self.code.sources.get(usize::from(v.reg))? {
            Source::Bits(b) => Some(b.shifted(self.shift).position()),
            _ => None,
        }
    }
    fn known(&self, v: &Value) -> Known {
        let now = v.get(&self.path.values);
        if v.reg == CONST {
            return Known::Match(now);
        }
        if usize::from(v.reg) < self.code.slots {
            return Known::Flow(now);
        }
        if let Some(Source::Route(table, of, RouteWhat::Ether)) =
            self.code.sources.get(usize::from(v.reg))
        {
            let address = address(of, self.guard, (self.window, self.shift));
            let question = |(address, _)| Question {
                table: *table,
                address,
            };
            // it is said as long as it is said that the neighbour is known
            return match address.map(question) {
                Ok(q) if self.asked.contains(&q) => Known::Match(now),
                _ => Known::No,
            };
        }
        match self.bits_of(v) {
            Some((bit, n)) if self.guard.shape.in_key(bit, n) => Known::Flow(now),
            Some((bit, n)) if self.guard.pins(bit, n) => Known::Match(now),
            _ => Known::No,
        }
    }
    /// How much less than its register a value is, where that cannot wrap around.
    fn less(&self, v: &Value) -> Option<(u128, (i32, u8))> {
        let (bit, n) = self.bits_of(v)?;
        let less = v.add.wrapping_neg() & v.mask;
        (less <= self.guard.least(bit, n) && less <= 0xff).then_some((less, (bit, n)))
    }

    /// What is added to a complement by one term; `None` where it depends on more than key and masked match.
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
                *keyed |= !matches!(both, (Known::Match(_), Known::Match(_)));
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

/// What is counted along: those that may be told later first, `late` of them, then the `moment` that wait for the end
/// of the moment. `ip_end` says whether a packet ends where its IP header says; `when` as for [`make`].
fn counts(
    m: &Maker<'_>,
    ip_end: &dyn Fn(EndAt) -> Option<bool>,
    when: &dyn Fn(u32, u16) -> Accounts,
) -> Result<(Vec<Count>, usize, usize), &'static str> {
    let (shift, l3) = (m.shift, m.guard.shape.l3 as i32);
    let count = |(elem, tag, len): &(u32, u16, LenAt)| {
        let of_ip = ip_end(len.end)?;
        let start = len.start + shift;
        // behind the fixed part of the header a length could come to less than nothing
        if start > l3 + 20 {
            return None;
        }
        let add = if of_ip { l3 - start } else { -start };
        Some(Count {
            elem: *elem,
            tag: *tag,
            of_ip,
            add,
        })
    };
    let mut counts: Vec<Count> = m
        .path
        .counts
        .iter()
        .map(count)
        .collect::<Option<_>>()
        .ok_or("a length in counts")?;
    // the order among those that only add up is nobody's business
    counts.sort_by_key(|c| when(c.elem, c.tag));
    let late = counts.partition_point(|c| when(c.elem, c.tag) == Accounts::Later);
    let moment = counts.partition_point(|c| when(c.elem, c.tag) <= Accounts::Moment) - late;
    // lists of rules count as many bytes as the header says that is in the key, or those of the packet
    let cut = |rule: &u32| match m.code.action_of(*rule).map(|a| a.cut) {
        Some(Cut::At(e)) => ip_end(e) == Some(true),
        Some(Cut::Several) => false,
        Some(Cut::No) | None => true,
    };
    if !m.path.rules.iter().all(cut) {
        return Err("a length in counts of rules");
    }
    Ok((counts, late, moment))
}

/// What the bindings on a path are like is so for all packets that are written by this template.
fn bound_as(
    path: &Path,
    guard: &MaskedMatch,
    template: &mut RewriteTemplate,
) -> Result<(), &'static str> {
    template.bytes.udp = guard.shape.udp();
    template.untimed = path.flows.iter().all(|f| f.by != BoundBy::Fields);
    let no_zero = path.flows.iter().filter(|f| f.no_zero).count();
    template.bytes.no_zero = template.bytes.udp && no_zero > 0;
    match template.bytes.no_zero && no_zero < path.flows.len() {
        true => Err("a UDP checksum that may come to zero in one place only"),
        false => Ok(()),
    }
}

/// Does a checksum of UDP that comes to zero behind one of its changes stay so? Behind the last one nothing is added,
/// and where none is to leave zero there is none between two of them, either.
fn stays_zero(template: &RewriteTemplate, sum: &Sum, change: usize) -> bool {
    change + 1 < sum.groups.len() && !template.bytes.no_zero
}

/// The action of a packet that went, and what is its flow's own. `window`: the packet as it arrived. The error says
/// why it cannot be gone again like this. `when` tells when an element must hear of what it counts.
pub(crate) fn make(
    code: &Code,
    (path, place, asked): (&Path, Place, &Questions),
    guard: &MaskedMatch,
    window: &[u8; WINDOW],
    when: &dyn Fn(u32, u16) -> Accounts,
) -> Result<(FlowAction, RewriteTemplate, Flow), &'static str> {
    let shift = place.shift;
    let m = Maker::new(code, (path, asked), guard, (window, shift));
    let l3 = guard.shape.l3 as i32;
    let ip_end = |e: EndAt| match e {
        EndAt::Same => Some(false),
        EndAt::Ip4(at) if at + shift == l3 && !guard.shape.v6 => Some(true),
        EndAt::Ip6(at) if at + shift == l3 && guard.shape.v6 => Some(true),
        _ => None,
    };
    let (counts, late, moment) = counts(&m, &ip_end, when)?;
    let mut action = FlowAction::ends(Name {
        rules: path.rules.clone(),
        counts,
        end: path.end,
        guard: guard.id,
        flows: false,
        asked: asked.all.clone().into(),
    });
    let (mut ip_sum, mut l4_sum) = (None, None);
    action.late = (late, moment);
    action.left = path.left.clone();
    action.l3 = l3 as u32;
    action.shift = shift as u32;
    action.plain = late == path.counts.len();
    let mut template = RewriteTemplate::nothing();
    template.l3 = l3 as u32;
    bound_as(path, guard, &mut template)?;
    let mut flow = Flow::default();
    let (sink, image) = match path.end {
        PathEnd::Output(sink, image) => (sink, image),
        PathEnd::Write { image, .. } | PathEnd::Ask { image, .. } => {
            (place.exit.ok_or(ODD)? | EXIT, image)
        }
        PathEnd::Drop(..) | PathEnd::Elsewhere => return Ok((action, template, flow)),
    };
    let goes_on = path.end.goes_on();
    template.sink = sink;
    let image = code.images.get(image as usize).ok_or(ODD)?;
    let start = image.start + shift;
    if start.abs() > MAX_SHIFT {
        return Err("the packet begins elsewhere");
    }
    // what is taken off the front of one that goes on may be put back, and is taken off when all has been written
    template.start = if goes_on { start.min(0) } else { start };
    template.trim = ip_end(image.end).ok_or("the packet ends elsewhere")?;

    // writes
    let (mut keep, mut set, mut sub) = ([0xff_u8; WINDOW], [0u8; WINDOW], [0u8; WINDOW]);
    let mut moves = Vec::new();
    let shape = guard.shape;
    let (addresses, ports) = (shape.addresses().0, shape.ports());
    // the key as it leaves
    let mut vars = *window;
    for f in &image.writes {
        let f = FieldWrite {
            bit: f.bit + shift * 8,
            ..*f
        };
        let end = f.bit + i32::from(f.bits);
        let whole = f.bit & 7 == 0 && f.bits & 7 == 0;
        if m.bits_of(&f.value) == Some((f.bit, f.bits)) && f.value.add & f.value.mask == 0 {
            continue;
        }
        // what is not in the packet that leaves need not be written
        if !goes_on && end <= start * 8 {
            continue;
        }
        let at = f.bit - template.start * 8;
        if at < 0 || at + i32::from(f.bits) > WINDOW as i32 * 8 {
            return Err("a field behind the first 64 bytes is written");
        }
        let over = shape.meets_key(f.bit, f.bits);
        let in_vars = !shape.v6 && shape.in_key(f.bit, f.bits);
        match m.known(&f.value) {
            Known::Match(v) if in_vars || !over => {
                write_bits(&mut keep, 0, at, f.bits, 0);
                write_bits(&mut set, 0, at, f.bits, v);
                if in_vars {
                    write_bits(&mut vars, 0, f.bit, f.bits, v);
                }
            }
            Known::Flow(v) if in_vars => {
                write_bits(&mut vars, 0, f.bit, f.bits, v);
                action.name.flows = true;
            }
            _ => match m.less(&f.value) {
                Some((n, field)) if field == (f.bit, f.bits) && whole && f.bits == 8 => {
                    *sub.get_mut(at as usize / 8).ok_or(ODD)? = n as u8;
                }
                _ => {
                    let Some(Source::Bits(b)) = code.sources.get(usize::from(f.value.reg)) else {
                        return Err("a value that is no field is written");
                    };
                    let b = b.shifted(shift);
                    if f.value.add & f.value.mask != 0 || b.position().1 != f.bits || over {
                        return Err("a field is written that depends on another");
                    }
                    moves.push((b, at, f.bits));
                }
            },
        }
    }
    if action.name.flows {
        action.keyed = true;
        let place = |at: usize| usize::try_from(at as i32 - template.start).map_err(|_| ODD);
        let two = |at: usize| place(at).and_then(|at| At::of(at).ok_or(ODD));
        let vars = |at: usize, n: usize| vars.get(at..at + n).ok_or(ODD);
        let of = |v: &[u8]| v.iter().rev().fold(0, |n, b| n << 8 | u64::from(*b));
        template.bytes.varies = true;
        template.bytes.vars = At::of(place(addresses)?).ok_or(ODD)?;
        let addresses_out = of(vars(addresses, 8)?);
        // where there is no second port the first one is written over it, and where there is none the addresses over
        // both
        (template.bytes.first, template.bytes.second) = match ports.1 - ports.0 {
            4 => (two(ports.0)?, two(ports.0 + 2)?),
            2 => (two(ports.0)?, two(ports.0)?),
            _ => (two(addresses)?, two(addresses)?),
        };
        let ports_out = of(vars(ports.0, ports.1 - ports.0)?);
        flow.operands = FlowOperands([addresses_out, ports_out]);
    }

    // checksums
    for s in &image.sums {
        let from = s.at + shift;
        let at = from - template.start;
        let place = usize::try_from(at).ok().and_then(At::of);
        let place = place.ok_or("a checksum behind the first 64 bytes")?;
        let expected = match s.kind {
            SumKind::Ip4 => !guard.shape.v6 && from == l3 + 10,
            SumKind::Tcp => shape.tcp() && from == shape.l4() as i32 + 16,
            SumKind::Udp => shape.udp() && from == shape.l4() as i32 + 6,
            // a message of nothing but zeros is something else: a reply with the identifier zero
            SumKind::Icmp => {
                let request = guard.least(shape.l4() as i32 * 8, 8) == 8;
                shape.echo()
                    && from == shape.l4() as i32 + 2
                    && (request || flow.operands.ports() != 0)
            }
        };
        if s.anew || !expected {
            return Err("a checksum that is computed anew");
        }
        let mut sum = 0;
        let mut zero_sums = 0;
        for (i, g) in s.groups.iter().enumerate() {
            for t in g {
                sum += m
                    .term(t, &mut action.keyed)
                    .ok_or("a checksum that depends on more than the flow")?;
            }
            // as numbers modulo 65,535: what it was less what was added so far
            if s.kind == SumKind::Udp && stays_zero(&template, s, i) && sum > 0 {
                let place = flow
                    .zero_udp_checksum
                    .get_mut(zero_sums / 4)
                    .ok_or("too many changes")?;
                *place |= u64::from(checksum::fold(sum).to_be()) << (zero_sums % 4 * 16);
                zero_sums += 1;
                template.zero_udp_checksum = true;
            }
        }
        let k = checksum::fold(sum).to_be();
        match s.kind {
            SumKind::Ip4 if ip_sum.is_none() => {
                ip_sum = Some(place);
                flow.operands.0[1] |= u64::from(k) << 32;
            }
            _ if s.kind != SumKind::Ip4 && l4_sum.is_none() => {
                l4_sum = Some(place);
                flow.operands.0[1] |= u64::from(k) << 48;
            }
            _ => return Err(ODD),
        }
    }
    template.bytes.ip_sum = ip_sum.unwrap_or(template.bytes.ip_sum);
    template.bytes.l4_sum = l4_sum.unwrap_or(template.bytes.l4_sum);
    template.bytes.changes = keep != [0xff; WINDOW] || sub != [0; WINDOW];
    (template.bytes.keep, template.bytes.set, template.bytes.sub) = (keep, set, sub);
    if moves.len() > MAX_MOVES {
        return Err("too many fields are copied");
    }
    template.quick = template.start == 0 && moves.is_empty();
    template.set_moves(moves);
    if !template.bytes.arrange((ip_sum, l4_sum)) {
        (template.quick, template.turn) = (false, None);
    }
    if !action.keyed {
        template.share(flow.operands);
    }
    template.idle = template.quick && template.bytes.writes_nothing();
    Ok((action, template, flow))
}

impl FlowAction {
    /// Nobody is told of packets before they ask.
    pub fn ends(name: Name) -> FlowAction {
        FlowAction {
            name,
            late: (0, 0),
            moment: Pending::default(),
            plain: true,
            keyed: false,
            l3: 0,
            shift: 0,
            left: Vec::new(),
        }
    }
}
