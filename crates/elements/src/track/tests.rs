//! The tracker against a plain list of connections, and packet by packet.

use super::begin::Confirmed;
use super::class::{ConnClass, ConnState};
use super::headers::{Seen, is_fragment, read};
use super::settings::Settings;
use super::table::{ConnTable, Found, millis};
use crate::testing::cases;
use onefold_element::NO_HINT;
use onefold_packet::{Timestamp, checksum};
use proptest::prelude::*;
use std::collections::BTreeMap;

mod batch;
mod leases;
mod marks;
mod usual;

const FIN: u8 = 1;
const SYN: u8 = 2;
const RST: u8 = 4;
const ACK: u8 = 16;

/// An IPv4 packet, or IPv6 where `v6`, between two of a few hosts, with right checksums.
fn packet(v6: bool, (src, dst): (u8, u8), protocol: u8, upper: &[u8]) -> Vec<u8> {
    let mut b = Vec::new();
    let (s, d) = match v6 {
        false => (vec![10, 0, 0, src], vec![10, 0, 0, dst]),
        true => {
            let of = |last: u8| [&[0x20, 1][..], &[0; 13], &[last]].concat();
            (of(src), of(dst))
        }
    };
    if v6 {
        b.extend([0x60, 0, 0, 0]);
        b.extend((upper.len() as u16).to_be_bytes());
        b.extend([protocol, 64]);
    } else {
        b.extend([0x45, 0]);
        b.extend((20 + upper.len() as u16).to_be_bytes());
        b.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
    }
    b.extend(&s);
    b.extend(&d);
    let head = b.len();
    b.extend(upper);
    let at = match protocol {
        6 => 16,
        17 => 6,
        1 | 58 => 2,
        _ => return b,
    };
    let pseudo = match protocol {
        1 => 0,
        p => checksum::sum(&s, checksum::sum(&d, u64::from(p) + upper.len() as u64)),
    };
    let sum = !checksum::fold(checksum::sum(&b[head..], pseudo));
    b[head + at..head + at + 2].copy_from_slice(&sum.to_be_bytes());
    b
}

fn tcp(ports: (u16, u16), flags: u8, seq: u32, ack: u32, payload: usize) -> Vec<u8> {
    let mut b = Vec::new();
    b.extend(ports.0.to_be_bytes());
    b.extend(ports.1.to_be_bytes());
    b.extend(seq.to_be_bytes());
    b.extend(ack.to_be_bytes());
    b.extend([0x50, flags, 16, 0, 0, 0, 0, 0]);
    b.resize(20 + payload, 7);
    b
}

fn udp(ports: (u16, u16)) -> Vec<u8> {
    let mut b = Vec::new();
    b.extend(ports.0.to_be_bytes());
    b.extend(ports.1.to_be_bytes());
    b.extend([0, 10, 0, 0, 1, 2]);
    b
}

fn icmp(kind: u8, id: u16) -> Vec<u8> {
    let [a, b] = id.to_be_bytes();
    vec![kind, 0, 0, 0, a, b, 0, 1]
}

/// A table and its clock, in milliseconds.
struct Rig {
    table: ConnTable,
    now: u64,
}

impl Rig {
    fn new() -> Rig {
        Rig {
            table: ConnTable::new(Settings::default()),
            now: 1_000_000,
        }
    }
    /// A packet through the tracker, and through a rule that lets everything pass.
    fn pass(&mut self, b: &[u8]) -> ConnClass {
        let c = self.look(b);
        let confirmed = self.table.confirm(&read(b, true), self.now);
        assert!(matches!(confirmed, Confirmed::Passes | Confirmed::Entered));
        c
    }
    /// A packet through the tracker, and dropped behind it.
    fn look(&mut self, b: &[u8]) -> ConnClass {
        match self.table.track(&read(b, true), self.now) {
            Found::Is(c, _) => c,
            Found::Full => panic!("full"),
        }
    }
    fn state(&mut self, b: &[u8]) -> String {
        let c = self.pass(b);
        let reply = if c.reply { " reply" } else { "" };
        format!("{}{reply}", c.state.name())
    }
    fn text(&self) -> String {
        self.table.text(self.now)
    }
}

#[test]
fn a_connection_of_tcp_from_syn_to_the_last_ack() {
    let mut r = Rig::new();
    let there = |flags, seq, ack| packet(false, (1, 2), 6, &tcp((1000, 80), flags, seq, ack, 0));
    let back = |flags, seq, ack| packet(false, (2, 1), 6, &tcp((80, 1000), flags, seq, ack, 0));
    // dropped: nothing stays
    assert_eq!(r.look(&there(SYN, 9, 0)).state, ConnState::New);
    assert_eq!(r.text(), "");
    assert_eq!(r.state(&there(SYN, 9, 0)), "new");
    assert_eq!(r.text(), "6 10.0.0.1 1000 10.0.0.2 80 SYN_SENT 120\n");
    // a SYN again does not keep it longer
    r.now += 20_000;
    assert_eq!(r.state(&there(SYN, 9, 0)), "new");
    assert_eq!(r.text(), "6 10.0.0.1 1000 10.0.0.2 80 SYN_SENT 100\n");
    assert_eq!(r.state(&back(SYN | ACK, 100, 10)), "established reply");
    assert_eq!(
        r.text(),
        "6 10.0.0.1 1000 10.0.0.2 80 SYN_RECV seen-reply 60\n"
    );
    assert_eq!(r.state(&there(ACK, 10, 101)), "established");
    assert_eq!(
        r.text(),
        "6 10.0.0.1 1000 10.0.0.2 80 ESTABLISHED seen-reply assured 432000\n"
    );
    // a reset with a number that nobody waits for leaves it established, for a while
    assert_eq!(r.state(&back(RST, 77, 0)), "established reply");
    assert!(
        r.text().contains("ESTABLISHED seen-reply assured 10\n"),
        "{}",
        r.text()
    );
    assert_eq!(r.state(&there(FIN | ACK, 10, 101)), "established");
    assert!(
        r.text().contains("FIN_WAIT seen-reply assured 120\n"),
        "{}",
        r.text()
    );
    assert_eq!(r.state(&back(ACK, 101, 11)), "established reply");
    assert!(
        r.text().contains("CLOSE_WAIT seen-reply assured 60\n"),
        "{}",
        r.text()
    );
    assert_eq!(r.state(&back(FIN | ACK, 101, 11)), "established reply");
    assert!(
        r.text().contains("LAST_ACK seen-reply assured 30\n"),
        "{}",
        r.text()
    );
    assert_eq!(r.state(&there(ACK, 11, 102)), "established");
    assert!(
        r.text().contains("TIME_WAIT seen-reply assured 120\n"),
        "{}",
        r.text()
    );
    // the same ports again: another connection
    assert_eq!(r.state(&there(SYN, 5000, 0)), "new");
    assert!(r.text().contains("SYN_SENT 120\n"), "{}", r.text());
    assert_eq!((r.table.totals.ended, r.table.totals.entered), (1, 2));
    // refused: the answer ends it
    assert_eq!(r.state(&back(RST | ACK, 0, 5001)), "established reply");
    assert_eq!(r.text(), "");
    // both of the reset's numbers are known: the connection is closed
    for p in [
        there(SYN, 9, 0),
        back(SYN | ACK, 100, 10),
        there(ACK, 10, 101),
    ] {
        r.pass(&p);
    }
    assert_eq!(r.state(&back(RST, 101, 0)), "established reply");
    assert!(
        r.text().contains("CLOSE seen-reply assured 10\n"),
        "{}",
        r.text()
    );
    r.now += 10_000;
    assert_eq!(r.look(&back(ACK, 101, 10)).state, ConnState::New);
}

#[test]
fn what_the_first_segment_of_a_picked_up_connection_acknowledges() {
    let there = |flags, seq, ack| packet(false, (1, 2), 6, &tcp((1000, 80), flags, seq, ack, 0));
    let back = |flags, seq, ack| packet(false, (2, 1), 6, &tcp((80, 1000), flags, seq, ack, 0));
    // as Linux does: a reset need not have the number that the first segment acknowledges, unless that is by chance in
    // the window of somebody who has sent nothing
    let cases = [
        (1, "CLOSE"),
        (0x4000_0000, "CLOSE"),
        (0x8000_0000, "CLOSE"),
        (0, "ESTABLISHED"),
        (0u32.wrapping_sub(66_000), "ESTABLISHED"),
        (0u32.wrapping_sub(66_001), "CLOSE"),
    ];
    for (ack, state) in cases {
        let mut r = Rig::new();
        for p in [there(ACK, 9, ack), back(ACK, ack, 9), back(ACK, ack, 9)] {
            r.pass(&p);
        }
        assert_eq!(r.state(&back(RST, 7, 0)), "established reply");
        let line = format!("{state} seen-reply assured 10\n");
        assert!(r.text().contains(&line), "{ack}: {}", r.text());
    }
    // a later one's number counts
    let mut r = Rig::new();
    for p in [
        there(ACK, 9, 1),
        back(ACK, 1, 9),
        back(ACK, 1, 9),
        there(ACK, 9, 1),
    ] {
        r.pass(&p);
    }
    assert_eq!(r.state(&back(RST, 7, 0)), "established reply");
    assert!(r.text().contains("ESTABLISHED seen-reply assured 10\n"));
}

#[test]
fn tcp_that_is_out_of_step() {
    let mut r = Rig::new();
    let there = |flags, seq, ack| packet(false, (1, 2), 6, &tcp((1000, 80), flags, seq, ack, 0));
    let back = |flags, seq, ack| packet(false, (2, 1), 6, &tcp((80, 1000), flags, seq, ack, 0));
    // in the middle: for five minutes, until an answer comes
    assert_eq!(r.state(&there(ACK, 9, 9)), "new");
    assert_eq!(r.text(), "6 10.0.0.1 1000 10.0.0.2 80 ESTABLISHED 300\n");
    // a SYN that is ignored, and its answer: in step again
    assert_eq!(r.state(&there(SYN, 50, 0)), "new");
    assert!(r.text().contains("ESTABLISHED 300\n"));
    assert_eq!(r.state(&back(SYN | ACK, 70, 51)), "established reply");
    assert!(
        r.text().contains("SYN_RECV seen-reply 60\n"),
        "{}",
        r.text()
    );
    // both at once
    let mut r = Rig::new();
    r.pass(&there(SYN, 9, 0));
    assert_eq!(r.state(&back(SYN, 19, 0)), "established reply");
    assert!(r.text().contains("SYN_SENT2"));
    assert_eq!(r.state(&there(SYN | ACK, 9, 20)), "established");
    assert_eq!(r.state(&back(ACK, 20, 10)), "established reply");
    assert!(
        r.text().contains("ESTABLISHED seen-reply assured"),
        "{}",
        r.text()
    );
    // nothing begins with these
    for flags in [SYN | ACK, FIN | ACK, RST, 0, SYN | FIN, SYN | RST, FIN] {
        let mut r = Rig::new();
        assert_eq!(r.state(&there(flags, 1, 1)), "invalid", "{flags}");
        assert_eq!(r.text(), "");
    }
    let mut r = Rig::new();
    r.table.settings.loose = false;
    assert_eq!(r.state(&there(ACK, 1, 1)), "invalid");
    // a challenge in LAST_ACK is no acknowledgement of the last FIN
    let mut r = Rig::new();
    let all = [
        there(SYN, 9, 0),
        back(SYN | ACK, 100, 10),
        there(ACK, 10, 101),
        there(FIN | ACK, 10, 101),
        back(FIN | ACK, 101, 11),
    ];
    for p in &all {
        r.pass(p);
    }
    assert!(r.text().contains("LAST_ACK"));
    r.pass(&there(SYN, 5000, 0));
    r.pass(&back(ACK, 102, 11));
    assert!(r.text().contains("LAST_ACK"), "{}", r.text());
    r.pass(&there(ACK, 11, 102));
    assert!(r.text().contains("TIME_WAIT"), "{}", r.text());
}

#[test]
fn udp_becomes_a_stream() {
    for v6 in [false, true] {
        let mut r = Rig::new();
        let (there, back) = (
            packet(v6, (1, 2), 17, &udp((1000, 53))),
            packet(v6, (2, 1), 17, &udp((53, 1000))),
        );
        assert_eq!(r.state(&there), "new");
        assert_eq!(r.state(&there), "new");
        assert_eq!(r.state(&back), "established reply");
        r.now += 1000;
        assert_eq!(r.state(&there), "established");
        assert!(r.text().contains(" seen-reply 30\n"), "{}", r.text());
        r.now += 1001;
        assert_eq!(r.state(&back), "established reply");
        assert!(
            r.text().contains(" seen-reply assured 120\n"),
            "{}",
            r.text()
        );
        r.now += 120_000;
        assert_eq!(r.state(&back), "new");
        assert_eq!(r.table.totals.expired, 1);
    }
}

#[test]
fn pings_and_errors() {
    for (v6, p, ask, answer, error) in [(false, 1, 8, 0, 3), (true, 58, 128, 129, 1)] {
        let mut r = Rig::new();
        let reply = packet(v6, (2, 1), p, &icmp(answer, 7));
        assert_eq!(r.state(&reply), "invalid");
        assert_eq!(r.state(&packet(v6, (1, 2), p, &icmp(ask, 7))), "new");
        assert_eq!(r.state(&reply), "established reply");
        assert_eq!(r.state(&packet(v6, (2, 1), p, &icmp(answer, 8))), "invalid");
        // errors: from anywhere, to whom sent the packet
        let quoted = packet(v6, (1, 2), 17, &udp((1000, 53)));
        let about = |quoted: &[u8], to: u8| {
            let body = [&[error, 1, 0, 0, 0, 0, 0, 0][..], quoted].concat();
            packet(v6, (9, to), p, &body)
        };
        assert_eq!(r.state(&about(&quoted, 1)), "invalid");
        r.pass(&quoted);
        assert_eq!(r.state(&about(&quoted, 1)), "related reply");
        assert_eq!(r.state(&about(&quoted, 3)), "invalid");
        let back = packet(v6, (2, 1), 17, &udp((53, 1000)));
        assert_eq!(r.state(&about(&back, 2)), "related");
        // so much of it as routers have to send
        let short = &quoted[..if v6 { 48 } else { 28 }];
        assert_eq!(r.state(&about(short, 1)), "related reply");
        // an error keeps nothing longer
        let before = r.text();
        assert_eq!(r.state(&about(&quoted, 1)), "related reply");
        assert_eq!(r.text(), before);
    }
    let mut r = Rig::new();
    for kind in [130, 133, 134, 135, 136, 143] {
        let c = r.pass(&packet(true, (1, 2), 58, &icmp(kind, 0)));
        assert_eq!(c.state, ConnState::Untracked, "{kind}");
    }
    assert_eq!(r.state(&packet(true, (1, 2), 58, &icmp(137, 0))), "invalid");
    assert_eq!(r.state(&packet(false, (1, 2), 1, &icmp(19, 0))), "invalid");
    assert_eq!(r.text(), "");
}

#[test]
fn what_is_no_packet_of_anything() {
    let good = packet(false, (1, 2), 17, &udp((1, 2)));
    let invalid = |change: &dyn Fn(&mut Vec<u8>)| {
        let mut b = good.clone();
        change(&mut b);
        matches!(read(&b, true), Seen::Invalid(_))
    };
    assert!(!invalid(&|_| {}));
    assert!(invalid(&|b| b[29] ^= 1));
    assert!(invalid(&|b| b.truncate(29)));
    assert!(invalid(&|b| b[6] = 0x20));
    assert!(invalid(&|b| b[7] = 1));
    assert!(invalid(&|b| b[0] = 0x46));
    assert!(invalid(&|b| b[25] = 7));
    assert!(invalid(&|b| b[25] = 200));
    // without a checksum
    assert!(!invalid(&|b| (b[26], b[27]) = (0, 0)));
    let mut b = good.clone();
    b[29] ^= 1;
    assert!(matches!(read(&b, false), Seen::Packet(_)));
    for n in 0..good.len() {
        read(&good[..n], true);
    }
    assert!(matches!(read(&[], true), Seen::Invalid(_)));
}

#[test]
fn connections_give_way_unless_they_are_assured() {
    let mut r = Rig::new();
    r.table.settings.capacity = 3;
    let of = |port: u16, back: bool| match back {
        false => packet(false, (1, 2), 17, &udp((port, 53))),
        true => packet(false, (2, 1), 17, &udp((53, port))),
    };
    for port in 1..=3 {
        r.pass(&of(port, false));
        r.pass(&of(port, true));
    }
    r.now += 3000;
    r.pass(&of(1, false));
    r.pass(&of(2, false));
    assert_eq!(r.text().matches(" assured ").count(), 2);
    r.pass(&of(4, false));
    assert_eq!((r.table.len(r.now), r.table.totals.evicted), (3, 1));
    assert!(!r.text().contains(" 3 10.0.0.2"), "{}", r.text());
    r.pass(&of(4, true));
    r.now += 3000;
    r.pass(&of(4, false));
    let next = read(&of(5, false), true);
    assert_eq!(r.table.track(&next, r.now), Found::Full);
    assert_eq!(r.table.confirm(&next, r.now), Confirmed::Full);
    assert_eq!(r.table.totals.full, 2);
    // what has ended has no place
    r.now += 120_000;
    r.pass(&of(5, false));
    assert_eq!(r.table.len(r.now), 1);
    r.table.flush();
    assert_eq!(r.text(), "");
}

/// A connection of UDP or of pings, as plainly as can be: addresses and ports of both directions, when it ends.
#[derive(Debug, Clone, PartialEq)]
struct Plain {
    ends: u64,
    streams: u64,
    seen: bool,
    assured: bool,
}

type Tuple = (u8, u8, u16, u16, u8);

proptest! {
    #![proptest_config(cases(128))]

    /// UDP and pings against a map of tuples, and what is refreshed against what is tracked.
    #[test]
    fn as_a_map_of_tuples(
        steps in prop::collection::vec(
            (0u8..3, 0u8..3, 0u16..2, 0u16..2, 0u8..3, 0u64..40_000, any::<bool>(), any::<bool>()),
            1..120,
        ),
        v6: bool,
    ) {
        let (mut r, mut twin) = (Rig::new(), Rig::new());
        let mut model: BTreeMap<Tuple, Plain> = BTreeMap::new();
        let mut hints: BTreeMap<Tuple, u32> = BTreeMap::new();
        for (src, dst, sport, dport, what, wait, drops, short) in steps {
            r.now += if short { wait / 100 } else { wait };
            twin.now = r.now;
            let (ask, answer, p) = if v6 { (128, 129, 58) } else { (8, 0, 1) };
            // pings are told apart by their identifier, and by who asks
            let (b, tuple, inverse): (_, Tuple, Tuple) = match what {
                0 => (
                    packet(v6, (src, dst), 17, &udp((sport, dport))),
                    (src, dst, sport, dport, 0),
                    (dst, src, dport, sport, 0),
                ),
                k => (
                    packet(v6, (src, dst), p, &icmp(if k == 1 { ask } else { answer }, sport)),
                    (src, dst, sport, 0, k),
                    (dst, src, sport, 0, 3 - k),
                ),
            };
            model.retain(|_, c| r.now < c.ends);
            // of a packet to itself, the answer is found
            let found = [(inverse, true), (tuple, false)].into_iter().find(|(t, _)| model.contains_key(t));
            let expected = match found {
                Some((t, reply)) => {
                    let c = model.get_mut(&t).unwrap();
                    let state = if reply || c.seen { ConnState::Established } else { ConnState::New };
                    let stays = match (what, c.seen && r.now > c.streams) {
                        (0, true) => {
                            c.assured = true;
                            120_000
                        }
                        _ => 30_000,
                    };
                    c.ends = r.now + stays;
                    c.seen |= reply;
                    let (seen_reply, assured) = (c.seen, c.assured);
                    let known = ConnClass { reply, seen_reply, assured, ..ConnClass::without(state) };
                    ConnClass { confirmed: true, ..known }
                }
                None if what == 2 => ConnClass::without(ConnState::Invalid),
                None => {
                    if !drops {
                        let c = Plain { ends: r.now + 30_000, streams: r.now + 2000, seen: false, assured: false };
                        model.insert(tuple, c);
                    }
                    ConnClass::without(ConnState::New)
                }
            };
            let got = if drops { r.look(&b) } else { r.pass(&b) };
            prop_assert_eq!(got, expected);
            // the same through the short way, where it is taken
            let Seen::Packet(seen) = read(&b, true) else { panic!("a packet") };
            let hint = hints.get(&tuple).copied().unwrap_or(NO_HINT);
            let established = |c: ConnClass| c == expected && c.state == ConnState::Established;
            twin.table.prefetch(&[hint]);
            match twin.table.refresh(&seen, hint, twin.now, established) {
                Some(h) => {
                    hints.insert(tuple, h);
                }
                None => {
                    twin.look(&b);
                    if !drops {
                        twin.table.confirm(&Seen::Packet(seen), twin.now);
                    }
                }
            }
            prop_assert_eq!(onefold_element::State::summary(&r.table), onefold_element::State::summary(&twin.table));
            prop_assert_eq!(r.table.len(r.now), model.len());
        }
    }

    /// TCP in any order: what is refreshed is what would have been tracked.
    #[test]
    fn refreshed_is_tracked(
        steps in prop::collection::vec(
            (any::<bool>(), 0usize..8, 0u32..4, 0u32..4, 0u64..100_000, 0usize..3, any::<bool>()),
            1..200,
        ),
    ) {
        let (mut r, mut twin) = (Rig::new(), Rig::new());
        let mut hint = NO_HINT;
        let mut refreshed = 0;
        for (back, flags, seq, ack, wait, payload, lively) in steps {
            r.now += wait / 10;
            twin.now = r.now;
            let flags = [SYN, SYN | ACK, ACK, ACK, ACK, ACK, FIN | ACK, RST][if lively { flags } else { 2 }];
            let (ends, ports) = if back { ((2, 1), (80, 1000)) } else { ((1, 2), (1000, 80)) };
            let b = packet(false, ends, 6, &tcp(ports, flags, seq, ack, payload));
            let class = r.pass(&b);
            let Seen::Packet(seen) = read(&b, true) else { panic!("a packet") };
            match twin.table.refresh(&seen, hint, twin.now, |c| c == class) {
                Some(h) => {
                    hint = h;
                    refreshed += 1;
                }
                None => {
                    twin.pass(&b);
                }
            }
            prop_assert_eq!(onefold_element::State::summary(&r.table), onefold_element::State::summary(&twin.table));
        }
        prop_assert!(refreshed <= 200);
    }
}

#[test]
fn elements_share_a_table() {
    assert_eq!(millis(Timestamp::from_secs(2)), 2000);
    use crate::testing::Bench;
    assert!(Bench::new("ConnTable", "UDP 5, TCP_LOOSE false, CAPACITY 7", 0, 0).is_ok());
    for bad in ["UDP 0", "CAPACITY 0", "MARK 1", "ICMP -1"] {
        assert!(Bench::new("ConnTable", bad, 0, 0).is_err(), "{bad}");
    }
    // without a table
    for bad in ["x, -", "", "-"] {
        assert!(Bench::new("ConnTrack", bad, 1, 1).is_err(), "{bad}");
        assert!(Bench::new("ConnConfirm", bad, 1, 1).is_err(), "{bad}");
    }
}

/// IPv6 fragments are found behind other extension headers, too; a fragment header of a whole packet is none (RFC 6946).
#[test]
fn fragments_are_told() {
    let mut b = [0u8; 40];
    b[0] = 0x45;
    b[3] = 40;
    assert!(!is_fragment(&b));
    b[6] = 0x20;
    assert!(is_fragment(&b));
    b[6] = 0;
    b[7] = 1;
    assert!(is_fragment(&b));
    let mut six = [0u8; 64];
    six[0] = 0x60;
    six[5] = 24;
    // hop-by-hop options, then a fragment header, then UDP
    six[6] = 0;
    six[40] = 44;
    six[48] = 17;
    assert!(!is_fragment(&six), "whole");
    six[51] = 1;
    assert!(is_fragment(&six), "the first one");
    six[50] = 1;
    six[51] = 0;
    assert!(is_fragment(&six), "a later one");
    // one that leads to nothing is one all the same
    six[48] = 59;
    six[50..52].copy_from_slice(&[0, 1]);
    assert!(is_fragment(&six));
    six[40] = 17;
    assert!(!is_fragment(&six) && !is_fragment(&[]) && !is_fragment(&six[..45]));
}
