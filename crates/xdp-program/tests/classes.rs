//! What the decision structure makes of a small program's rules: every frame gets the first rule's outcome.

use onefold_synth::Program;
use onefold_synth::program::StageId;
use onefold_xdp_program::{Count, Dispatch, Generated, Input, Options, Verdict, generate};

/// An entry with these rules; `a0` drops and counts, `a1` lets out, `a2` drops for another reason.
fn program(rules: &str) -> Program {
    let text = format!(
        "onefold program 1\n\nelement e0 \"in\"\nelement e1 \"out\"\nelement e2 \"list\"\n\nentry e0 stage0\n\n\
         stage0 at e0[0] entry fresh {{\n{rules}\
         \x20 a0 {{\n    count e2 tag 0 from 14 to ip4 14\n    drop e2 \"denied\"\n  }}\n\
         \x20 a1 {{\n    output e1 {{}}\n  }}\n\
         \x20 a2 {{\n    drop e1 \"other\"\n  }}\n}}\n"
    );
    onefold_synth::text::parse(&text).unwrap_or_else(|e| panic!("{e:?}\n{text}"))
}

fn made(p: &Program, trusted: bool, waits: bool, options: &Options<'_>) -> Generated {
    let input = Input {
        program: p,
        entry: StageId(0),
        waits: &|_, _| waits,
        trusts: &|_, _| trusted,
        assign: &|_, rule| (rule % 2 == 1).then_some(1),
    };
    generate(&input, options).expect("code")
}

fn tells() -> Options<'static> {
    Options {
        tells: true,
        ..Options::default()
    }
}

const RULES: &str = "  when len <= 33 => a1\n\
    \x20 when len >= 34, eth.type = 0x0800, ip.version = 4, ip.ihl = 5, ip.proto = 17, ip.dst in 10.0.0.0/8 => a0\n\
    \x20 when len >= 34, eth.type = 0x0800, ip.version = 4, ip.ihl = 5, ip.ttl in 3-9 => a1\n\
    \x20 when len >= 34, eth.type = 0x0800, ip.version = 4, ip.ihl = 5 => a2\n\
    \x20 when len >= 34 => a1\n";

fn frame(protocol: u8, dst: [u8; 4], ttl: u8, len: usize) -> Vec<u8> {
    let mut f = vec![2; 12];
    f.extend([
        8, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, ttl, protocol, 0, 0, 1, 1, 1, 1,
    ]);
    f.extend(dst);
    f.resize(len, 0);
    f
}

#[test]
fn the_first_rule_that_fits_decides() {
    let p = program(RULES);
    let g = made(&p, true, true, &tells());
    assert_eq!(g.classes.len(), 2);
    let mut tables = g.tables();
    let mut verdict = |f: &[u8]| g.verdict(&mut tables, f).expect("code that is right");
    let passes = Some(Verdict::Pass(Some(0)));
    assert_eq!(
        verdict(&frame(17, [10, 1, 2, 3], 5, 60)),
        Some(Verdict::Drop(0))
    );
    assert_eq!(verdict(&frame(17, [11, 1, 2, 3], 5, 60)), passes);
    assert_eq!(
        verdict(&frame(17, [11, 1, 2, 3], 10, 60)),
        Some(Verdict::Drop(1))
    );
    assert_eq!(
        verdict(&frame(6, [10, 1, 2, 3], 2, 60)),
        Some(Verdict::Drop(1))
    );
    assert_eq!(verdict(&frame(17, [10, 1, 2, 3], 5, 33)), passes);
    let mut other = frame(17, [10, 1, 2, 3], 5, 60);
    other[12] = 9;
    assert_eq!(verdict(&other), passes);
    // 40 bytes of an IP packet, six behind it
    let wanted = Count {
        packets: 1,
        bytes: 60,
        padding: 6,
    };
    assert_eq!(g.counted(&tables, 0), wanted);
    assert_eq!(wanted.bytes_at(g.classes[0].counts[0].2), 40);
}

/// Every number that the code compares with is one that matters: changed by one, some frame at a boundary is told
/// otherwise.
#[test]
fn every_boundary_is_seen_by_a_frame() {
    let p = program(RULES);
    let g = made(&p, true, true, &tells());
    let mut frames = Vec::new();
    for len in [13, 14, 33, 34, 35, 60] {
        for protocol in [16, 17, 18] {
            for dst in [
                [9, 255, 255, 255],
                [10, 0, 0, 0],
                [10, 255, 255, 255],
                [11, 0, 0, 0],
            ] {
                for ttl in [2, 3, 9, 10] {
                    let f = frame(protocol, dst, ttl, 60);
                    frames.push(f[..len].to_vec());
                    for (at, v) in [
                        (12, 7),
                        (12, 9),
                        (13, 1),
                        (14, 0x44),
                        (14, 0x46),
                        (14, 0x35),
                        (14, 0x55),
                    ] {
                        let mut f = f.clone();
                        f[at] = v;
                        frames.push(f[..len].to_vec());
                    }
                }
            }
        }
    }
    let answers = |g: &Generated| -> Vec<_> {
        let ask = |f: &Vec<u8>| g.verdict(&mut g.tables(), f).ok().flatten();
        frames.iter().map(ask).collect()
    };
    let right = answers(&g);
    let mut compared = 0;
    for i in 0..g.code.instructions.len() {
        let one = g.code.instructions[i];
        // jumps of 32 bits with a number: questions about fields
        if one.code & 0x0f != 0x06 || one.code == 0x06 {
            continue;
        }
        compared += 1;
        let mut wrong = g.clone();
        wrong.code.instructions[i].value = one.value.wrapping_add(1);
        assert_ne!(answers(&wrong), right, "instruction {i}: {}", g.code.text());
    }
    assert!(compared > 8, "{}", g.code.text());
}

#[test]
fn what_does_more_than_count_passes() {
    let p = program(RULES);
    let f = frame(17, [10, 1, 2, 3], 5, 60);
    for (trusted, waits) in [(false, true), (true, false)] {
        let g = made(&p, trusted, waits, &tells());
        let got = g.verdict(&mut g.tables(), &f).expect("code that is right");
        assert_eq!(got, Some(Verdict::Pass(Some(0))), "{trusted} {waits}");
        assert_eq!(
            g.summary.left.iter().sum::<usize>(),
            if trusted { 1 } else { 2 }
        );
    }
}

#[test]
fn what_cannot_be_seen_passes() {
    // a checksum of the whole packet, options in the header
    let p = program(
        "  when len >= 34, eth.type = 0x0800, tcp_sum_right(14) = 0 => a2\n\
         \x20 when len >= 34, eth.type = 0x0800, ip4_sum_right(14) = 0 => a2\n  when any => a2\n",
    );
    let g = made(&p, true, true, &tells());
    let mut f = frame(6, [10, 1, 2, 3], 5, 60);
    let ask = |f: &[u8]| g.verdict(&mut g.tables(), f).expect("code that is right");
    // the first rule's packets may be dropped, or not
    assert_eq!(ask(&f), Some(Verdict::Pass(Some(0))));
    f[12] = 0x86;
    assert_eq!(ask(&f), Some(Verdict::Drop(0)));
}

#[test]
fn classes_go_to_workers() {
    let p = program(RULES);
    let options = Options {
        dispatch: Dispatch::Classes {
            workers: 2,
            undecided: 0,
        },
        ..tells()
    };
    let g = made(&p, true, false, &options);
    let ask = |f: &[u8]| g.verdict(&mut g.tables(), f).expect("code that is right");
    // rules with odd numbers are worker 1's
    assert_eq!(
        ask(&frame(17, [10, 1, 2, 3], 5, 60)),
        Some(Verdict::Pass(Some(1)))
    );
    assert_eq!(
        ask(&frame(17, [11, 1, 2, 3], 5, 60)),
        Some(Verdict::Pass(Some(0)))
    );
    assert_eq!(ask(&frame(6, [11, 1, 2, 3], 2, 60)), Some(Verdict::Drop(0)));
}

#[test]
fn the_budget_is_kept_and_the_rest_passes() {
    let mut rules = String::new();
    for i in 0..2000u32 {
        let (a, b) = (i / 250, i % 250);
        rules.push_str(&format!(
            "  when len >= 34, eth.type = 0x0800, ip.src = 10.0.{a}.{b}, ip.dst = 10.1.{b}.{a} => a2\n"
        ));
    }
    rules.push_str("  when any => a1\n");
    let p = program(&rules);
    let mut last = 0;
    for budget in [500, 5_000, 100_000] {
        let options = Options { budget, ..tells() };
        let g = made(&p, true, true, &options);
        assert!(
            g.code.instructions.len() < 2 * budget + 1000,
            "{:?}",
            g.summary
        );
        let mut dropped = 0;
        for i in (0..2000u32).step_by(7) {
            let (a, b) = ((i / 250) as u8, (i % 250) as u8);
            let mut f = frame(6, [10, 1, b, a], 5, 60);
            f[26..30].copy_from_slice(&[10, 0, a, b]);
            match g.verdict(&mut g.tables(), &f).expect("code that is right") {
                Some(Verdict::Drop(_)) => dropped += 1,
                got => assert_eq!(got, Some(Verdict::Pass(Some(0)))),
            }
            f[26] = 11;
            let got = g.verdict(&mut g.tables(), &f).expect("code that is right");
            assert_eq!(got, Some(Verdict::Pass(Some(0))));
        }
        assert!(dropped >= last, "{budget}: {dropped}");
        last = dropped;
    }
    assert_eq!(last, 286);
}
