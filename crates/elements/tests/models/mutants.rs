//! Would a wrong model be found out? Every model is changed in one place at a time, and the class's packets go through it.
//!
//! `ONEFOLD_MUTANTS` limits the mutants per configuration (120). Run by `scripts/mutate-models.sh`.

use super::{number, plans};
use onefold_elements::model::Model;
use onefold_elements::model::check::{Plan, Report, Subject, check, models_of};
use onefold_elements::model::mutate::{Mutant, mutants};
use onefold_elements::model::probe::probes;
use onefold_elements::model::samples::Sample;
use std::collections::BTreeMap;

/// What a class's tests made of its mutants.
#[derive(Default)]
struct Tally {
    all: usize,
    caught: usize,
    /// Nothing is wrong with them: packets that did not have to be are handed over, or that had to be are not there.
    dearer: usize,
    survivors: Vec<String>,
    /// The right model is not right.
    wrong: Vec<String>,
}

/// Seeds and multiples of the plan's packets, tried until one finds the mutant out.
const ROUNDS: [(u64, usize); 3] = [(1, 1), (2, 1), (3, 4)];

fn altered(
    s: &Subject,
    port: usize,
    n: &Mutant,
    right: &Model,
    list: &[Sample],
    seed: u64,
) -> Result<Report, String> {
    let alter = |p: usize, m: Model| match p == port && m == *right {
        true => n.model.clone(),
        false => m,
    };
    check(s, list, seed, &alter).map_err(|d| d.to_string())
}

fn subject(plan: &Plan, s: &Subject, tally: &mut Tally, limit: usize) {
    let models = models_of(s).unwrap_or_else(|d| panic!("{d}"));
    let mut rounds = Vec::new();
    for (seed, times) in ROUNDS {
        let plan = plan.clone().packets(plan.packets * times);
        let mut list = plan.samples(s, seed);
        let near = probes(&models, &list, seed, 1000);
        list.extend(near);
        match check(s, &list, seed, &|_, m| m) {
            Ok(base) => rounds.push((seed, list, base)),
            Err(d) => tally.wrong.push(d.to_string()),
        }
    }
    for (port, right) in models.iter().enumerate() {
        for n in mutants(right, limit) {
            tally.all += 1;
            let mut handed = false;
            let found = rounds.iter().any(|(seed, list, base)| {
                match altered(s, port, &n, right, list, *seed) {
                    Err(_) => true,
                    Ok(r) => {
                        handed |= r.punted + r.asked != base.punted + base.asked;
                        r.plain_punted > base.plain_punted
                            && r.plain_punted * 1000 > r.plain * plan.plain_punts
                    }
                }
            });
            match (found, handed) {
                (true, _) => tally.caught += 1,
                (false, true) => tally.dearer += 1,
                (false, false) => {
                    let config: String = s.config.chars().take(60).collect();
                    tally
                        .survivors
                        .push(format!("{}({config}) input {port}, {}", s.class, n.what));
                }
            }
        }
    }
}

#[test]
#[ignore = "minutes of work: scripts/mutate-models.sh"]
fn mutants_are_caught() {
    let limit = number("ONEFOLD_MUTANTS", 120) as usize;
    let mut classes: BTreeMap<String, Tally> = BTreeMap::new();
    for plan in plans() {
        for s in &plan.subjects {
            let tally = classes.entry(s.class.clone()).or_default();
            subject(&plan, s, tally, limit);
        }
    }
    let (mut all, mut caught, mut dearer) = (0, 0, 0);
    for (class, t) in classes.iter().filter(|(_, t)| t.all > 0) {
        println!(
            "{class}: {} of {} caught, {} hand over other packets, {} unseen",
            t.caught,
            t.all,
            t.dearer,
            t.survivors.len()
        );
        for w in &t.wrong {
            println!("  differs: {}", w.chars().take(300).collect::<String>());
        }
        for s in &t.survivors {
            println!("  survivor: {s}");
        }
        all += t.all;
        caught += t.caught;
        dearer += t.dearer;
    }
    let wrong = all - dearer;
    println!(
        "{caught} of {wrong} caught ({:.1}%); {dearer} more only hand over other packets, which is right",
        caught as f64 * 100.0 / wrong.max(1) as f64
    );
    let least = number("ONEFOLD_MUTANTS_LEAST", 90) as usize;
    assert!(
        caught * 100 >= wrong * least,
        "fewer than {least}% are caught"
    );
}
