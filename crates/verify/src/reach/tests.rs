use super::*;
use onefold_element::ElemId;
use onefold_synth::text;

const HEAD: &str = r#"
onefold program 1
element e0 "in"
element e1 "x"
element e2 "out"
slot s0 bits 32 in 0.0.0.0/0
slot s1 bits 32 in 0.0.0.0/0
slot s2 bits 16 in 0-65535
slot s3 bits 16 in 0-65535
slot s4 bits 16 in 0-65535
slot s5 bits 16 in 0-65535
entry e0 stage0
"#;

fn reach(stages: &str) -> Reach {
    let p = text::parse(&format!("{HEAD}{stages}")).unwrap();
    Reach::of(Arc::new(p), &Facts::default())
}

fn never(r: &Reach, stage: usize, rule: usize) -> Option<String> {
    match r.rule(stage, rule) {
        Verdict::Never(why) => Some(why),
        Verdict::Can => None,
        Verdict::Unknown => panic!("stage {stage} rule {rule} is not known"),
    }
}

#[test]
fn earlier_rules_take_all() {
    let r = reach(
        r#"
stage0 at e1[0] entry fresh {
  when len <= 59 => a0
  when len >= 60, @0:8 <= 9 => a0
  when @0:8 <= 5 => a0
  when len >= 20, @0:8 >= 7 => a1
  when any => a1
  a0 { drop e1 "no" }
  a1 { output e2 {} }
}
"#,
    );
    assert_eq!(
        never(&r, 0, 2).unwrap(),
        "rules 0, 1 of stage 0 take all of it"
    );
    assert_eq!(never(&r, 0, 3), None);
    assert!(never(&r, 0, 4).unwrap().contains("take"));
    // sides of the fourth rule: the shortest inside is taken before, so is the last outside
    assert!(r.side(0, 3, 0, 20).is_never());
    assert!(r.side(0, 3, 1, 7).is_never());
    assert!(r.side(0, 3, 1, 6).is_never());
    assert_eq!(r.side(0, 1, 1, 9), Verdict::Can);
    assert_eq!(r.side(0, 1, 1, 10), Verdict::Can);
    assert!(r.side(0, 1, 0, 59).is_never());
}

#[test]
fn writes_decide_what_comes_later() {
    let r = reach(
        r#"
stage0 at e1[0] entry fresh {
  when len >= 34, ip.version = 4, ip.ihl = 5, ip.len in 28-1500, ip.ttl >= 2, ip4_fits(14) = 1, ip4_sum_right(14) = 1 => a0
  when any => a1
  a0 {
    write {
      start 14
      end ip4 14
      write ip.ttl = ip.ttl - 1
      write ip.src = 203.0.113.1
      sum ip4 of 14 at 24
        group
          change ip.ttl from ip.ttl to ip.ttl - 1
          change ip.src from ip.src to 203.0.113.1
      net at 14 len 20
    } then stage1
  }
  a1 { drop e1 "no" }
}
stage1 at e1[0] written fresh {
  when @0:48 not in 0x450000000000-0x45ffffffffff => a0
  when ip@0.len >= 1501 => a0
  when len >= 1501 => a0
  when len >= 1000, ip@0.len <= 999 => a0
  when ip@0.ttl = 0 => a0
  when ip@0.ttl = 255 => a0
  when ip@0.ttl = 1 => a0
  when ip4_fits(0) = 0 => a0
  when ip4_sum_right(0) = 0 => a0
  when ip@0.src != 203.0.113.1 => a0
  when anno.paint = 1 => a0
  when any => a1
  a0 { drop e1 "odd" }
  a1 { output e2 {} }
}
"#,
    );
    for rule in [0, 1, 2, 3, 4, 5, 7, 8, 9, 10] {
        assert!(never(&r, 1, rule).is_some(), "rule {rule}");
    }
    for rule in [6, 11] {
        assert_eq!(never(&r, 1, rule), None, "rule {rule}");
    }
    assert_eq!(
        never(&r, 1, 9).unwrap(),
        "only ip@0.src = 203.0.113.1 comes here"
    );
    let why = never(&r, 1, 10).unwrap();
    assert!(why.contains("anno.paint = 0"), "{why}");
}

#[test]
fn a_field_that_the_end_may_cut_keeps_the_bits_before_it() {
    let r = reach(
        r#"
stage0 at e1[0] entry fresh {
  when len >= 34, ip.version = 4, ip.ihl = 5, ip.len >= 21, ip.proto = 1, @272:16 in 0x0800-0x08ff, ip4_fits(14) = 1 => a0
  when any => a1
  a0 {
    write {
      start 14
      end ip4 14
      net at 14 len 20
    } then stage1
  }
  a1 { drop e1 "no" }
}
stage1 at e1[0] written fresh {
  when @160:16 <= 0x07ff => a0
  when @160:16 >= 0x0900 => a0
  when ip@0.len = 21, @160:16 >= 0x0801 => a0
  when @160:16 = 0x08ff => a0
  when any => a1
  a0 { drop e1 "odd" }
  a1 { output e2 {} }
}
"#,
    );
    for (rule, can) in [(0, false), (1, false), (2, false), (3, true), (4, true)] {
        assert_eq!(never(&r, 1, rule).is_none(), can, "rule {rule}");
    }
}

/// A source NAT asked from two sides: replies find their way, and nothing but replies.
const NAT: &str = r#"
stage0 at e1[0] entry fresh {
  when len >= 60, ip.version = 4, ip.ihl = 5, ip.proto = 17, ip.src in 10.0.0.0/8, ip.dst in 192.0.2.0/24 => a0
  when len >= 60, ip.version = 4, ip.ihl = 5, ip.proto = 17, ip.dst = 203.0.113.1 => a2
  when any => a1
  a0 {
    bind e1[0] flow into s0
      with { net at 14 len 20 }
      expect output 0 saddr in 203.0.113.1 daddr kept sport in 1024-65535 dport kept
      bound [stage1]
    goto stage2
  }
  a1 { drop e1 "no" }
  a2 {
    bind e1[1] flow into s0
      with { net at 14 len 20 }
      bound [stage3]
    unreachable
  }
}
stage1 at e1[0] bound {
  when any => a0
  a0 { output e2 {} }
}
stage2 at e1[0] dynamic {
  when s2 <= 1023 => a0
  when s0 != 203.0.113.1 => a0
  when s1 in 192.0.2.0/24 => a1
  when any => a0
  a0 { drop e1 "odd" }
  a1 { output e2 {} }
}
stage3 at e1[0] bound {
  when ip.src not in 192.0.2.0/24 => a0
  when l4.dport <= 1023 => a0
  when s1 in 10.0.0.0/8 => a1
  when any => a0
  a0 { drop e1 "odd" }
  a1 { output e2 {} }
}
"#;

#[test]
fn bindings_answer_what_they_can() {
    let r = reach(NAT);
    // the input at which flows begin gets no replies: they come from where the flows go
    let why = never(&r, 1, 0).unwrap();
    assert!(
        why.contains("the source address of a reply is 192.0.2.0-192.0.2.255"),
        "{why}"
    );
    for (stage, rule, can) in [
        (2, 0, false),
        (2, 1, false),
        (2, 2, true),
        (2, 3, false),
        (3, 0, false),
        (3, 1, false),
        (3, 2, true),
        (3, 3, false),
    ] {
        assert_eq!(
            never(&r, stage, rule).is_none(),
            can,
            "stage {stage} rule {rule}"
        );
    }
    // somebody else makes bindings there: anything may come
    let p = text::parse(&format!("{HEAD}{NAT}")).unwrap();
    let facts = Facts {
        loose: BTreeSet::from([ElemId(1)]),
        ..Facts::default()
    };
    let r = Reach::of(Arc::new(p), &facts);
    for (stage, rule) in [(1, 0), (3, 0), (3, 3)] {
        assert_eq!(never(&r, stage, rule), None, "stage {stage} rule {rule}");
    }
}
