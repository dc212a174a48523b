//! A sound program, and one fault for each invariant.

use super::*;
use crate::text::parse;

const SOUND: &str = r#"
onefold program 1
element e0 "in"
element e1 "rw"
element e2 "out"
slot s0 bits 32 in 203.0.113.1
slot s1 bits 32 in 0.0.0.0/0
slot s2 bits 16 in 1024-65535
slot s3 bits 16 in 0-65535
slot s4 bits 16 in 0-65535
slot s5 bits 16 in 0-65535
entry e0 stage0
stage0 at e0[0] entry fresh {
  when len >= 42, eth.type = 0x0800, ip.proto = 17 => a0 from e1.0
  when len >= 42, eth.type = 0x0800 => a1 from e1
  when any => a2
  a0 {
    count e0 tag 0 from 14 to ip4 14
    bind e1[0] flow into s0 with { start 14 }
      expect output 0 saddr in 203.0.113.1 daddr kept sport in 1024-65535 dport kept
      bound [stage1]
      pass [unconnected e1]
    output e2 {
      write ip.ttl = ip.ttl - 1
      write ip.src = s0
      write l4.sport = s2
      sum ip4 of 14 at 24
        group
          add s4
          change ip.ttl from ip.ttl to ip.ttl - 1
      sum udp of 14 at 40
        group
          add s5
      anno.dst_ip = 10.0.0.1
      anno.paint = 3
    }
    path e0 e1 e2
  }
  a1 {
    ask e1[0] "payload" {} outputs [stage2]
  }
  a2 {
    drop e0 "not IP"
  }
}
stage1 at e2[0] bound {
  known s2 >= 1024
  when s2 <= 2000 => a0
  when s2 >= 1500 => a1
  a0 {
    write { write l4.sport = s2 } then stage3
  }
  a1 {
    bind e1[0] flow into s0 with {}
      bound [unconnected e1]
    unreachable
  }
}
stage2 at e2[0] asked fresh {
  when any => a0
  a0 { fork [stage4, unconnected e2] }
}
stage3 at e2[0] written fresh {
  when any => a0
  a0 { punt e2[0] "options" {} }
}
stage4 at e2[0] copy {
  when any => a0
  a0 { output e2 {} }
}
"#;

#[test]
fn a_sound_program_has_no_violations() {
    let r = check(&parse(SOUND).unwrap());
    assert_eq!(r.violations, []);
    assert_eq!(r.unshown, []);
}

/// Replaces a piece of the sound program and expects this violation first, or none.
fn broken(from: &str, to: &str, expected: Option<(u8, &str)>) {
    assert!(SOUND.contains(from), "{from}");
    let text = SOUND.replacen(from, to, 1);
    let p = parse(&text).unwrap_or_else(|e| panic!("{from} -> {to}: {e:?}"));
    let got: Vec<(u8, String)> = check(&p)
        .violations
        .iter()
        .map(|v| (v.invariant, v.place.to_string()))
        .collect();
    let got: Vec<(u8, &str)> = got.iter().map(|(i, p)| (*i, p.as_str())).collect();
    assert_eq!(got.first().copied(), expected, "{from} -> {to}: {got:?}");
}

#[test]
fn every_invariant_is_checked() {
    for (from, to, expected) in [
        // 1
        ("from e1.0", "from e9.0", (1, "stage0, rule 0")),
        ("fork [stage4,", "fork [stage9,", (1, "stage2, a0, step 0")),
        (
            "s2 >= 1500 => a1",
            "s2 >= 1500 => a2",
            (1, "stage1, rule 1"),
        ),
        (
            "entry e0 stage0\n",
            "entry e0 stage0\nentry e0 stage0\n",
            (1, "program"),
        ),
        (
            "bind e1[0] flow into s0 with {}",
            "bind e1[0] flow into s9 with {}",
            (1, "stage1, a1, step 0"),
        ),
        ("path e0 e1 e2", "path e0 e1 e3", (1, "stage0, a0")),
        // 2
        (
            "len >= 42, eth.type = 0x0800 =>",
            "eth.type = 0x0800, len >= 42 =>",
            (2, "stage0, rule 1"),
        ),
        (
            "len >= 42, eth.type = 0x0800 =>",
            "len >= 42, eth.type in {} =>",
            (2, "stage0, rule 1"),
        ),
        (
            "len >= 42, eth.type = 0x0800 =>",
            "len >= 42, eth.type >= 0 =>",
            (2, "stage0, rule 1"),
        ),
        (
            "len >= 42, eth.type = 0x0800 =>",
            "len >= 42, eth.type = 0x10800 =>",
            (2, "stage0, rule 1"),
        ),
        (
            "len >= 42, eth.type = 0x0800 =>",
            "anno@46:4 = 1 =>",
            (2, "stage0, rule 1"),
        ),
        // 3
        ("when s2 <= 2000", "when s2 <= 1000", (3, "stage1, rule 0")),
        // 4
        (
            "slot s2 bits 16 in 1024-65535",
            "slot s2 bits 16 in {}",
            (4, "program"),
        ),
        (
            "slot s3 bits 16",
            "slot s3 bits 17",
            (4, "stage0, a0, step 1"),
        ),
        // 5
        (
            "write ip.src = s0\n",
            "write ip.src = s0\n type of s1\n",
            (0, ""),
        ),
        (
            "with { start 14 }",
            "with { start 14 write ip.src = s0 }",
            (5, "stage0, a0, step 1"),
        ),
        ("pass [unconnected e1]", "pass [stage1]", (5, "stage1")),
        (
            "punt e2[0] \"options\" {}",
            "punt e2[0] \"options\" { write ip.src = s0 }",
            (5, "stage3, a0, step 0"),
        ),
        // 6
        (
            "write ip.ttl = ip.ttl - 1",
            "write l4.sport = 1",
            (6, "stage0, a0, step 2"),
        ),
        (
            "write ip.ttl = ip.ttl - 1",
            "write ip.ttl = 256",
            (6, "stage0, a0, step 2"),
        ),
        // 7
        (
            "sum ip4 of 14 at 24",
            "sum ip4 of 14 at 25",
            (7, "stage0, a0, step 2"),
        ),
        (
            "sum udp of 14 at 40",
            "sum udp of 8 at 34",
            (7, "stage0, a0, step 2"),
        ),
        (
            "sum udp of 14 at 40",
            "sum ip4 of 14 at 24",
            (7, "stage0, a0, step 2"),
        ),
        // 8
        (
            "from 14 to ip4 14",
            "from 14 to ip4 70000",
            (8, "stage0, a0, step 0"),
        ),
        (
            "with { start 14 }",
            "with { start -70000 }",
            (8, "stage0, a0, step 1"),
        ),
        ("anno.paint = 3", "anno@3:2 = 3", (8, "stage0, a0, step 2")),
        // 9
        (
            "stage1 at e2[0] bound {",
            "stage1 at e2[0] written {",
            (9, "stage1"),
        ),
        (
            "outputs [stage2]",
            "outputs [stage4]",
            (9, "stage0, a1, step 0"),
        ),
        ("then stage3", "then stage1", (9, "stage1, a0, step 0")),
        // 10
        (
            "stage4 at e2[0] copy {\n  when any => a0\n  a0 { output e2 {} }",
            "stage4 at e2[0] copy {\n  when any => a0\n  a0 { goto stage4 }",
            (10, "stage4"),
        ),
        // 11
        ("unreachable", "drop e1 \"?\"", (11, "stage1, a1, step 1")),
        (
            "a0 { output e2 {} }",
            "a0 { unreachable }",
            (11, "stage4, a0, step 0"),
        ),
        (
            "daddr kept",
            "daddr kept in 10.0.0.1",
            (11, "stage0, a0, step 1"),
        ),
        // 12
        ("when s2 >= 1500", "when s2 >= 2500", (12, "stage1")),
        (
            "  when any => a2\n",
            "  when len <= 50 => a2\n",
            (12, "stage0"),
        ),
        // 13
        (
            "drop e0 \"not IP\"",
            "drop e0 \"\"",
            (13, "stage0, a2, step 0"),
        ),
        (
            "fork [stage4, unconnected e2]",
            "fork [stage4]",
            (13, "stage2, a0, step 0"),
        ),
    ] {
        match expected {
            (0, _) => broken(from, to, None),
            e => broken(from, to, Some(e)),
        }
    }
    broken(
        "when s2 >= 1500 => a1",
        "when s2 >= 1500 => a0",
        Some((1, "stage1, a1")),
    );
    // an entry's stage that knows something
    broken(
        "entry fresh {\n",
        "entry fresh {\n  known len >= 20\n",
        Some((9, "program")),
    );
    // rules outside of all that packets are among, and an alternative that is none
    broken(
        "  known s2 >= 1024\n",
        "  known s2 >= 1024\n  among s2 in 1024-1100\n  among s2 in 1200-1300\n",
        Some((3, "stage1, rule 1")),
    );
    broken(
        "  known s2 >= 1024\n",
        "  known s2 >= 1024\n  among s2 >= 1024\n",
        Some((2, "stage1")),
    );
    // a slot's life ends with its epoch
    broken(
        "stage3 at e2[0] written fresh {\n  when any",
        "stage3 at e2[0] written fresh {\n  when s2 = 5 => a0\n  when any",
        Some((5, "stage3, rule 0")),
    );
}

#[test]
fn coverage_gives_up_within_its_budget() {
    // rules over many dimensions that leave very many pieces
    let mut text = String::from(
        "onefold program 1\nelement e0 \"x\"\nentry e0 stage0\nstage0 at e0[0] entry fresh {\n",
    );
    for i in 0..400 {
        let conditions: Vec<String> = (0..12)
            .map(|d| {
                format!(
                    "@{}:16 in {}-{}",
                    d * 16,
                    (i * 37 + d * 11) % 900,
                    (i * 37 + d * 11) % 900 + 40000
                )
            })
            .collect();
        text += &format!("when {} => a0\n", conditions.join(", "));
    }
    text += "a0 { drop e0 \"x\" }\n}\n";
    let r = check(&parse(&text).unwrap());
    assert_eq!(r.violations, []);
    assert_eq!(r.unshown, [StageId(0)]);
}
