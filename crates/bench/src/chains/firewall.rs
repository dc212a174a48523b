//! Random firewalls.

use super::filter::{Names, list, list6};
use super::line::{Line, Made};
use super::rules;
use super::words::{one_in, pick};

/// A firewall; its rules inline, or in a file of one of the formats.
pub(super) fn make(l: &mut Line) -> Made {
    let mut y = String::from("firewall:\n");
    let hosts = l.hosts.clone();
    let (named, web) = (l.named, l.parameters);
    let names = Names {
        hosts: &hosts,
        named,
        web,
    };
    let rng = &mut l.rng;
    let file = format!("rules-{}.txt", l.made);
    match rng.below(8) {
        0 => {
            let verdicts = one_in(rng, 2);
            l.files
                .push((file.clone(), rules::classbench(rng, &hosts, verdicts)));
            y.push_str(&format!("  rules-file: {file}\n  format: classbench\n"));
            if !verdicts {
                y.push_str(&format!("  deny-every: {}\n", rng.below(4)));
            }
        }
        1 => {
            let interfaces = one_in(rng, 2);
            l.files
                .push((file.clone(), rules::iptables(rng, &hosts, interfaces)));
            y.push_str(&format!("  rules-file: {file}\n  format: iptables\n"));
            if interfaces {
                y.push_str("  interfaces: { inside: in0, outside: out0 }\n");
            }
        }
        2 => {
            // parameters are those of the chain file alone
            let names = Names {
                web: false,
                ..names
            };
            let lines = list(rng, &names);
            l.files
                .push((file.clone(), format!("# rules\n{}\n", lines.join("\n"))));
            y.push_str(&format!("  rules-file: {file}\n  format: click\n"));
        }
        _ => {
            y.push_str("  rules:\n");
            for r in list(rng, &names) {
                y.push_str(&format!("    - \"{r}\"\n"));
            }
        }
    }
    if one_in(rng, 3) {
        y.push_str("  rules6:\n");
        for r in list6(rng) {
            y.push_str(&format!("    - \"{r}\"\n"));
        }
    }
    if one_in(rng, 2) {
        y.push_str(&format!(
            "  default: {}\n",
            pick(rng, &["allow", "allow", "deny"])
        ));
    }
    if one_in(rng, 2) {
        y.push_str(&format!(
            "  back: {}\n",
            pick(rng, &["same", "allow", "allow", "deny"])
        ));
    }
    if one_in(rng, 6) {
        y.push_str(&format!("  arp: {}\n", pick(rng, &["allow", "deny"])));
    }
    if one_in(rng, 6) || l.tagged {
        y.push_str(&format!(
            "  other: {}\n",
            if l.tagged {
                "allow"
            } else {
                pick(rng, &["allow", "deny"])
            }
        ));
    }
    let turned = one_in(rng, 6);
    Made::two("firewall", y, turned)
}
