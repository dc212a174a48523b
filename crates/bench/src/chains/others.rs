//! Random DPI, monitors and VLAN taggers.

use super::filter::{Names, expression};
use super::line::{Line, Made};
use super::words::{one_in, pick};

/// A pattern in YAML.
fn pattern(l: &mut Line, n: u64) -> String {
    let hosts = l.hosts.clone();
    let names = Names {
        hosts: &hosts,
        named: l.named,
        web: l.parameters,
    };
    let rng = &mut l.rng;
    let mut parts = vec![format!(
        "action: {}",
        pick(rng, &["drop", "alert", "alert", "pass"])
    )];
    if one_in(rng, 2) {
        parts.push(format!("name: \"pattern {n}\""));
    }
    let mut literal = true;
    match rng.below(5) {
        0 => parts.push(format!(
            "hex: \"{}\"",
            pick(rng, &["4d 5a", "7f 45 4c 46", "00", "0d 0a"])
        )),
        1 => {
            literal = false;
            parts.push(format!(
                "regex: \"{}\"",
                pick(rng, &["union +select", "[0-9]{4}", "^GET ", "ab*c|EVIL"])
            ));
        }
        2 => {
            literal = false;
            parts.push(format!("filter: \"{}\"", expression(rng, &names, 1)));
        }
        _ => parts.push(format!(
            "text: \"{}\"",
            pick(rng, &["EVIL", "ONEFOLD-EVIL", "a", "GET /"])
        )),
    }
    if literal && one_in(rng, 3) {
        parts.push(format!("offset: {}", rng.below(6)));
        if one_in(rng, 2) {
            parts.push(format!("depth: {}", rng.between(16, 40)));
        }
    }
    if one_in(rng, 4) {
        parts.push("ignore-case: true".into());
    }
    if one_in(rng, 3) && !parts.iter().any(|p| p.starts_with("filter")) {
        parts.push(format!("filter: \"{}\"", expression(rng, &names, 1)));
    }
    if one_in(rng, 3) {
        parts.push(format!("direction: {}", pick(rng, &["in", "out", "both"])));
    }
    format!("    - {{ {} }}\n", parts.join(", "))
}

/// Deep packet inspection, with a port for alerts at times.
pub(super) fn dpi(l: &mut Line) -> Made {
    let mut y = String::from("dpi:\n  patterns:\n");
    for n in 0..l.rng.between(1, 4) {
        y.push_str(&pattern(l, n));
    }
    let alerts = one_in(&mut l.rng, 2);
    if alerts {
        y.push_str("  alerts: true\n");
    }
    let turned = one_in(&mut l.rng, 6);
    let mut m = Made::two("dpi", y, turned);
    if alerts {
        m.out_only.push(2);
    }
    m
}

/// A monitor.
pub(super) fn monitor(l: &mut Line) -> Made {
    let y = match l.rng.below(3) {
        0 => "monitor: {}\n".to_string(),
        1 => format!("monitor: {{ flows: {} }}\n", l.rng.between(1, 4)),
        _ => "monitor: { flows: 65536 }\n".to_string(),
    };
    let turned = one_in(&mut l.rng, 6);
    Made::two("monitor", y, turned)
}

/// A tagger; turned where frames from the left have tags.
pub(super) fn vlan(l: &mut Line) -> Made {
    let id = match l.tagged {
        true => l.vlan,
        false => l.rng.between(1, 4094) as u16,
    };
    l.vlan = id;
    let mut parts = vec![format!("id: {id}")];
    if one_in(&mut l.rng, 2) {
        parts.push(format!("priority: {}", l.rng.below(8)));
    }
    let turned = l.tagged;
    l.tagged = !l.tagged;
    Made::two(
        "vlan",
        format!("vlan: {{ {} }}\n", parts.join(", ")),
        turned,
    )
}
