use crate::testing::Bench;

fn lines(config: &str) -> String {
    let mut b = Bench::new("Script", config, 0, 0).unwrap();
    b.with(|e, cx| e.started(cx));
    let now = b.now;
    b.advance_to(now);
    String::from_utf8_lossy(&b.host.stdout).into_owned() + &b.host.log
}

#[test]
fn handlers_and_loops() {
    let config = "set x 0, label begin_loop, print $x, set x $(add $x 1), \
        goto begin_loop $(lt $x 3), print \"done\", stop";
    assert_eq!(lines(config), "0\n1\n2\ndone\n");
}

#[test]
fn arithmetic_of_the_documentation() {
    let b = Bench::new("Script", "TYPE PASSIVE, end", 0, 0);
    let mut b = b.unwrap();
    for (call, want) in [
        ("add 10 5 2", "17"),
        ("sub 10 5 2", "3"),
        ("max 5 10 2", "10"),
        ("div 75 2.5 5", "6"),
        ("idiv 7 2", "3"),
        ("div 7 2", "3.5"),
        ("mod 7 3", "1"),
        ("rem 7.5 2", "1.5"),
        ("neg 3", "-3"),
        ("abs -2.5", "2.5"),
        ("eq 10 0xA", "true"),
        ("le 9 8", "false"),
        ("eq 10x 10x", "true"),
        ("and true false", "false"),
        ("nor false false", "true"),
        ("if true a b", "a"),
        ("in foo bar foo", "true"),
        ("length abcdef", "6"),
        ("sprintf \"%05x\" 127", "0007f"),
        ("unquote \"a b\"", "a b"),
        (
            "htons 1",
            if cfg!(target_endian = "little") {
                "256"
            } else {
                "1"
            },
        ),
    ] {
        assert_eq!(b.read(call).as_deref(), Ok(want), "{call}");
    }
    assert!(b.read("add x").is_err());
    assert!(b.read("mod 1 0").is_err());
    assert!(b.read("not maybe").is_err());
}

#[test]
fn passive_scripts_return_values() {
    let mut b = Bench::new("Script", "TYPE PASSIVE, return $(add $1 $2) ", 0, 0).unwrap();
    assert_eq!(b.read("run 3 4").unwrap(), "7");
    let mut b = Bench::new("Script", "TYPE PASSIVE, set y $#, return $y-$args", 0, 0).unwrap();
    assert_eq!(b.read("run a b").unwrap(), "2-a b");
    let mut b = Bench::new("Script", "TYPE PASSIVE, errorq \"no good\"", 0, 0).unwrap();
    assert_eq!(b.read("run").unwrap_err().to_string(), "no good");
}

#[test]
fn proxies_answer_any_handler() {
    let c = "TYPE PROXY, goto nota $(ne $0 a), returnq \"you called 'a'\", label nota, error bad handler";
    let mut b = Bench::new("Script", c, 0, 0).unwrap();
    assert_eq!(b.read("a").unwrap(), "you called 'a'");
    assert_eq!(b.read("b").unwrap_err().to_string(), "bad handler");
}

#[test]
fn packets_choose_their_way() {
    let c = "init i 0, set j $i, set i $(if $(eq $i 0) 1 0), return $j";
    let mut b = Bench::new("Script", c, 1, 2).unwrap();
    b.with(|e, cx| e.started(cx));
    let ports: Vec<usize> = (0..4).map(|_| b.push(0, b"x")[0].0).collect();
    assert_eq!(ports, [0, 1, 0, 1]);
    let mut b = Bench::new("Script", "exit", 1, 1).unwrap();
    assert!(b.push(0, b"x").is_empty());
    assert_eq!(b.drops()["Script: dropped"], 1);
    let mut b = Bench::new("Script", "", 1, 1).unwrap();
    assert_eq!(b.push(0, b"x").len(), 1);
}

#[test]
fn pauses_waits_and_steps() {
    let mut b = Bench::new(
        "Script",
        "print 1, pause, print 2, wait 5s, print 3, stop",
        0,
        0,
    )
    .unwrap();
    b.with(|e, cx| e.started(cx));
    let t = b.now;
    b.advance_to(t);
    assert_eq!(b.host.stdout, b"1\n");
    b.write("step", "").unwrap();
    assert_eq!(b.host.stdout, b"1\n2\n");
    b.advance_to(t + onefold_packet::Timestamp::from_secs(4));
    assert_eq!(b.host.stdout, b"1\n2\n");
    b.advance_to(t + onefold_packet::Timestamp::from_secs(6));
    assert_eq!(b.host.stdout, b"1\n2\n3\n");
    assert!(b.host.stopped);
}

#[test]
fn runaway_scripts_are_disabled() {
    assert_eq!(
        lines("label a, goto a"),
        "e0 :: Script: too many jumps, giving up\n"
    );
    // doubling a text in a loop is cut
    let c = "set x 0123456789, label a, set x $x$x, goto a";
    assert!(lines(c).ends_with("giving up\n"));
}

#[test]
fn errors_name_the_instruction() {
    let e = Bench::new("Script", "prnt x, set, goto nowhere, label a b", 0, 0)
        .err()
        .unwrap();
    assert_eq!(
        e,
        [
            "INSTRUCTION: syntax error at 'prnt'",
            "INSTRUCTION: syntax error at 'set'",
            "INSTRUCTION: syntax error at 'label'",
            "goto: no such label 'nowhere'",
        ]
    );
    assert!(Bench::new("Script", "TYPE PASSIVE", 1, 1).is_err());
    assert!(Bench::new("Script", "TYPE BOGUS", 0, 0).is_err());
    let text = lines("write nobody.x 1, print $(add x)");
    assert!(text.contains("expected list of numbers"), "{text}");
}

#[test]
fn variables_from_outside() {
    let mut b = Bench::new("Script", "TYPE PASSIVE, export v 7, set w 1", 0, 0).unwrap();
    b.with(|e, cx| e.started(cx));
    assert_eq!(b.read("v").unwrap(), "7");
    b.write("set", "list a b c").unwrap();
    assert_eq!(b.read("shift list").unwrap(), "a");
    assert_eq!(b.read("get list").unwrap(), "b c");
    assert!(b.read("get nothing").is_err());
}
