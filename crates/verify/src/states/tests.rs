//! Small explorations and runs, and broken rewriters that must be found out.

use super::config::all;
use super::*;

#[test]
fn all_short_sequences_keep_the_promises() {
    for c in all(2) {
        let r = explore(&c, 3, 3).unwrap_or_else(|e| panic!("{e}"));
        assert!(r.sequences > 500, "{}: {r:?}", c.name);
        assert!(r.most >= 2, "{}: {r:?}", c.name);
    }
}

#[test]
fn long_runs_under_pressure_keep_the_promises() {
    for c in all(12) {
        let r = soak(&c, 40, 60_000, 1, &mut |_| true).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(r.events, 60_000);
        assert!(r.audits >= 10 && r.most >= 8, "{}: {r:?}", c.name);
    }
}

/// Where nearly all variations are taken, and a full table gives places of flows that go to new ones within a
/// millisecond, addresses of those that went are free.
#[test]
fn what_evicted_flows_had_is_free() {
    let c = all(64).into_iter().find(|c| c.kind == config::Kind::Addr);
    let r = soak(&c.unwrap(), 200, 60_000, 1, &mut |_| true).unwrap_or_else(|e| panic!("{e}"));
    assert!(r.evictions > 100, "{r:?}");
}

/// Runs events, with something done to the rewriter behind the model's back after some of them.
fn tampered(config: &Config, at: u64, harm: impl Fn(&mut Rig)) -> Option<Broken> {
    let mut rng = Rng::new(5);
    let mut walk = Walk::new(config, 12).unwrap();
    let mut harm = Some(harm);
    for n in 0..20_000u64 {
        let s = draw(config, 12, &mut rng);
        let Some(e) = walk.event(config.kind, s) else {
            continue;
        };
        if let Err(b) = walk.step(config.kind, s, e) {
            return Some(b);
        }
        // not every draw is an event
        if n >= at
            && let Some(harm) = harm.take()
        {
            harm(&mut walk.rig);
        }
    }
    None
}

#[test]
fn broken_rewriters_are_found_out() {
    for c in all(12) {
        assert_eq!(tampered(&c, 2_000, |_| {}), None, "{}", c.name);
        let lost = tampered(&c, 2_000, |rig| rig.bench().write("clear", "").unwrap());
        assert!(lost.is_some(), "{}: lost bindings", c.name);
        let small = tampered(&c, 2_000, |rig| rig.bench().write("capacity", "1").unwrap());
        assert!(small.is_some(), "{}: bindings evicted", c.name);
        let early = tampered(&c, 2_000, |rig| {
            let now = rig.bench().now;
            rig.bench().now = now + onefold_packet::Timestamp::from_secs(1_000);
            rig.bench().with(|e, cx| e.run_timer(0, cx));
        });
        assert!(early.is_some(), "{}: swept too early", c.name);
        // another configuration than the promised one
        let mut other = c.clone();
        let swapped = other.inputs.iter_mut().find_map(|s| match s {
            config::Spec::Pattern(_, f, r) => {
                std::mem::swap(f, r);
                Some(())
            }
            _ => None,
        });
        if swapped.is_some() {
            let found = tampered(&other, 0, |rig| {
                let mut real = Rig::new(&c).unwrap();
                std::mem::swap(rig.bench(), real.bench());
            });
            assert!(found.is_some(), "{}: outputs swapped", c.name);
        }
    }
}

#[test]
fn a_counterexample_is_short() {
    let c = all(4).remove(0);
    let mut events = Vec::new();
    let mut rng = Rng::new(9);
    let mut walk = Walk::new(&c, 6).unwrap();
    while events.len() < 300 {
        let s = draw(&c, 6, &mut rng);
        if let Some(e) = walk.event(c.kind, s) {
            walk.step(c.kind, s, e).unwrap();
            events.push(e);
        }
    }
    let right = || Rig::new(&c);
    assert_eq!(replay(&right, &events), None);
    // a rewriter with another time-out than the promised one
    let mut other = c.clone();
    other.times.done += 3;
    let wrong = || {
        let mut rig = Rig::new(&c)?;
        let mut real = Rig::new(&other)?;
        std::mem::swap(rig.bench(), real.bench());
        Ok(rig)
    };
    let s = |fin, payload| Segment {
        fin,
        payload,
        ..Segment::default()
    };
    let first = |segment| Event::Packet {
        input: 0,
        udp: false,
        answer: false,
        flow: client(c.kind, 0),
        segment,
    };
    let mut reset = s(false, false);
    reset.rst = true;
    events.extend([Event::Wait(60_000), first(reset), Event::Wait(60_000)]);
    events.extend([first(reset), Event::Wait(7_000), Event::Wait(8_000)]);
    events.extend([first(s(true, true)), Event::Wait(1), first(s(false, true))]);
    let what = replay(&wrong, &events).expect("another time-out shows");
    let name = c.name;
    let found = shrink(&wrong, Box::new(Counterexample { name, what, events }));
    assert!(found.events.len() <= 6, "{found}");
    assert!(replay(&wrong, &found.events).is_some());
}
