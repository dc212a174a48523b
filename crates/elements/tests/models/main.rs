//! Every element's model is held against its behaviour, over configurations and packets.
//!
//! Each module lists the plans of some families; `ONEFOLD_MODEL_SEED` sets another seed, `ONEFOLD_MODEL_PACKETS`
//! multiplies the number of packets. Run with `--nocapture` to see the share of punts per class.

mod classify;
mod headers;
mod ip6;
mod mutants;
mod neighbours;
mod queues;
mod rewrite;
mod routing;
mod sources;
mod standard;

use onefold_elements::model_check::check::Plan;

/// All plans there are.
fn plans() -> Vec<Plan> {
    let families = [
        classify::plans(),
        headers::plans(),
        ip6::plans(),
        queues::plans(),
        rewrite::plans(),
        routing::plans(),
        sources::plans(),
        standard::plans(),
    ];
    families.into_iter().flatten().collect()
}

fn number(name: &str, otherwise: u64) -> u64 {
    let v = std::env::var(name).ok().and_then(|v| v.parse().ok());
    v.unwrap_or(otherwise)
}

#[test]
fn models_say_what_elements_do() {
    let seed = number("ONEFOLD_MODEL_SEED", 1);
    let times = number("ONEFOLD_MODEL_PACKETS", 1) as usize;
    let mut wrong = Vec::new();
    for plan in plans() {
        let plan = plan.clone().packets(plan.packets * times);
        let class = plan.subjects.first().map_or("", |s| &s.class);
        match plan.run(seed) {
            Ok(report) => println!("{class}: {report}"),
            Err(e) => wrong.push(e),
        }
    }
    assert!(
        wrong.is_empty(),
        "{} classes:\n{}",
        wrong.len(),
        wrong.join("\n")
    );
}

/// A model, or a cause that says what stands in its way.
#[test]
fn every_class_has_a_model_or_says_why_not() {
    use onefold_element::model::{Exit, Model};
    use onefold_elements::all_classes;
    use onefold_elements::model_check::check::models_of;
    use std::collections::BTreeMap;

    let mut seen: BTreeMap<String, [usize; 3]> = BTreeMap::new();
    for s in plans().iter().flat_map(|p| &p.subjects) {
        let counts = seen.entry(s.class.clone()).or_default();
        for m in models_of(s).unwrap_or_else(|d| panic!("{d}")) {
            let cases = match &m {
                Model::None(cause) => {
                    assert!(cause.len() > 12, "{}: {cause:?} says nothing", s.class);
                    counts[2] += 1;
                    continue;
                }
                Model::Cases(cases) => cases,
            };
            assert!(!cases.is_empty(), "{}({}): no case", s.class, s.config);
            let asks = cases.iter().all(|c| matches!(c.exit, Exit::Ask(_)));
            counts[usize::from(asks)] += 1;
        }
    }
    // a class without a plan of its own (another name of one that has, mostly) says at least something
    let store = onefold_element::StateStore::new();
    let cx = onefold_element::model::ModelCx {
        elem: onefold_element::ElemId(0),
        ninputs: 1,
        noutputs: 1,
        store: &store,
    };
    let planless = all_classes().filter(|c| !seen.contains_key(c.name));
    let missing: Vec<&str> = planless
        .filter(|c| (c.new)().model(0, &cx) == Model::None("no model"))
        .map(|c| c.name)
        .collect();
    for (class, [cases, asks, none]) in &seen {
        println!("{class}: {cases} models, {asks} asked, {none} without");
    }
    assert!(missing.is_empty(), "neither model nor cause: {missing:?}");
}
