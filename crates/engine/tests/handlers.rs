//! Handlers: what `config` shows after a change, names of addresses in values, calls that packets wait for.

use onefold_element::ElemId;
use onefold_engine::{BuildOptions, Graph, spec_from_flat};
use onefold_packet::Timestamp;

fn build(text: &str) -> Graph {
    let flat = onefold_click::load(text.as_bytes(), "test", &[], &Default::default())
        .unwrap_or_else(|e| panic!("{text}: {e:?}"));
    Graph::build(spec_from_flat(&flat), &BuildOptions::default())
        .unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn config_shows_arguments_that_handlers_changed() {
    for (element, handler, value, config) in [
        ("Queue", "capacity", "10", "CAPACITY 10"),
        ("Queue(5)", "capacity", "10", "10"),
        ("Queue(CAPACITY 5)", "capacity", "10", "CAPACITY 10"),
    ] {
        let mut g = build(&format!(
            "Idle -> Queue -> Unqueue -> q :: {element} -> Idle;"
        ));
        g.write_handler(&format!("q.{handler}"), value)
            .unwrap_or_else(|e| panic!("{element}: {e}"));
        assert_eq!(g.read_handler("q.config").unwrap(), config, "{element}");
        // a value that is refused changes nothing
        assert!(g.write_handler(&format!("q.{handler}"), "x").is_err());
        assert_eq!(g.read_handler("q.config").unwrap(), config, "{element}");
    }
    let mut g = build("Idle -> c :: IPClassifier(tcp, udp); c[0] -> Idle; c[1] -> Idle;");
    g.write_handler("c.pattern1", "icmp").unwrap();
    assert_eq!(g.read_handler("c.config").unwrap(), "tcp, icmp");
    let mut g = build("Idle -> e :: EtherEncap(0x800, 1:1:1:1:1:1, DST 2:2:2:2:2:2) -> Idle;");
    g.write_handler("e.src", "3:3:3:3:3:3").unwrap();
    g.write_handler("e.dst", "4:4:4:4:4:4").unwrap();
    assert_eq!(
        g.read_handler("e.config").unwrap(),
        "0x800, 3:3:3:3:3:3, DST 4:4:4:4:4:4"
    );
}

#[test]
fn values_may_be_names() {
    let mut g = build(
        "AddressInfo(gw 10.0.0.1 2:0:0:0:0:1, net 10.1.0.0/16, host 2001:db8::1);
         elementclass Inner { AddressInfo(gw 10.9.9.9); input -> s :: SetIPAddress(1.2.3.4) -> output; }
         Idle -> r :: LinearIPLookup(0.0.0.0/0 0) -> Idle; r[1] -> Idle;
         Idle -> x :: RadixIPLookup(0.0.0.0/0 0) -> Idle; x[1] -> Idle;
         Idle -> i :: Inner -> Idle;
         t :: ARPTable;
         Idle -> a :: ARPResponder(1.2.3.4 1:1:1:1:1:1) -> Idle;
         Idle -> e :: EtherEncap(0x800, 1:1:1:1:1:1, 2:2:2:2:2:2) -> Idle;
         Idle -> h :: IP6Encap(PROTO 17, SRC ::1, DST ::2) -> Idle;
         Idle -> w :: IPRewriter(pattern 1.0.0.1 1-2 - - 0 0) -> Idle;",
    );
    let mut write = |call: &str, value: &str| {
        g.write_handler(call, value)
            .unwrap_or_else(|e| panic!("{call} {value}: {e}"));
    };
    write("r.add", "net gw 1");
    write("x.add", "net gw 1");
    write("i/s.addr", "gw");
    write("t.insert", "gw gw");
    write("a.add", "net gw");
    write("e.dst", "gw");
    write("h.src", "host");
    write("w.pattern0", "pattern gw 1-2 - - 0 0");
    assert_eq!(g.read_handler("r.lookup 10.1.2.3").unwrap(), "1 10.0.0.1");
    assert_eq!(g.read_handler("x.lookup 10.1.2.3").unwrap(), "1 10.0.0.1");
    // the definition in its own compound hides the outer one
    assert_eq!(g.read_handler("i/s.addr").unwrap(), "10.9.9.9");
    let table = g.read_handler("t.table").unwrap();
    assert!(table.starts_with("10.0.0.1 1 02-00-00-00-00-01"), "{table}");
    assert!(g.read_handler("a.table").unwrap().contains("10.1.0.0/16"));
    assert_eq!(g.read_handler("e.dst").unwrap(), "02-00-00-00-00-01");
    assert_eq!(g.read_handler("h.src").unwrap(), "2001:db8::1");
    assert!(g.read_handler("w.patterns").unwrap().contains("10.0.0.1"));
    assert!(g.write_handler("r.add", "nobody gw 1").is_err());
}

/// The packets' first bytes, which say when they come, of those that leave.
fn passed(g: &mut Graph) -> Vec<u8> {
    let mut v = Vec::new();
    g.drain_transmitted(|_, p| v.push(p.data()[0]));
    v
}

#[test]
fn the_packet_that_makes_a_call_waits_for_it() {
    let text = "FromDevice(in) -> t :: TimeFilter(START 1, END 3, END_CALL s.run $t)
                -> c :: Counter -> ToDevice(out);
                s :: Script(TYPE PASSIVE, init x 0, goto exit $(gt $x 1), set x $(add $x 1), write t.extend_interval 2);";
    // extended from 3 to 5 and to 7, then no more
    let times = [0, 1, 2, 3, 4, 5, 6, 7, 8, 1];
    let mut scalar = build(text);
    let source = scalar.source("in").unwrap();
    let mut batched = scalar.fork();
    for t in times {
        scalar.inject(source, &[t], Timestamp::from_secs(t.into()));
    }
    assert_eq!(scalar.read_handler("t.end").unwrap(), "7.000000");
    assert_eq!(passed(&mut scalar), [1, 2, 3, 4, 5, 6, 1]);
    assert!(scalar.totals().balanced());

    let mut list: Vec<_> = (times.iter())
        .map(|t| {
            let mut p = batched.make_packet(&[*t]);
            p.anno.timestamp = Timestamp::from_secs((*t).into());
            p
        })
        .collect();
    batched.inject_batch(source, &mut list, Timestamp::from_secs(9));
    assert_eq!(passed(&mut batched), [1, 2, 3, 4, 5, 6, 1]);
    assert!(batched.totals().balanced());
}

#[test]
fn a_seed_begins_the_sequences_anew() {
    let mut g = build(
        "FromDevice(in) -> r :: RandomSample(0.5) -> ToDevice(out);
         s :: RandomSeed(7);",
    );
    let source = g.source("in").unwrap();
    let round = |g: &mut Graph| {
        for i in 0..100 {
            g.inject(source, &[i], Timestamp::ZERO);
        }
        passed(g)
    };
    let first = round(&mut g);
    assert!(first.len() > 20 && first.len() < 80);
    assert_ne!(round(&mut g), first);
    g.write_handler("s.seed", "7").unwrap();
    assert_eq!(round(&mut g), first);
    assert!(g.find("s").is_some_and(|s| s != ElemId(0)));
}

#[test]
fn a_new_configuration_is_warned_of() {
    let mut g = build("Idle -> a :: ARPResponder(1.0.0.1 1:1:1:1:1:1) -> Idle;");
    let mut said = |config: &str| {
        g.write_handler("a.config", config).unwrap();
        let all = g.take_printed().into_iter().map(|(_, text)| text);
        String::from_utf8(all.flatten().collect()).unwrap()
    };
    assert_eq!(said("1.0.0.2 2:2:2:2:2:2"), "");
    assert_eq!(
        said("1.0.0.2 2:2:2:2:2:2, 1.0.0.2 3:3:3:3:3:3"),
        "While configuring 'a :: ARPResponder':\n  warning: multiple entries for 1.0.0.2/32\n"
    );
}
