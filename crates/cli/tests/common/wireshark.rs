//! What tcpdump and tshark say of a capture.

use std::fs::File;
use std::path::Path;
use std::process::Command;

/// The checksums that tshark is asked about.
const STATUS: [&str; 9] = [
    "ip.checksum.status",
    "tcp.checksum.status",
    "udp.checksum.status",
    "icmp.checksum.status",
    "icmpv6.checksum.status",
    "igmp.checksum.status",
    "dccp.checksum.status",
    "sctp.checksum.status",
    "vrrp.checksum.status",
];

/// What tshark says of one frame: for each of [`STATUS`], which of its checksums are bad. A frame may have several, in
/// tunnels and quotes, the outermost first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bad([Vec<bool>; STATUS.len()]);

impl Bad {
    /// Whether there is any.
    pub fn any(&self) -> bool {
        self.0.iter().flatten().any(|b| *b)
    }

    /// Whether something is bad here that was not in what caused it. Of a part of a packet only the outermost checksums
    /// count: tshark takes what is in it for whole packets.
    pub fn worse_than(&self, before: &Self, part: Part) -> bool {
        let own: &[&str] = match part {
            Part::Whole => &STATUS,
            Part::IcmpError => &[
                "ip.checksum.status",
                "icmp.checksum.status",
                "icmpv6.checksum.status",
            ],
            Part::Fragment => &["ip.checksum.status"],
        };
        self.0.iter().zip(&before.0).enumerate().any(|(i, (a, b))| {
            let count = |v: &[bool]| v.iter().filter(|x| **x).count();
            let worse = match part {
                Part::Whole => count(a) > count(b),
                _ => a.first() == Some(&true) && b.first() != Some(&true),
            };
            own.contains(&STATUS[i]) && worse
        })
    }
}

/// What a frame has of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    Whole,
    /// Quotes a packet, perhaps cut.
    IcmpError,
    Fragment,
}

/// Whether a tool is there; says so if not.
pub fn installed(tool: &str) -> bool {
    onefold_testing::tool(tool)
}

/// tshark's opinion of every checksum, each packet on its own (no reassembly).
pub fn tshark(file: &Path) -> Vec<Bad> {
    let mut c = Command::new("tshark");
    c.arg("-n").arg("-r").arg(file);
    for o in [
        "ip.check_checksum:TRUE",
        "tcp.check_checksum:TRUE",
        "udp.check_checksum:TRUE",
        "ip.defragment:FALSE",
        "ipv6.defragment:FALSE",
        "tcp.desegment_tcp_streams:FALSE",
    ] {
        c.args(["-o", o]);
    }
    c.args(["-T", "fields", "-E", "separator=|", "-E", "aggregator=,"]);
    for f in STATUS {
        c.args(["-e", f]);
    }
    let o = c.output().expect("tshark runs");
    assert!(
        o.status.success(),
        "tshark {}: {}",
        file.display(),
        String::from_utf8_lossy(&o.stderr)
    );
    String::from_utf8_lossy(&o.stdout)
        .lines()
        .map(|l| {
            let mut row = Bad::default();
            for (v, field) in row.0.iter_mut().zip(l.split('|')) {
                let values = field.split(',').filter(|s| !s.is_empty());
                *v = values.map(|s| matches!(s, "0" | "Bad")).collect();
            }
            row
        })
        .collect()
}

/// How many packets tcpdump prints of a capture; it must read all of it.
pub fn tcpdump(file: &Path) -> usize {
    // as standard input: it may run as another user, who cannot open our files
    let o = Command::new("tcpdump")
        .args(["-nn", "-v", "-tt", "-r", "-"])
        .stdin(File::open(file).expect("the capture"))
        .output()
        .expect("tcpdump runs");
    let err = String::from_utf8_lossy(&o.stderr);
    assert!(o.status.success(), "tcpdump {}: {err}", file.display());
    // a packet starts with its time, what belongs to it with a space
    String::from_utf8_lossy(&o.stdout)
        .lines()
        .filter(|l| {
            l.split_once(' ')
                .is_some_and(|(t, _)| t.contains('.') && t.parse::<f64>().is_ok())
        })
        .count()
}
