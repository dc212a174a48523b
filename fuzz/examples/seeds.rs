//! Writes seeds for the targets that want structure: `cargo run --manifest-path fuzz/Cargo.toml --example seeds -- fuzz/corpus`.
//!
//! All of it is made here: no capture, no rule set of anybody else.

use onefold_fuzzing::frames::{Frame, Kind, PAYLOADS, V4, V6};
use onefold_fuzzing::script::Writer;
use std::fs;
use std::path::Path;

const CHAINS: u8 = 17;

fn write(dir: &Path, name: &str, bytes: &[u8]) {
    fs::create_dir_all(dir).expect("a folder can be made");
    fs::write(dir.join(name), bytes).expect("a file can be written");
}

/// Every kind of frame.
fn kinds() -> Vec<Frame> {
    let mut all = Vec::new();
    for kind in [Kind::Tcp, Kind::Udp, Kind::Icmp, Kind::Other] {
        for six in [false, true] {
            let mut f = Frame::new(kind);
            f.six = six;
            f.flags = match (kind, six) {
                (Kind::Icmp, false) => 8,
                (Kind::Icmp, true) => 128,
                _ => 2,
            };
            all.push(f);
            for options in 1..6 {
                all.push(Frame { options, ..f });
            }
            for fragment in 1..4 {
                all.push(Frame { fragment, ..f });
            }
            all.push(Frame { ttl: 1, ..f });
            // longer than a link takes, to be fragmented and not
            all.push(Frame { fill: 120, ..f });
            all.push(Frame {
                fill: 120,
                fragment: 0x80,
                ..f
            });
            all.push(Frame {
                vlan: Some(0x602a),
                ..f
            });
        }
    }
    for flags in [0, 3, 5, 11, 12, 13] {
        all.push(Frame {
            flags,
            ..Frame::new(Kind::Icmp)
        });
    }
    all.push(Frame::new(Kind::Arp));
    all
}

fn packet_path(dir: &Path) {
    for chain in 0..CHAINS {
        let mut n = 0;
        let mut save = |w: &Writer| {
            write(dir, &format!("{chain:02}-{n:03}"), w.bytes());
            n += 1;
        };
        for entry in 0..2 {
            for tag in [None, Some(0x602a)] {
                // everything once
                let all = kinds();
                for some in all.chunks(12) {
                    let mut w = Writer::new(chain, 1);
                    for f in some {
                        let f = Frame {
                            vlan: tag.or(f.vlan),
                            ..*f
                        };
                        w.made(0, entry, &f).again(0, 0);
                    }
                    save(&w);
                }
                // every address, port and payload
                for kind in [Kind::Tcp, Kind::Udp] {
                    for six in [false, true] {
                        let mut w = Writer::new(chain, 0);
                        let n = if six { V6.len() } else { V4.len() };
                        for i in 0..n as u8 {
                            let mut f = Frame::new(kind);
                            f.six = six;
                            f.vlan = tag;
                            f.dst = i;
                            f.dport = i;
                            w.made(0, entry, &f);
                            (f.src, f.dst) = (i, 1);
                            w.made(4, entry, &f);
                        }
                        save(&w);
                        let mut w = Writer::new(chain, 0);
                        for i in 0..PAYLOADS.len() as u8 {
                            let mut f = Frame::new(kind);
                            f.six = six;
                            f.vlan = tag;
                            f.payload = i;
                            f.flags = 0x18;
                            w.made(0, entry, &f);
                        }
                        save(&w);
                    }
                }
                // connections, with answers, their end, and the silence behind it
                for kind in [Kind::Tcp, Kind::Udp, Kind::Icmp] {
                    let mut w = Writer::new(chain, 1);
                    let mut f = Frame::new(kind);
                    f.vlan = tag;
                    if kind == Kind::Icmp {
                        f.flags = 8;
                    }
                    for sport in [0, 15, 1] {
                        f.sport = sport;
                        w.made(0, entry, &f).answer(5, 0);
                    }
                    for flags in [0x10, 0x18, 0x11, 0x04] {
                        if kind == Kind::Tcp {
                            f.flags = flags;
                        }
                        w.made(6, entry, &f).answer(0, 0).answer(0, 1);
                    }
                    w.made(11, entry, &f).answer(12, 0).nothing(13).answer(0, 0);
                    w.made(14, entry, &f).answer(0, 0).nothing(15);
                    save(&w);
                }
                // raw
                let mut w = Writer::new(chain, 0);
                for f in kinds().iter().step_by(7) {
                    let b = f.bytes();
                    w.frame(0, entry, &b).frame(0, entry, &b[..b.len() / 2]);
                    w.frame(4, entry, &b[..b.len().min(15)])
                        .frame(4, entry, &[]);
                }
                save(&w);
            }
        }
    }
}

/// Text, a zero byte, and a packet.
fn with_packets(dir: &Path, texts: &[&str], six: bool) {
    let packets: Vec<Vec<u8>> = kinds()
        .iter()
        .filter(|f| f.six == six)
        .map(Frame::packet)
        .collect();
    for (i, text) in texts.iter().enumerate() {
        for (k, p) in packets
            .iter()
            .enumerate()
            .filter(|(k, _)| (k + i).is_multiple_of(8))
        {
            let mut b = text.as_bytes().to_vec();
            b.push(0);
            b.extend(p);
            write(dir, &format!("{i:02}-{k:02}"), &b);
        }
    }
}

fn main() {
    let root = std::env::args()
        .nth(1)
        .unwrap_or_else(|| "fuzz/corpus".into());
    let root = Path::new(&root);
    packet_path(&root.join("packet_path"));
    with_packets(
        &root.join("payload_filter"),
        &[
            "alert NAME \"one\" FILTER \"dst port 80\" LITERAL \"payload\" NOCASE NOT LITERAL \"evil\"",
            "drop REGEX \"(?i)pay.+of\" LITERAL \"packet\" DISTANCE 0, allow LITERAL \\<70 61> OFFSET 0 DEPTH 4",
            "drop LITERAL a LITERAL a DISTANCE 1 WITHIN 8 AFTER 2, alert SIZE 3-20, drop NOT SIZE 0-",
            "alert LITERAL o REGEX \"f.a\" RELATIVE NOT LITERAL x DISTANCE -3 WITHIN 5, drop NOT REGEX zz",
            "!alert tcp any any -> any 80 (msg:\"m\"; content:\"payload\"; nocase; sid:1;)\ndrop udp any any -> any any (content:\"|61|\"; offset:1; depth:9; sid:2;)",
            "!alert ip $A any <> !$B [80,!443] (pcre:\"/pay(load)?/i\"; isdataat:3,relative; dsize:2<>90; sid:3; rev:2;)",
        ],
        false,
    );
    with_packets(
        &root.join("ip6filter"),
        &[
            "allow tcp && dst port 80 or 443, deny src net 2001:db8:0:bad::/64, allow icmp6 type 128, drop all",
            "0 src or dst host 2001:db8::1 && not (udp or ip frag), 1 ip hlim < 64 || ip tclass != 0, deny true",
            "allow tcp opt syn && !tcp opt ack, allow tcp[13:1] & 18 == 2, allow ip[7:1] > 63, 1 udp port >= 53",
            "#src host 2001:db8::1, ip6 hlim > 3 and ip6 class 0, icmp6 type echo, ip6 nxt 44, tcp or udp, -",
            "#tcp opt syn, src and dst port > 1000, ip6[4:2] & 0xff == 20, ip6 frag, dst net 2001:db8::/32 or not port 80",
        ],
        true,
    );
}
