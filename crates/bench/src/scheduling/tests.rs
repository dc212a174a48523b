use super::*;
use std::collections::BTreeSet;

#[test]
fn descriptions_are_complete() {
    let names: BTreeSet<&str> = ALL.iter().map(|e| e.name).collect();
    assert_eq!(names.len(), ALL.len(), "names differ");
    for e in ALL {
        let texts = [e.title, e.shows, e.shrunk, e.axis, e.plot];
        assert!(texts.iter().all(|t| !t.is_empty()), "{}", e.name);
        assert!(
            !e.published.is_empty() && e.published.iter().all(|p| !p.1.is_empty()),
            "{}",
            e.name
        );
        assert_eq!(find(e.name).map(|f| f.title), Some(e.title));
        for quick in [true, false] {
            let settings = (e.settings)(quick);
            assert!(!settings.is_empty(), "{}", e.name);
            let labels: BTreeSet<&str> = settings.iter().map(|s| s.label.as_str()).collect();
            assert_eq!(labels.len(), settings.len(), "{}: labels differ", e.name);
            settings.iter().for_each(|s| check(e.name, s));
        }
        // what was not measured is told so, and no line is left out for that
        let empty = Results::new(&(e.settings)(true));
        let lines = (e.lines)(&empty);
        assert!(
            lines
                .iter()
                .all(|l| l.held.is_none() && l.got == "not measured"),
            "{}: {lines:?}",
            e.name
        );
    }
    assert!(find("no-such").is_none());
}

fn check(name: &str, s: &Setting) {
    let at = format!("{name}: {}", s.label);
    let runs: BTreeSet<&str> = s.runs.iter().map(|r| r.label.as_str()).collect();
    assert!(!runs.is_empty() && runs.len() == s.runs.len(), "{at}");
    let functions: BTreeSet<&str> = s.functions.iter().map(|f| f.name.as_str()).collect();
    assert_eq!(functions.len(), s.functions.len(), "{at}");
    assert!(!s.chains.is_empty() && s.longer > 0.0, "{at}");
    let mut passed = BTreeSet::new();
    for c in &s.chains {
        let via: BTreeSet<usize> = c.via.iter().copied().collect();
        assert!(
            via.len() == c.via.len() && via.iter().all(|f| *f < s.functions.len()),
            "{at}"
        );
        passed.extend(via);
        assert!(
            c.load != Load::Pps(0)
                && !c.sizes.is_empty()
                && c.sizes.iter().all(|b| (60..=1514).contains(b)),
            "{at}"
        );
    }
    assert_eq!(
        passed.len(),
        s.functions.len(),
        "{at}: every function is passed"
    );
    for step in &s.steps {
        assert!(
            step.function < s.functions.len()
                && (0.0..1.0).contains(&step.at)
                && (0.0..=1.0).contains(&step.share)
        );
    }
    for r in &s.runs {
        let merges = s
            .functions
            .iter()
            .all(|f| !matches!(f.work, Work::Burn { .. }));
        assert!(
            r.policy.is_some() || merges,
            "{at}: burners are programs, which cannot be merged"
        );
    }
    // a function that is no burner has two ports
    let others = s
        .functions
        .iter()
        .enumerate()
        .filter(|(_, f)| !matches!(f.work, Work::Burn { .. }));
    for (i, _) in others {
        assert_eq!(
            s.chains.iter().filter(|c| c.via.contains(&i)).count(),
            1,
            "{at}"
        );
    }
}

#[test]
fn lines_judge_what_was_measured() {
    let settings = (nfvnice::LINE.settings)(true);
    let mut r = Results::new(&settings);
    for c in &mut r.cells {
        let (rate, wasted) = match c.run.starts_with("nfvnice") {
            true => (0.25, 20.0),
            false => (0.2, 3000.0),
        };
        c.rounds.push(Figures::from([
            ("Mpps".to_string(), rate),
            ("wasted/s".to_string(), wasted),
            ("p99 us".to_string(), 5.0),
        ]));
    }
    let lines = (nfvnice::LINE.lines)(&r);
    let held: Vec<Option<bool>> = lines.iter().map(|l| l.held).collect();
    // 150 times less each; 10 is what round robin is to have
    assert_eq!(held, [Some(true); 6], "{lines:?}");
    let own = own::lines(&r);
    // as fast as the non-intrusive ones, 80% of NFVnice's, and no lower p99
    assert_eq!(
        own.iter().map(|l| l.held).collect::<Vec<_>>(),
        [Some(true), Some(false), Some(false)],
        "{own:?}"
    );
    for c in r.cells.iter_mut().filter(|c| c.run.starts_with("nfvnice")) {
        c.rounds.iter_mut().for_each(|f| {
            f.insert("wasted/s".to_string(), 1000.0);
        });
    }
    let lines = (nfvnice::LINE.lines)(&r);
    assert_eq!(
        lines.iter().filter(|l| l.held == Some(false)).count(),
        3,
        "{lines:?}"
    );
}

#[test]
fn a_slice_from_which_on_switches_do_not_matter() {
    let settings = (unis_rings::SLICES.settings)(false);
    let mut r = Results::new(&settings);
    // slices of 0.1 ms for each 1,024 places; 50 us are lost with each switch, and with the shortest rings twice that
    for c in &mut r.cells {
        let slice = 100.0 * c.x / 1024.0;
        let lost = if c.x < 2000.0 { 100.0 } else { 50.0 };
        let rate = match c.run.as_str() {
            "unis" => 2.0 * (1.0 - lost / (slice + lost)),
            _ => 2.0,
        };
        let switches = 1e6 / (slice + lost);
        c.rounds.push(Figures::from([
            ("Mpps".to_string(), rate),
            ("switches/s".to_string(), switches),
        ]));
    }
    let lines = (unis_rings::SLICES.lines)(&r);
    let held: Vec<Option<bool>> = lines.iter().map(|l| l.held).collect();
    assert_eq!(held, [Some(true); 4], "{lines:?}");
    let said = |i: usize, what: &str| lines.get(i).is_some_and(|l| l.got.contains(what));
    // light: 450 us, of which 11% are lost; medium: 1,650 us, of which 3% are
    assert!(said(0, "from slices of 450 us on"), "{lines:?}");
    assert!(said(2, "from slices of 1650 us on"), "{lines:?}");
    assert!(
        said(1, "1024 places: 100 us, 4096 places: 50 us"),
        "{lines:?}"
    );
    // longer rings do not help
    for c in r.cells.iter_mut().filter(|c| c.run == "unis") {
        c.rounds.iter_mut().for_each(|f| {
            f.insert("Mpps".to_string(), 1.0);
        });
    }
    let lines = (unis_rings::SLICES.lines)(&r);
    let held: Vec<Option<bool>> = lines.iter().map(|l| l.held).collect();
    assert_eq!(held, [Some(false); 4], "{lines:?}");
}
