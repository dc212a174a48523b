//! Findings about lists of rules, held against all packets of a small space.

use crate::lists_of_rules;

use lists_of_rules::{list, packets};
use onefold_element::args::ArgScope;
use onefold_element::{ElementSpec, GraphSpec, NameDb};
use onefold_elements::filter::{Action, Filter, Rule, View, parse_rule};
use onefold_verify::Rng;
use onefold_verify::answers::findings::{Findings, Kind, look};
use onefold_verify::answers::list::of_element;

const SEED: u64 = 0x51ab;
const LISTS: u64 = 200;

fn compiled(rules: &[String]) -> Filter {
    let scope = ArgScope {
        names: NameDb::builtin(),
        element: "",
        elements: &[],
    };
    let one = |(i, t): (usize, &String)| {
        let (action, parsed) = parse_rule(t, 1, &scope).unwrap();
        Rule {
            argument: i as u32,
            action,
            expr: parsed.expr,
        }
    };
    Filter::new(rules.iter().enumerate().map(one).collect())
}

/// The rule that decides, and what it does.
fn decides(f: &Filter, p: &[u8]) -> (Option<u32>, bool) {
    let view = View {
        net: p,
        transport: &p[20..],
        mac: &[],
        net6: &[],
    };
    match f.first_match_linear(&view).map(|i| &f.rules()[i]) {
        Some(r) => (Some(r.argument), r.action == Action::Output(0)),
        None => (None, false),
    }
}

fn spec(class: &str, rules: &[String]) -> GraphSpec {
    GraphSpec {
        elements: vec![ElementSpec {
            name: "fw/rules".into(),
            class: class.into(),
            args: rules.to_vec(),
            ..ElementSpec::default()
        }],
        ..GraphSpec::default()
    }
}

fn found(rules: &[String]) -> Findings {
    found_in("IPFilter", rules)
}

fn found_in(class: &str, rules: &[String]) -> Findings {
    let worlds = of_element(&spec(class, rules), 0).unwrap();
    let each: Vec<Vec<usize>> = (0..rules.len()).map(|i| vec![i]).collect();
    look(&worlds, &each, &[], &mut |_| true)
}

/// What is found is what there is, of 200 lists: a rule is said never to decide where no packet shows that it does, to
/// be redundant where nothing changes without it, and neither where a packet shows the opposite.
#[test]
fn all_that_is_odd_is_found_and_nothing_else() {
    let mut rng = Rng::new(SEED);
    let packets: Vec<Vec<u8>> = packets().into_iter().map(|p| p.bytes).collect();
    let mut kinds = std::collections::BTreeMap::new();
    for n in 0..LISTS {
        let rules = list(&mut rng);
        let whole = compiled(&rules);
        let findings = found(&rules);
        assert_eq!(findings.unknown, Vec::<usize>::new(), "{rules:?}");
        for i in 0..rules.len() {
            let said = findings.all.iter().find(|f| f.rule == i);
            let mut without = rules.clone();
            without[i] = "deny false".into();
            let less = compiled(&without);
            let mut alone = vec!["deny false".to_string(); rules.len()];
            alone[i] = rules[i].clone();
            let alone = compiled(&alone);
            let mine: Vec<&Vec<u8>> = packets
                .iter()
                .filter(|p| decides(&alone, p).0.is_some())
                .collect();
            let some = packets
                .iter()
                .any(|p| decides(&whole, p).0 == Some(i as u32));
            let changes = packets
                .iter()
                .any(|p| decides(&whole, p).1 != decides(&less, p).1);
            // a last rule that says what happens where no rule fits is no finding
            let behind = |p: &Vec<u8>| {
                decides(&whole, p).0 == Some(i as u32) && decides(&less, p).0.is_some()
            };
            let written = packets.iter().any(behind);
            let own = rules[i].starts_with("allow");
            let before = |same: bool| mine.iter().any(|p| (decides(&whole, p).1 == own) == same);
            let want = match (mine.is_empty(), some) {
                (true, _) => Some(Kind::NeverMatches),
                (_, false) if !before(true) => Some(Kind::Contradicted),
                (_, false) if before(false) => Some(Kind::Shadowed),
                (_, false) => Some(Kind::Redundant),
                (_, true) if !changes && written => Some(Kind::Redundant),
                _ => None,
            };
            assert_eq!(
                said.map(|f| f.kind),
                want,
                "list {n}, rule {i} of {rules:#?}: {said:?}"
            );
            let Some(f) = said else { continue };
            *kinds.entry(f.kind).or_insert(0) += 1;
            // those that are named suffice
            if f.kind != Kind::NeverMatches && !f.behind {
                let mut few = vec!["deny false".to_string(); rules.len()];
                for b in f.by.iter().flatten() {
                    few[*b] = rules[*b].clone();
                }
                few.truncate(i);
                let few = compiled(&few);
                assert!(
                    mine.iter().all(|p| decides(&few, p).0.is_some()),
                    "{rules:#?}: {f:?}"
                );
            }
            // the packet shows it
            if f.kind != Kind::NeverMatches {
                let frame = f
                    .frame
                    .as_ref()
                    .unwrap_or_else(|| panic!("{rules:#?}: {f:?}"));
                let p = &frame[14..];
                assert!(decides(&alone, p).0.is_some(), "{rules:#?}: {f:?}");
                let (by, does) = match f.behind {
                    true => decides(&less, p),
                    false => decides(&whole, p),
                };
                assert!(
                    f.by.contains(&by.map(|b| b as usize)),
                    "{rules:#?}: {f:?} {by:?}"
                );
                assert_eq!(does == own, f.kind == Kind::Redundant, "{rules:#?}: {f:?}");
            }
        }
    }
    assert_eq!(kinds.len(), 3, "{kinds:?}");
    assert!(kinds.values().all(|n| *n > 20), "{kinds:?}");
}

/// What IPv4's header says of fragments stands elsewhere in IPv6's, or nowhere.
#[test]
fn lists_of_ipv6_are_looked_at_by_their_own_header() {
    let texts = |all: &[&str]| all.iter().map(ToString::to_string).collect::<Vec<_>>();
    let rules = texts(&[
        "allow icmp6 && (icmp6[0:1] == 128) && not ip frag",
        "allow dst net 2001:db8::/32 && tcp && dst port 443",
        "allow udp && dst port 53",
        "deny dst net 2001:db8:1::/48 && tcp && dst port 443",
        "allow ip frag",
    ]);
    let findings = found_in("IP6Filter", &rules);
    assert_eq!(findings.unknown, Vec::<usize>::new());
    let all: Vec<_> = findings.all.iter().map(|f| (f.rule, f.kind)).collect();
    assert_eq!(all, [(3, Kind::Contradicted), (4, Kind::NeverMatches)]);
}
