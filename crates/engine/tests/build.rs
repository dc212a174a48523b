//! Building graphs: what is refused, with which words and at which place.

use onefold_engine::{BuildOptions, Graph, Stage, spec_from_flat};

fn build(text: &str) -> Result<Graph, Vec<String>> {
    let flat = onefold_click::load(text.as_bytes(), "t.click", &[], &Default::default())
        .map_err(|d| d.iter().map(|d| d.to_string()).collect::<Vec<_>>())?;
    Graph::build(spec_from_flat(&flat), &BuildOptions::default())
        .map_err(|e| e.0.iter().map(|d| d.to_string()).collect())
}

fn errors(text: &str) -> Vec<String> {
    build(text).err().unwrap_or_default()
}

#[test]
fn unknown_classes_are_all_reported_with_place_and_near_misses() {
    let e = errors("Idle -> Conter -> Discard;\nIdle -> Discrd;");
    // which other classes look alike changes as classes are added; the best one comes first
    let starts = [
        "t.click:1:9: error: unknown element class 'Conter' (did you mean 'Counter'",
        "t.click:2:9: error: unknown element class 'Discrd' (did you mean 'Discard'",
    ];
    assert_eq!(e.len(), starts.len(), "{e:#?}");
    for (found, start) in e.iter().zip(starts) {
        assert!(found.starts_with(start), "{found}");
    }
}

#[test]
fn every_wrong_argument_is_reported_at_its_place() {
    let e =
        errors("Idle -> Counter(COUNT_CALL 3, BOGUS 1)\n -> Discard(ACTIVE maybe,\n   BURST x);");
    assert_eq!(e.len(), 4, "{e:#?}");
    assert!(e[0].starts_with("t.click:1:9: error: 'Counter@2 :: Counter': COUNT_CALL"));
    assert!(e[1].starts_with("t.click:1:31: error: 'Counter@2 :: Counter': BOGUS: unknown"));
    assert!(e[2].starts_with("t.click:2:13: error: 'Discard@3 :: Discard': ACTIVE"));
    assert!(e[3].starts_with("t.click:3:4: error: 'Discard@3 :: Discard': BURST"));
}

#[test]
fn ports_are_checked() {
    let e = errors("c :: Counter; Idle -> [1] c -> Discard;");
    assert!(e[0].contains("'c :: Counter' has no input 1"), "{e:?}");
    let e = errors("c :: Counter; Idle -> c;");
    assert_eq!(e, ["t.click:1:1: error: 'c :: Counter' output 0 unused"]);
    let e = errors("t :: Tee; Idle -> t -> Discard; t -> Discard;");
    assert_eq!(
        e,
        ["t.click:1:1: error: illegal reuse of 't :: Tee' push output 0"]
    );
}

#[test]
fn a_graph_that_is_right_is_built() {
    let g = build("a :: Idle -> b :: Null -> c :: Discard;").unwrap();
    assert_eq!(g.len(), 3);
    assert!(g.warnings().is_empty());
    let flat = onefold_click::load(b"Idle->Discard(7)", "x", &[], &Default::default()).unwrap();
    let e = Graph::build(spec_from_flat(&flat), &BuildOptions::default()).unwrap_err();
    assert_eq!(e.0[0].stage, Stage::Configure);
}

#[test]
fn common_and_global_handlers() {
    let mut g = build("i :: Idle -> c :: Counter -> Discard;").unwrap();
    let mut read = |h: &str| g.read_handler(h).unwrap();
    assert_eq!(read("c.name"), "c");
    assert_eq!(read("c.class"), "Counter");
    assert_eq!(read("c.config"), "");
    assert_eq!(
        read("c.ports"),
        "1 input\npush~\t-\ti [0]\n1 output\npush~\t-\t[0] Discard@3\n"
    );
    assert_eq!(read("list"), "3\ni\nc\nDiscard@3\n");
    assert!(
        read("c.handlers").ends_with("handlers\tr.\nports\tr.\nconfig\tr.\nclass\tr.\nname\tr.\n")
    );
    assert!(read("flatconfig").starts_with("i :: Idle;\nc :: Counter;\n"));
    assert!(g.read_handler("c.reset").is_err());
    assert!(g.read_handler("nobody.count").is_err());
    assert!(g.write_handler("c.count", "1").is_err());
    g.write_handler("stop", "").unwrap();
    assert!(g.stop_requested());
}

#[test]
fn handler_calls_from_the_packet_path_are_carried_out() {
    let mut g =
        build("c :: Counter(COUNT_CALL 2 d.reset_counts) -> d :: Discard; Idle -> c").unwrap();
    let c = g.find("c").unwrap();
    for _ in 0..3 {
        let p = g.make_packet(b"x");
        g.inject_packet(c, 0, p, Default::default());
    }
    // the call comes before the second packet goes on, as in Click
    assert_eq!(g.read_handler("d.count").unwrap(), "2");
    let t = g.totals();
    assert_eq!((t.packets_in, t.dropped, t.held), (3, 3, 0));
    assert_eq!(g.drops()[0].reason, "Discard");
}

#[test]
fn a_loop_ends_and_is_counted() {
    let mut g = build("t :: Tee -> n :: Null -> t; t[1] -> Discard; Idle -> n").unwrap();
    let n = g.find("n").unwrap();
    let p = g.make_packet(b"x");
    g.inject_packet(n, 0, p, Default::default());
    let t = g.totals();
    assert!(t.balanced(), "{t:?}");
    assert!(g.drops().iter().any(|d| d.reason == "engine: loop"));
    // doubling in a loop ends, too
    let mut g = build("t :: Tee -> n :: Null -> t; t[1] -> n; Idle -> n").unwrap();
    let n = g.find("n").unwrap();
    let p = g.make_packet(b"x");
    g.inject_packet(n, 0, p, Default::default());
    assert!(g.totals().balanced());
}

#[test]
fn trace_has_every_step() {
    let mut g =
        build("c :: Counter -> t :: Tee -> d :: Discard; t[1] -> Null -> Discard; Idle -> c")
            .unwrap();
    g.start_trace();
    let c = g.find("c").unwrap();
    let p = g.make_packet(b"abc");
    g.inject_packet(c, 0, p, Default::default());
    let (steps, truncated) = g.take_trace();
    let names: Vec<&str> = steps.iter().map(|s| s.name.as_str()).collect();
    assert_eq!(names, ["c", "t", "d", "Null@4", "Discard@5"]);
    assert_eq!(steps[1].outputs, [(0, 3), (1, 3)]);
    assert_eq!(steps[2].drops, ["Discard"]);
    assert!(!truncated && steps[0].loc.line == 1);
}

#[test]
fn a_fork_goes_its_own_way() {
    let mut g = build("c :: Counter -> Discard; Idle -> c").unwrap();
    let c = g.find("c").unwrap();
    let p = g.make_packet(b"x");
    g.inject_packet(c, 0, p, Default::default());
    let mut f = g.fork();
    let p = f.make_packet(b"y");
    f.inject_packet(c, 0, p, Default::default());
    assert_eq!(f.read_handler("c.count").unwrap(), "2");
    assert_eq!(g.read_handler("c.count").unwrap(), "1");
    assert_eq!(f.totals().packets_in, 2);
}

#[test]
fn batches_do_the_same() {
    let text = "c :: Counter -> t :: Tee -> d :: Discard; t[1] -> Null -> e :: Discard; Idle -> c";
    let (mut a, mut b) = (build(text).unwrap(), build(text).unwrap());
    let c = a.find("c").unwrap();
    let mut batch = Vec::new();
    for i in 0..100u8 {
        let p = a.make_packet(&[i; 60]);
        a.inject_packet(c, 0, p, Default::default());
        batch.push(b.make_packet(&[i; 60]));
    }
    b.inject_batch(c, &mut batch, Default::default());
    assert!(batch.is_empty());
    assert_eq!(a.totals(), b.totals());
    assert_eq!(a.drops(), b.drops());
    for h in ["c.count", "d.count", "e.count"] {
        assert_eq!(a.read_handler(h), b.read_handler(h));
    }
}

#[test]
fn a_compound_element_can_be_bound_to_a_thread() {
    let c = "elementclass C { input -> Null -> output }";
    let top = format!("{c}; Idle -> c :: C -> Discard; StaticThreadSched(c 0);");
    assert_eq!(errors(&top), [""; 0]);
    // the name counts in the scope of the element that uses it
    let inner = format!(
        "{c}; elementclass D {{ input -> c :: C -> output; StaticThreadSched(c 0) }}; Idle -> d :: D -> Discard;"
    );
    assert_eq!(errors(&inner), [""; 0]);
    let wrong = format!("{inner} StaticThreadSched(c 0);");
    assert!(errors(&wrong)[0].ends_with("'c' does not name an element"));
}
