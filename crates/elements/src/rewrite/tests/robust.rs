//! Errors in configurations, and packets of any kind.

use super::*;
use crate::testing::Bench;

#[track_caller]
fn refused(spec: &[(&str, &str, &str, usize, usize)], parts: &[&str]) {
    let errors = Net::new(spec).err().unwrap_or_default().join("\n");
    for p in parts {
        assert!(errors.contains(p), "{p:?} not in {errors:?}");
    }
}

#[test]
fn configuration_errors() {
    let one = |config: &str, parts: &[&str]| refused(&[("rw", "IPRewriter", config, 2, 2)], parts);
    one("drop", &["expected 2 input specifications", "found 1"]);
    // all at once
    one(
        "pattern 1.0.0.x 1 - - 0 1, pattern 1.0.0.1 1 - - 0 2, TCP_TIMEOUT soon, MAPPING_CAPACITY -3",
        &[
            "INPUTSPEC_1: bad source address '1.0.0.x'",
            "INPUTSPEC_2: output 2 out of range, 2 outputs are connected",
            "TCP_TIMEOUT: expected a time",
            "MAPPING_CAPACITY: out of range",
        ],
    );
    one(
        "drop 3, pass x",
        &[
            "INPUTSPEC_1: expected nothing after 'drop'",
            "INPUTSPEC_2: expected 'pass [OUTPUT]'",
        ],
    );
    one(
        "keep 0, keep a 0",
        &["expected 'keep FOUTPUT ROUTPUT'", "bad forward output 'a'"],
    );
    one(
        "pattern 0 1, pattern nobody 0 1",
        &["expected a pattern", "no pattern named 'nobody'"],
    );
    one(
        "nonsense, \"\"",
        &[
            "INPUTSPEC_1: unknown specification 'nonsense'",
            "INPUTSPEC_2",
        ],
    );
    one(
        "drop, drop, MAPPING_CAPACITY nobody",
        &["MAPPING_CAPACITY: expected a number or the name of a rewriter"],
    );
    one(
        "drop, drop, FRAGMENTS 65537",
        &["FRAGMENTS: out of range, 0 to 65536"],
    );
    one(
        "drop, mapped 0, MAPPING host, RESERVED \"icmp 1.0.0.1 1\"",
        &[
            "expected 'mapped FOUTPUT ROUTPUT'",
            "MAPPING: expected endpoint or flow, found 'host'",
            "RESERVED: expected 'tcp ADDRESS PORT",
        ],
    );
    one("rw, drop", &["element 'rw' (IPRewriter) is not a mapper"]);
    let errors = |config, part| {
        refused(
            &[
                ("rw", "IPRewriter", "drop", 1, 1),
                ("e", "ICMPRewriter", config, 1, 1),
            ],
            &[part],
        );
    };
    errors(
        "rw, SOURCE some",
        "SOURCE: expected keep, own or all, found 'some'",
    );
    errors(
        "rw, UNMAPPED 1",
        "UNMAPPED: out of range, 1 outputs are connected",
    );
    one(
        "drop, drop, REPLY_ANNO DST_IP",
        &["REPLY_ANNO: annotation 'DST_IP' has 4 bytes, 1 are wanted"],
    );
    one("drop, drop, UDP_TIMEOUT -1", &["UDP_TIMEOUT"]);
}

#[test]
fn a_capacity_that_no_table_has_is_told() {
    use onefold_element::args::{Args, split_args};
    for (config, wanted) in [
        ("drop, MAPPING_CAPACITY 4194304", None),
        ("drop, MAPPING_CAPACITY 4194305", Some(1)),
        ("REAP_INTERVAL 10, CAPACITY 2147483647, drop", Some(1)),
    ] {
        let text = split_args(config);
        let all: Vec<&str> = text.iter().map(String::as_str).collect();
        let mut args = Args::from_strings(&all);
        let mut store = StateStore::new();
        let mut cx = ConfigCx {
            elem: ElemId(0),
            name: "rw",
            ninputs: 1,
            noutputs: 1,
            names: NameDb::builtin(),
            elements: &[],
            classes: &[],
            store: &mut store,
            seed: 1,
        };
        let mut e = (crate::lookup("IPRewriter").unwrap().new)();
        let told = e.configure(&mut args, &mut cx).err().unwrap_or_default();
        assert!(told.iter().all(|e| e.warning), "{told:?}");
        assert_eq!(told.first().map(|e| e.index.unwrap()), wanted);
        if let [e] = &told[..] {
            assert!(e.message.contains("4194304"), "{e:?}");
        }
    }
}

#[test]
fn errors_of_maglev() {
    let maglev = |config| ("m", "MaglevIPMapper", config, 0, 0);
    refused(
        &[maglev(
            "- - - - 0 0 a 1, - - - - 0 0 a 1, - - - - 0 0 b 0, - - - - 0 0, SIZE 7",
        )],
        &[
            "PATTERN_2: server 'a' is there already",
            "PATTERN_3: expected a name and a weight from 1 to 1000",
            "PATTERN_4: expected a name and a weight",
        ],
    );
    for config in [
        "- - - - 0 0 a 1, SIZE 1",
        "- - - - 0 0 a 1, SIZE 65536",
        "- - - - 0 0 a 1, SIZE 4194319",
    ] {
        refused(&[maglev(config)], &["SIZE: expected a prime number"]);
    }
    refused(
        &[maglev(
            "- - - - 0 0 a 1, - - - - 0 0 b 1, - - - - 0 0 c 1, SIZE 2",
        )],
        &["SIZE: the table has fewer places than there are servers"],
    );
    refused(&[maglev("")], &["PATTERN_1: required argument missing"]);
}

#[test]
fn errors_between_elements() {
    let mapper = |config| ("m", "RoundRobinIPMapper", config, 0, 0);
    refused(
        &[
            mapper("- - - - 0 0, - - - - 5 0"),
            ("rw", "IPRewriter", "m", 1, 1),
        ],
        &["INPUTSPEC_1: output out of range in pattern 2 of the mapper"],
    );
    refused(
        &[mapper(""), ("rw", "IPRewriter", "m", 1, 1)],
        &["PATTERN_1: required argument missing"],
    );
    refused(
        &[mapper("- - - x 0 0")],
        &["PATTERN_1: bad destination port 'x'"],
    );
    let hash = |config| ("m", "SourceIPHashMapper", config, 0, 0);
    refused(
        &[hash("1 2, - - - - 0 0 1, - - - - 0 0 1")],
        &["PATTERN_2: server ID 1 is already in use"],
    );
    refused(
        &[hash("0 2, - - - - 0 0 70000")],
        &["bad number of nodes '0'", "bad server ID"],
    );
    refused(&[hash("1000000000 2, - - - - 0 0 1")], &["too many nodes"]);
    refused(&[hash("")], &["NNODES SEED: required argument missing"]);
    let patterns = |name, config| (name, "IPRewriterPatterns", config, 0, 0);
    refused(
        &[
            patterns("p", "a 1.0.0.1 - - -, a - -"),
            patterns("q", "a - -, b 1"),
        ],
        &[
            "a: there is already a pattern with this name",
            "b: no pattern named '1'",
        ],
    );
    // names of a compound are not seen outside
    refused(
        &[
            patterns("nf/p", "a 1.0.0.1 - - -"),
            ("rw", "IPRewriter", "pattern a 0 0", 1, 1),
        ],
        &["no pattern named 'a'"],
    );
    refused(
        &[("e", "ICMPRewriter", "", 1, 1)],
        &["MAPS: required argument missing"],
    );
    refused(
        &[("e", "ICMPRewriter", "e", 1, 1)],
        &["MAPS: expected the name of a rewriter, found 'e'"],
    );
    refused(
        &[
            ("rw", "IPRewriter", "drop, drop", 2, 2),
            ("e", "ICMPRewriter", "rw:1", 1, 2),
        ],
        &["MAPS: offset of rw requires more than 2 outputs"],
    );
    refused(
        &[
            ("rw", "UDPRewriter", "drop", 1, 1),
            ("f", "FTPPortMapper", "rw, rw, 3", 1, 1),
        ],
        &["CONTROL_REWRITER: expected one of TCPRewriter, IPRewriter, found UDPRewriter"],
    );
    refused(
        &[
            ("rw", "TCPRewriter", "drop", 1, 1),
            ("f", "FTPPortMapper", "rw, rw, 3", 1, 1),
        ],
        &["DATA_REWRITER_INPUT: out of range"],
    );
}

#[test]
fn handlers_that_are_listed_can_be_called() {
    for (class, config) in [
        ("IPRewriter", "pattern 1.0.0.1 1-9 - - 0 0, drop"),
        ("TCPRewriter", "keep 0 0, drop"),
        ("UDPRewriter", "keep 0 0, drop"),
        ("IPAddrRewriter", "keep 0 0, drop"),
        ("IPAddrPairRewriter", "keep 0 0, drop"),
        ("ICMPPingRewriter", "keep 0 0, drop"),
    ] {
        let mut b = Bench::new(class, config, 2, 1).unwrap();
        let handlers = b.element.handlers();
        assert!(handlers.iter().any(|h| h.name == "pattern1"));
        assert!(!handlers.iter().any(|h| h.name == "pattern2"));
        for h in handlers.iter().filter(|h| h.readable()) {
            let param = match h.name {
                "flows_to" => "0 1.0.0.1 3.0.0.3:4",
                _ => "1.0.0.1 2 3.0.0.3 4",
            };
            b.read(&format!("{} {param}", h.name)).unwrap();
        }
        assert!(b.read("pattern7").is_err());
        assert!(b.read("bogus").is_err());
        assert!(b.write("bogus", "").is_err());
        assert_eq!(b.read("capacity").unwrap(), "2147483647");
    }
}

#[test]
fn a_mapper_argument_is_no_input_specification() {
    let config = "pattern 1.0.0.1 1-3# - - 0 0";
    refused(
        &[("m", "RoundRobinIPMapper", config, 0, 0)],
        &["PATTERN_1: expected a pattern"],
    );
}

proptest::proptest! {
    #![proptest_config(crate::testing::cases(400))]
    /// Whatever arrives, nothing panics, no packet is lost or made, and the table keeps its books.
    #[test]
    fn any_packets(packets in proptest::collection::vec(
        (0usize..2, proptest::collection::vec(0u8..=255, 0..90), 0usize..24, 0u8..16, 0u32..4), 1..40))
    {
        let mut n = Net::new(&[
            ("ftp", "FTPPortMapper", "tcp, tcp, 0", 1, 1),
            ("tcp", "TCPRewriter", "pattern 1.0.0.1 1-3 - - 0 1, pass, MAPPING_CAPACITY 4, GUARANTEE 0", 2, 2),
            ("ip", "IPRewriter", "pattern 1.0.0.1 1-3 - - 0 1, keep 1 0, MAPPING_CAPACITY tcp", 2, 2),
            ("udp", "UDPRewriter", "pattern 1.0.0.1 1-3# - - 0 1, keep 1 0, MAPPING_CAPACITY 3", 2, 2),
            ("addr", "IPAddrRewriter", "pattern 1.0.0.1/30 - 0 1, keep 1 0, GUARANTEE 0", 2, 2),
            ("pair", "IPAddrPairRewriter", "pattern 1.0.0.1/29 2.0.0.1 0 1, keep 1 0", 2, 2),
            ("ping", "ICMPPingRewriter", "pattern 1.0.0.1 - 1-3 0 1, keep 1 0", 2, 2),
            ("err", "ICMPRewriter", "tcp ip udp addr pair ping", 1, 1),
            ("strict", "ICMPRewriter", "tcp ip udp addr pair ping, STRICT true, SOURCE own, UNMAPPED 0", 1, 1),
            ("own", "IPRewriter", "pattern 1.0.0.1 1 - - 0 1, keep 1 0, TAKE_OVER false, FRAGMENTS 2", 2, 2),
            ("ends", "IPRewriter", "pattern 1.0.0.1 1-3 - - 0 1, mapped 1 0, MAPPING endpoint, GUARANTEE 0, \
                MAPPING_CAPACITY 3", 2, 2),
        ]).unwrap();
        let mut out = 0u64;
        let mut pushed = 0u64;
        for (i, (port, mut data, header, version, shape)) in packets.into_iter().enumerate() {
            n.at(i as f64 * 2.0);
            // likely enough headers that something happens
            if shape > 0 && data.len() >= 20 {
                data[0] = 0x40 | version.max(5);
                data[6..8].fill(0);
                data[9] = [6, 17, 1, 6][shape as usize];
                for b in &mut data[12..20] { *b &= 1; }
                for b in data.iter_mut().skip(20).take(4) { *b &= 3; }
            }
            let mut p = Box::new(Packet::from_slice(&data));
            if header < 20 {
                p.set_network_header(header as isize / 8, usize::from(version) * 4);
            }
            for name in ["ftp", "tcp", "ip", "udp", "addr", "pair", "ping", "own", "ends", "err", "strict"] {
                let port = if matches!(name, "ftp" | "err" | "strict") { 0 } else { port };
                pushed += 1;
                out += u64::from(n.push(name, port, p.clone()).is_some());
            }
            if i % 7 == 3 {
                n.timer("ip");
                n.timer("addr");
            }
        }
        proptest::prop_assert_eq!(pushed, out + n.out.dropped);
        for name in ["tcp", "ip", "udp", "addr", "pair", "ping"] {
            let size: usize = n.read(name, "size").parse().unwrap();
            proptest::prop_assert!(name != "udp" || size <= 3);
            proptest::prop_assert!(!matches!(name, "ip" | "tcp") || size <= 4);
            if !matches!(name, "ip" | "tcp") {
                proptest::prop_assert_eq!(n.read(name, "table_size"), size.to_string());
            }
        }
        let again = n.store.clone();
        proptest::prop_assert_eq!(n.store.summaries(), again.summaries());
    }
}
