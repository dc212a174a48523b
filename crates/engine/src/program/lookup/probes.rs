//! Packets as traffic has them, so far as a stage's rules let one guess: what guards are chosen by.
//!
//! Each of some rules is met by a few packets that are ordinary where the rule leaves it open (TCP and UDP of four lengths, no
//! options, no fragments, right checksums) and have what it asks for otherwise. Nothing depends on these guesses but speed.

use crate::program::headers::registers::Source;
use crate::program::lookup::rules::StageRules;
use onefold_element::model::ValueSet;

/// Rules that are met.
const RULES: usize = 256;
/// Total lengths of IP packets, and protocols.
const KINDS: [(u16, u8); 8] = [
    (46, 6),
    (46, 17),
    (40, 6),
    (1500, 17),
    (576, 6),
    (576, 17),
    (1500, 6),
    (110, 17),
];
const TTL: u8 = 64;
/// Flags of TCP segments as they are met.
const FLAGS: [u8; 8] = [0x10, 0x18, 0x10, 0x18, 0x10, 0x02, 0x12, 0x11];
/// A rule that asks for something that ordinary packets have otherwise matters so much less.
const ODD: f32 = 0.1;

/// Where headers are.
#[derive(Debug, Clone, Copy)]
struct Form {
    /// The packet begins with its Ethernet header.
    ether: bool,
    six: bool,
}

const FORMS: [Form; 4] = [
    Form {
        ether: true,
        six: false,
    },
    Form {
        ether: false,
        six: false,
    },
    Form {
        ether: true,
        six: true,
    },
    Form {
        ether: false,
        six: true,
    },
];

impl Form {
    /// Is it part of an address or a port? Those are what they are, none is odd.
    fn any_value(self, source: &Source) -> bool {
        let Source::Bits(b) = source else {
            return matches!(source, Source::Slot | Source::Anno(..) | Source::Route(..));
        };
        let ip = if self.ether { 14 } else { 0 };
        let (addresses, ports) = match self.six {
            true => (ip + 8, ip + 40),
            false => (ip + 12, ip + 20),
        };
        let within =
            |from: i32, to: i32| b.first() >= from && b.first() + i32::from(b.bytes()) <= to;
        within(ip - 14, ip - 2) || within(addresses, ports) || within(ports, ports + 4)
    }

    /// Is that no ordinary packet's value?
    fn is_odd(self, source: &Source, v: u128) -> bool {
        match source {
            // to a group of stations
            Source::Bits(b) if self.ether && b.first() == 0 && b.bytes() == 6 => v >> 40 & 1 == 1,
            s => !self.any_value(s),
        }
    }
}

/// Values of all fields, for each probe.
#[derive(Debug, Clone, Default)]
pub(crate) struct Probes {
    fields: usize,
    values: Vec<u128>,
    pub weights: Vec<f32>,
    /// Probes of one form have their headers in the same places.
    pub forms: Vec<u8>,
    /// Ordinary packets of each form, whatever rules ask for.
    usual: Vec<Vec<Vec<u128>>>,
}

impl Probes {
    pub fn len(&self) -> usize {
        self.weights.len()
    }

    pub fn values(&self, probe: usize) -> &[u128] {
        let at = probe * self.fields;
        self.values.get(at..at + self.fields).unwrap_or_default()
    }

    /// Are there ordinary packets of this form that have not this in a field of the header?
    pub fn some_differ(&self, rules: &StageRules, form: u8, field: usize, set: &ValueSet) -> bool {
        let (i, source) = (usize::from(form), &rules.fields[field].source);
        let header = matches!(source, Source::Bits(_)) && !FORMS[i % FORMS.len()].any_value(source);
        let mut usual = self.usual.get(i).into_iter().flatten();
        header && usual.any(|v| v.get(field).is_some_and(|v| !set.contains(*v)))
    }

    /// Of a stage.
    pub fn of(rules: &StageRules) -> Probes {
        let mut p = Probes {
            fields: rules.fields.len(),
            ..Probes::default()
        };
        let mut random = Random(0x9e37_79b9_7f4a_7c15);
        let all = |form| KINDS.map(|kind| ordinary(rules, form, kind, &mut random));
        p.usual = FORMS.map(all).map(|form| form.to_vec()).to_vec();
        let usual = FORMS.map(|form| ordinary(rules, form, KINDS[0], &mut random));
        let step = rules.len().div_ceil(RULES).max(1);
        for i in (0..rules.len()).step_by(step) {
            let asked = rules.rule(i);
            let set = |(f, s): &(u16, u32)| &rules.fields[usize::from(*f)].sets[*s as usize];
            // the form that most of the rule's conditions agree with
            let agree = |form: &usize| {
                let v = &usual[*form];
                let good = asked
                    .iter()
                    .filter(|a| set(a).contains(v[usize::from(a.0)]));
                (good.count(), std::cmp::Reverse(*form))
            };
            let Some(form) = (0..FORMS.len()).max_by_key(agree) else {
                continue;
            };
            let weight = rules.weights.get(i).copied().unwrap_or(0.0) / KINDS.len() as f32;
            for kind in KINDS {
                let mut v = ordinary(rules, FORMS[form], kind, &mut random);
                let mut weight = weight;
                for a in asked {
                    let (set, v) = (set(a), &mut v[usize::from(a.0)]);
                    if set.contains(*v) {
                        continue;
                    }
                    let n = random.next() as usize % set.intervals().len().max(1);
                    let (lo, hi) = set.intervals().get(n).copied().unwrap_or((0, 0));
                    // what is drawn has 64 bits; more matter to nobody
                    *v = lo + u128::from(random.next()) % (hi - lo).saturating_add(1);
                    if FORMS[form].is_odd(&rules.fields[usize::from(a.0)].source, *v) {
                        weight *= ODD;
                    }
                }
                if weight > 0.0 {
                    p.values.extend(v);
                    p.weights.push(weight);
                    p.forms.push(form as u8);
                }
            }
        }
        p
    }
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn port(&mut self) -> u16 {
        let r = self.next();
        match r % 4 {
            0 => (r >> 8) as u16 % 1024,
            1 => 1024 + (r >> 8) as u16 % 4096,
            _ => 1024 + (r >> 8) as u16 % (65_535 - 1024),
        }
    }
}

/// What the fields are of an ordinary packet.
fn ordinary(
    rules: &StageRules,
    form: Form,
    (total, proto): (u16, u8),
    random: &mut Random,
) -> Vec<u128> {
    use onefold_element::model::HeaderCheck::*;
    const ROOM: usize = 64;
    let mut buf = vec![0u8; ROOM];
    let address = |buf: &mut Vec<u8>, random: &mut Random, n: usize| {
        buf.extend(&random.next().to_be_bytes()[..n]);
    };
    for _ in 0..2 {
        buf.push(2);
        address(&mut buf, random, 5);
    }
    match form.six {
        false => {
            buf.extend([8, 0, 0x45, 0]);
            buf.extend(total.to_be_bytes());
            buf.extend((random.next() as u16).to_be_bytes());
            buf.extend([0x40, 0, TTL, proto]);
            // the header's checksum, both addresses
            address(&mut buf, random, 2);
            address(&mut buf, random, 8);
        }
        true => {
            buf.extend([0x86, 0xdd, 0x60, 0, 0, 0]);
            buf.extend(total.saturating_sub(40).to_be_bytes());
            buf.extend([proto, TTL]);
            for _ in 0..4 {
                address(&mut buf, random, 8);
            }
        }
    }
    let ports = [random.port(), random.port()];
    buf.extend(ports.iter().flat_map(|p| p.to_be_bytes()));
    // as often as not there is nothing behind the ports
    let zeros = random.next().is_multiple_of(2);
    for _ in 0..4 {
        address(&mut buf, random, 8);
    }
    if zeros {
        let n = buf.len();
        buf[n - 32..].fill(0);
    }
    if proto == 6 {
        let flags = buf.len() - 32 + 9;
        buf[flags] = FLAGS[random.next() as usize % FLAGS.len()];
    }
    let head = if form.ether { ROOM } else { ROOM + 14 };
    let len = (14 + usize::from(total)).max(60) + ROOM - head;
    (rules.fields.iter())
        .map(|f| match &f.source {
            Source::Len => len as u128,
            Source::Bits(b) => b.read(&buf, head),
            Source::Check(check, ..) => u128::from(match check {
                Ip4Fits | Ip4Checksum => !form.six,
                Ip6Fits => form.six,
                TcpChecksum => !form.six && proto == 6,
                UdpChecksum | UdpFits => !form.six && proto == 17,
                IcmpChecksum => false,
            }),
            Source::Slot | Source::Anno(..) | Source::PacketType | Source::Route(..) => 0,
        })
        .collect()
}
