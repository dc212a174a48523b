//! Would a wrong model be found out? Every model is changed in one place at a time, and the class's packets go through
//! it.
//!
//! `ONEFOLD_MUTANTS` limits the mutants per configuration (120). Run by `scripts/mutate-models.sh`.

use super::{number, plans};
use onefold_element::model::Model;
use onefold_elements::model_check::alike::{Sight, alike};
use onefold_elements::model_check::check::{
    Plan, Report, Subject, accounted, check, models_by_input,
};
use onefold_elements::model_check::mutate::{Mutant, mutants};
use onefold_elements::model_check::samples::Sample;
use std::cell::OnceCell;
use std::collections::BTreeMap;

/// What a class's tests made of its mutants.
#[derive(Default)]
struct Tally {
    all: usize,
    caught: usize,
    /// Nothing is wrong with them: other packets are handed over, or for another cause.
    dearer: usize,
    /// Proven to mean the same.
    same: usize,
    survivors: Vec<String>,
    /// The right model is not right.
    wrong: Vec<String>,
}

/// Why a change stays unseen: class (empty: any), what the change's text has in it, why.
const EXPLAINED: &[(&str, &[&str], &str)] = &[
    (
        "",
        &["another account"],
        "what an account prints is printed a few times only, and the first packets of the run have used that up",
    ),
    (
        "IPLookup",
        &["operation 0 left out"],
        "the account says that there is no route, and says it a few times only",
    ),
    (
        "SetUDPChecksum",
        &["operation 0 left out"],
        "the account prints a warning, and does so once",
    ),
    (
        "Rewriter",
        &["case 5", "case 6", "case 7"],
        "bind hands over packets that are cut off, and DCCP, itself: the guard saves asking it",
    ),
    (
        "StoreIPAddress",
        &["case 4", "case 5", "case 6"],
        "the cases differ in which checksums follow, and a checksum that is not there does not",
    ),
    (
        "Rewriter",
        &["destination annotation"],
        "only replies pass this input, and none comes: replies are in the family's own tests (rewrite::tests::unpushed)",
    ),
    (
        "EtherRewrite",
        &["HasMac"],
        "the header is marked where it was marked already in these packets, or as long",
    ),
    (
        "PaintSwitch",
        &["exits swapped"],
        "with one output, a copy to each of them is the packet itself",
    ),
    (
        "TCPChecksum",
        &["case 3: TransportLen"],
        "a header that is cut off is refused by a later case as well: what it says of lengths cannot be right",
    ),
    (
        "ResetIPChecksum",
        &["case 4"],
        "a header that is cut off is refused by a later case as well: what it says of lengths cannot be right",
    ),
    (
        "Unstrip",
        &["At("],
        "in front of a header at the packet's first byte there is nothing to put back, and none begins 32 KiB before it",
    ),
    (
        "StoreIPAddress",
        &["case 2: part 1: NetLen"],
        "only a header that begins behind the packet's first byte is that short where the address has room: none here does",
    ),
    (
        "IPClassifier",
        &["case 7: Field(FieldRef { base: Net, bit: 8"],
        "the rule before takes all packets with these values",
    ),
    (
        "Pad",
        &["operation 0 left out"],
        "what is set to zero is zero",
    ),
    (
        "",
        &["case 7: operation 0 left out", "a longer header"],
        "the header is marked where it was marked already in these packets, or as long",
    ),
    (
        "Check",
        &["0xf one lower", "from 0x5 one higher", "case 2", "swapped"],
        "a header that is wrong in two ways is dropped for one of them, and without DETAILS nobody sees which",
    ),
    (
        "CheckTCPHeader",
        &["case 6", "case 7"],
        "a segment shorter than its header is refused for its checksum instead, and without DETAILS nobody sees which",
    ),
    (
        "",
        &["NetLen instead of", "Len instead of"],
        "the two lengths differ by a constant here, and the boundary is on the same side",
    ),
    (
        "IP",
        &["instead of Field", "bit not looked at"],
        "no packet was found of which the neighbouring field says the opposite while the rules around it leave the decision to it",
    ),
    (
        "Strip",
        &["At(", "HasNet", "not handed over", "left out"],
        "a header that is not marked, or begins before the packet's first byte: handed over, and then nothing happens to it",
    ),
    (
        "IPFilter",
        &["part 1: part", "part 2: part", "part 1 left out"],
        "a condition inside an alternative decides only where the other alternatives fail, the rest of the rule holds and no rule \
         before takes the packet: none such among a hundred times as many",
    ),
    (
        "IPFilter",
        &["part 2 left out"],
        "the rule's third condition decides only where two hundred rules before it do not",
    ),
];

/// Why it is unseen, if that is known.
fn why(class: &str, what: &str) -> Option<&'static str> {
    let fits = |(c, some, _): &&(&str, &[&str], &str)| {
        class.contains(c) && some.iter().any(|s| what.contains(s))
    };
    EXPLAINED.iter().find(fits).map(|(_, _, why)| *why)
}

/// Seeds and multiples of the plan's packets, tried until one finds the mutant out.
const ROUNDS: [(u64, usize); 3] = [(1, 1), (2, 1), (3, 4)];
/// Tried in the end for those for which no reason is known.
const MORE: [(u64, usize); 2] = [(4, 30), (5, 100)];

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

/// The lowest tag that looks the same when it is accounted for.
fn alias(s: &Subject, tag: u16) -> u16 {
    let seen = accounted(s, tag);
    (0..tag).find(|t| accounted(s, *t) == seen).unwrap_or(tag)
}

fn subject(plan: &Plan, s: &Subject, tally: &mut Tally, limit: usize) {
    let models = models_by_input(s).unwrap_or_else(|d| panic!("{d}"));
    let mut rounds = Vec::new();
    for (seed, times) in ROUNDS {
        let plan = plan.clone().packets(plan.packets * times);
        let list = plan.samples(s, seed).unwrap_or_else(|d| panic!("{d}"));
        match check(s, &list, seed, &|_, m| m) {
            Ok(base) => rounds.push((seed, list, base)),
            Err(d) => tally.wrong.push(d.to_string()),
        }
    }
    let more: Vec<OnceCell<Option<Vec<Sample>>>> = MORE.iter().map(|_| OnceCell::new()).collect();
    for (port, right) in &models {
        for n in mutants(right, limit) {
            tally.all += 1;
            let mut handed = false;
            let found = rounds.iter().any(|(seed, list, base)| {
                match altered(s, *port, &n, right, list, *seed) {
                    Err(_) => true,
                    Ok(r) => {
                        handed |= r.causes != base.causes || r.asked != base.asked;
                        r.plain_punted > base.plain_punted
                            && r.plain_punted * 1000 > r.plain * plan.plain_punts
                    }
                }
            });
            let sight = Sight {
                outputs: s.noutputs,
                origins: s.origins && rounds.iter().any(|(_, _, base)| base.decided > 0),
                account: &|tag| alias(s, tag),
            };
            let same = || match (right, &n.model) {
                (Model::Cases(a), Model::Cases(b)) => alike(a, b, sight),
                _ => false,
            };
            let seen_at_last = || {
                MORE.iter().zip(&more).any(|((seed, times), list)| {
                    let list = list.get_or_init(|| {
                        let plan = plan.clone().packets(plan.packets * times);
                        plan.samples(s, *seed).ok()
                    });
                    let differs = |l: &Vec<Sample>| altered(s, *port, &n, right, l, *seed).is_err();
                    list.as_ref().is_some_and(differs)
                })
            };
            match (found, handed) {
                (true, _) => tally.caught += 1,
                (false, true) => tally.dearer += 1,
                (false, false) if same() => tally.same += 1,
                (false, false) if why(&s.class, &n.what).is_none() && seen_at_last() => {
                    tally.caught += 1;
                }
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
    let only = std::env::var("ONEFOLD_MUTANTS_OF").unwrap_or_default();
    for plan in plans() {
        for s in plan.subjects.iter().filter(|s| s.class.contains(&only)) {
            let tally = classes.entry(s.class.clone()).or_default();
            subject(&plan, s, tally, limit);
        }
    }
    let (mut all, mut caught, mut dearer, mut same) = (0, 0, 0, 0);
    let mut reasons: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for (class, t) in classes.iter().filter(|(_, t)| t.all > 0) {
        println!(
            "{class}: {} of {} caught, {} hand over other packets, {} mean the same, {} unseen",
            t.caught,
            t.all,
            t.dearer,
            t.same,
            t.survivors.len()
        );
        for w in &t.wrong {
            println!("  differs: {}", w.chars().take(300).collect::<String>());
        }
        for s in &t.survivors {
            println!("  survivor: {s}");
            let why = why(class, s).unwrap_or("not explained");
            *reasons.entry(why).or_default().entry(class).or_default() += 1;
        }
        all += t.all;
        caught += t.caught;
        dearer += t.dearer;
        same += t.same;
    }
    let wrong = all - dearer - same;
    println!(
        "{caught} of {wrong} caught ({:.1}%); of {all} changes {same} are proven to mean the same, {dearer} only hand over \
         other packets, which is right",
        caught as f64 * 100.0 / wrong.max(1) as f64
    );
    for (why, classes) in &reasons {
        let n: usize = classes.values().sum();
        let names: Vec<String> = classes.iter().map(|(c, n)| format!("{c} {n}")).collect();
        println!("| {n} | {} | {why} |", names.join(", "));
    }
    let unknown: usize = reasons.get("not explained").map_or(0, |c| c.values().sum());
    let least = number("ONEFOLD_MUTANTS_LEAST", 95) as usize;
    assert!(
        caught * 100 >= wrong * least,
        "fewer than {least}% are caught"
    );
    assert_eq!(unknown, 0, "unseen changes that are not explained");
}
