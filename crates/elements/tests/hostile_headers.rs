//! No packet, and no set of header annotations, makes a header or printing element panic, lose a packet or make one up.

use onefold_elements::testing::Bench;
use onefold_packet::{Packet, Pkt, Timestamp};

/// Class, configuration, outputs.
#[rustfmt::skip]
const CASES: &[(&str, &str, usize)] = &[
    ("Strip", "14", 1), ("Strip", "4294967295", 1), ("Unstrip", "14", 1), ("Unstrip", "3000", 1),
    ("StripToNetworkHeader", "", 1), ("StripIPHeader", "", 1), ("UnstripIPHeader", "", 1), ("StripTCPHeader", "", 1),
    ("UnstripTransportHeader", "", 1), ("StripEtherVLANHeader", "-1", 2), ("Truncate", "20", 1), ("Pad", "", 1),
    ("Pad", "60, RANDOM true, MAXLENGTH 50", 1), ("Align", "8, 3", 1), ("MarkIPHeader", "0", 1), ("MarkIPHeader", "-20", 1),
    ("MarkMACHeader", "4000000000, 4000000000", 1), ("CheckIPHeader", "", 2), ("CheckIPHeader", "14, VERBOSE true", 1),
    ("CheckIPHeader", "4294967295", 2), ("CheckIPHeader2", "3", 2), ("CheckTCPHeader", "", 2), ("CheckUDPHeader", "", 2),
    ("CheckICMPHeader", "", 2), ("CheckARPHeader", "", 2), ("CheckARPHeader", "14, DETAILS true", 1),
    ("SetIPChecksum", "", 1), ("SetTCPChecksum", "true", 1), ("SetUDPChecksum", "", 2), ("SetUDPChecksum", "", 1),
    ("ResetIPChecksum", "true", 1), ("SetCRC32", "", 1), ("CheckCRC32", "", 1),
    ("IPEncap", "4, 1.1.1.1, DST_ANNO", 1), ("UDPIPEncap", "1.1.1.1, 1, 2.2.2.2, 2", 1),
    ("EnsureEther", "", 1), ("EtherMirror", "", 1), ("EtherRewrite", "1:1:1:1:1:1, 2:2:2:2:2:2", 1),
    ("StoreEtherAddress", "1:1:1:1:1:1, 4294967295", 2), ("StoreEtherAddress", "OFFSET 3, ANNO 42", 2),
    ("EtherEncap", "1, 1:1:1:1:1:1, 2:2:2:2:2:2", 1), ("EtherVLANEncap", "1, 1:1:1:1:1:1, 2:2:2:2:2:2, ANNO", 1),
    ("VLANEncap", "5", 1), ("VLANDecap", "", 1), ("SetVLANAnno", "5", 1), ("SetIPDSCP", "5", 1), ("SetIPECN", "ce", 1),
    ("SetIPTTL", "ADD 7", 1), ("SetIP6HLIM", "3", 1), ("SetTCPMSS", "1200, ADD true", 1), ("SetTCPMSS", "1", 1),
    ("TCPOptionCheck", "2", 2), ("TCPOptionCheck", "8, 2, 4, 0, 9, OUTSIDE true", 2),
    ("MarkIPCE", "", 1), ("MarkIPCE", "true", 1), ("IPMirror", "", 1), ("Paint", "3, 47", 1), ("PaintTee", "0", 2),
    ("SetPacketType", "HOST", 1), ("StoreData", "5, abc, GROW true", 1), ("StoreData", "4294967295, abc", 1),
    ("SetTimestamp", "", 1), ("SetTimestampDelta", "", 1), ("SetTimestampDelta", "TYPE FIRST", 1),
    ("AdjustTimestamp", "-9e9, ALL true", 1), ("TimeFilter", "START_AFTER 1, END_AFTER 2", 2), ("TimeRange", "", 1),
    ("TimestampAccum", "", 1), ("NumberPacket", "50", 1), ("Counter", "", 1), ("AverageCounter", "1", 1),
    ("Print", "x, -1, TIMESTAMP true, PRINTANNO true, HEADROOM true", 1), ("Print", "CONTENTS ascii", 1),
    ("IPPrint", "ID true, TTL true, TOS true, LENGTH true, ETHER true, VLAN true, PAYLOAD hex", 1),
    ("IPPrint", "CONTENTS ascii, MAXLENGTH -1, AGGREGATE true, PAINT true", 1), ("IP6Print", "CONTENTS true", 1),
    ("ARPPrint", "ETHER true", 1),
    ("IP6PrefixTranslate", "SOURCE, ::/1 8000::/1, 8000::/1 ::/1", 1),
    ("IP6PrefixTranslate", "DESTINATION, 1000::/4 ::/64, NETFILTER true", 1),
    ("NAT64", "::/32", 2), ("NAT64", "64:ff9b::/96, fd00::1, CAPACITY 3", 3),
];

/// xorshift64*.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % n
    }
}

/// Random bytes that often look like a protocol's header, with header annotations anywhere.
fn packet(r: &mut Random) -> Pkt {
    let len = [0, 1, 13, 19, 20, 28, 41, 60, 200, 1500][r.below(10) as usize] + r.below(3) as usize;
    let mut d: Vec<u8> = (0..len).map(|_| r.below(256) as u8).collect();
    for (at, v) in [
        (0, 0x40 | r.below(16) as u8),
        (2, 0),
        (3, r.below(80) as u8),
        (6, [0, 0x20, 0x40, 1][r.below(4) as usize]),
        (7, r.below(2) as u8),
        (9, [1, 6, 17, 89][r.below(4) as usize]),
        (20, r.below(18) as u8),
        (32, (r.below(16) << 4) as u8),
    ] {
        if r.below(4) > 0
            && let Some(b) = d.get_mut(at)
        {
            *b = v;
        }
    }
    let mut p = Packet::from_slice(&d);
    let place = |r: &mut Random| r.below(120) as isize - 30;
    if r.below(4) > 0 {
        let at = place(r).max(0) * (r.below(2) as isize);
        p.set_network_header(at, r.below(70) as usize);
    }
    if r.below(2) == 0 {
        p.set_mac_header(place(r));
    }
    p.pull(r.below(40) as usize * r.below(2) as usize);
    p.anno.timestamp = Timestamp(r.below(1 << 40) as i64 - (1 << 30));
    for b in p.anno.bytes_mut() {
        *b = (r.below(256) * r.below(2)) as u8;
    }
    Box::new(p)
}

#[test]
fn conserved_and_unharmed() {
    let mut r = Random(0x5eed);
    for (class, config, outputs) in CASES {
        let mut b = Bench::new(class, config, 1, *outputs)
            .unwrap_or_else(|e| panic!("{class}({config}): {e:?}"));
        for _ in 0..2000 {
            let p = packet(&mut r);
            let (made, dropped) = (b.out.created, b.out.dropped);
            let out = b.push_packet(0, p);
            let gone = b.out.dropped - dropped;
            let came = 1 + b.out.created - made;
            assert_eq!(out.len() as u64 + gone, came, "{class}({config})");
            assert!(out.iter().all(|(port, _)| port < outputs));
            b.now = b.now + Timestamp(r.below(2_000_000) as i64);
            b.host.log.clear();
            b.host.decisions.clear();
        }
        for h in b.element.handlers() {
            if h.readable() {
                assert!(b.read(h.name).is_ok(), "{class}.{}", h.name);
            }
        }
        for reason in b.drops().keys() {
            let prefix = reason.split(':').next().unwrap_or("");
            let alias = class.starts_with("StripTCP") && prefix == "StripTransportHeader";
            assert!(prefix == *class || alias, "{class}: {reason}");
        }
    }
}
