//! Every element's model is held against its behaviour, over configurations and packets.
//!
//! Each module lists the plans of some families; `ONEFOLD_MODEL_SEED` sets another seed, `ONEFOLD_MODEL_PACKETS` multiplies
//! the number of packets. Run with `--nocapture` to see the share of punts per class.

mod classify;
mod headers;
mod ip6;
mod queues;
mod rewrite;
mod routing;
mod sources;
mod standard;

use onefold_elements::model::check::Plan;

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
