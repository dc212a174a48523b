//! IPv6 packets in columns, with IPv4 packets among them: by intervals of addresses, and by keys of five words.

use crate::both;
#[allow(dead_code)]
use crate::harness;

use both::Both;
use harness::{Frame, Rng};

/// A router for both, with these rules for IPv6, and a translator for IPv4 if so wanted.
fn chain(rules: &str, v4: &str) -> String {
    format!(
        "c :: Classifier(12/86dd, 12/0800, -);
         FromDevice(in) -> c;
         c [0] -> Strip(14) -> CheckIP6Header -> IP6Filter({rules}) -> DecIP6HLIM
           -> EtherEncap(0x86dd, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(six);
         c [1] -> Strip(14) -> CheckIPHeader -> {v4} DecIPTTL
           -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(four);
         c [2] -> Discard;"
    )
}

/// Prefixes of several lengths, ports, and protocols.
const FEW: &str = "deny src net 2001:db8:0:bad::/64, allow src net 2001:db8::/32 && tcp && (dst port 80 or 443), \
    deny dst net 2001:db8:1:1:8000::/65, allow src net 2001:db8::/32 && udp && src port > 1100, \
    allow src net 2001:db8::/32 && ip proto 58, deny all";

/// Nothing is asked of addresses, and ports decide.
const NO_ADDRESSES: &str = "allow tcp && dst port 80, allow udp, deny all";

/// So many hosts that there are entries, under keys of five words.
fn hosts() -> String {
    let host = |i: u32| format!("deny src host 2001:db8::{:x}, ", i * 2);
    let hosts: String = (1..200).map(host).collect();
    format!("{hosts} allow ip proto 58, {FEW}")
}

/// A frame with these addresses (the last two words of the source, and two of the destination), next header, ports.
fn frame6(src: [u16; 2], dst: [u16; 2], next: u8, ports: [u16; 2], payload: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
    let head = match next {
        6 => 20,
        17 | 58 => 8,
        _ => 0,
    };
    f.extend([0x60, 0, 0, 0]);
    f.extend((head + payload as u16).to_be_bytes());
    f.extend([next, 64]);
    for words in [
        [0x2001, 0xdb8, 0, src[0], 0, 0, 0, src[1]],
        [0x2001, 0xdb8, 1, 1, dst[0], 0, 0, dst[1]],
    ] {
        f.extend(words.iter().flat_map(|w| w.to_be_bytes()));
    }
    let mut upper = vec![0; usize::from(head) + payload];
    if head > 0 {
        let [a, b] = ports.map(u16::to_be_bytes);
        upper[..4].copy_from_slice(&[a[0], a[1], b[0], b[1]]);
    }
    if next == 6 {
        upper[12..14].copy_from_slice(&[0x50, 0x10]);
    }
    if next == 58 {
        upper[..2].copy_from_slice(&[128, 0]);
    }
    f.extend(upper);
    f
}

/// One of the packets that these chains tell apart; now and then one that ends early, is longer than it says, or is not
/// what it seems to be.
fn random(r: &mut Rng) -> Vec<u8> {
    if r.one_in(4) {
        let proto = r.of(&[6, 17, 17, 1]);
        return Frame {
            src: [10, 0, 0, r.below(6) as u8],
            dst: [8, 8, 8, 8],
            proto,
            ports: (1000 + r.below(4) as u16, r.of(&[53, 80])),
            flags: 0x10,
            payload: r.of(&[0, 20]),
            ..Frame::default()
        }
        .bytes();
    }
    let src = [r.of(&[0, 0, 0xbad]), r.below(40) as u16];
    let dst = [r.of(&[0, 0x8000, 0x7fff]), r.below(3) as u16];
    let ports = [1098 + r.below(6) as u16, r.of(&[80, 443, 53])];
    let mut f = frame6(
        src,
        dst,
        r.of(&[6, 6, 17, 17, 58, 47]),
        ports,
        r.of(&[0, 0, 3, 30]),
    );
    match r.below(40) {
        0 => f.truncate(f.len() - 1),
        1 => f.extend([0; 9]),
        2 => f[21] = r.of(&[0, 1, 2]),
        3 => f[14] = 0x50,
        4 => f[22] = r.of(&[0xfe, 0xff, 0]),
        5 => f[15..18].copy_from_slice(&[1, 2, 3]),
        _ => {}
    }
    f
}

/// Batches through one of these chains; `entries`: there are some.
fn run(text: &str, seed: u64, entries: bool) {
    let mut b = Both::new(text, 4096);
    let mut r = Rng(seed);
    let all: Vec<Vec<u8>> = (0..400).map(|_| random(&mut r)).collect();
    for round in 0..300 {
        let n = r.below(80) + 1;
        let some: Vec<_> = (0..n).map(|_| all[r.below(400) as usize].clone()).collect();
        b.batch("in", &some, r.of(&[0, 1000, 1_000_000]));
        if round % 50 == 49 {
            b.compare();
        }
    }
    b.compare();
    let s = b.flow.stats();
    assert!(
        s.hits > 8000 && s.refused == 0,
        "{s:?} {:?}",
        b.flow.causes()
    );
    assert_eq!(s.entries > 100, entries, "{s:?}");
    assert!(s.classes > 3, "{s:?}");
}

#[test]
fn by_intervals() {
    run(&chain(FEW, ""), 0x1234_5678_9abc_def1, false);
    run(&chain(NO_ADDRESSES, ""), 0x1234_5678_9abc_def3, false);
}

/// IPv4 packets without entries, and IPv6 packets with them.
#[test]
fn by_long_keys() {
    run(&chain(&hosts(), ""), 0x1234_5678_9abc_def5, true);
}

/// IPv4 packets with entries under short keys, and IPv6 packets with and without entries.
#[test]
fn by_keys_of_both_lengths() {
    let v4 = "rw :: IPRewriter(pattern 203.0.113.1 1024-65535# - - 0 0) ->";
    for (rules, seed) in [(FEW, 7), (&*hosts(), 9)] {
        let mut b = Both::new(&chain(rules, v4), 4096);
        let mut r = Rng(0x1234_5678_9abc_de00 + seed);
        let all: Vec<Vec<u8>> = (0..200).map(|_| random(&mut r)).collect();
        for _ in 0..300 {
            let some: Vec<_> = (0..64)
                .map(|_| all[r.below(200) as usize].clone())
                .collect();
            b.batch("in", &some, 1000);
        }
        b.compare();
        let s = b.flow.stats();
        assert!(
            s.hits > 8000 && s.refused == 0,
            "{s:?} {:?}",
            b.flow.causes()
        );
        assert!(s.entries > 8 && s.leases > 8, "{s:?}");
    }
}

/// All of the above with the instructions of other processors, as in `flow.rs`.
#[test]
fn with_fewer_instructions() {
    both::with_fewer_instructions(module_path!());
}
