//! What `check --rules`, `diff` and `ask` say of rulesets of iptables and nftables, held against all packets of a small
//! space: 200 random rulesets with chains, sets, ranges, negations, interfaces, and questions about connections.

mod packets;
mod ruleset;

use super::subject::Subject;
use crate::cmd::check::rules;
use crate::common::ChainArgs;
use onefold_element::model::ValueSet;
use onefold_verify::Rng;
use onefold_verify::answers::ask::{Answer, Field, Question, ask};
use onefold_verify::answers::differ::{differences, leaves};
use onefold_verify::generate::read::Seen;
use ruleset::{At, Comes, Language, Packet, Ruleset, STATES, TCP, UDP};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// Rulesets of each kind.
const EACH: usize = 50;
/// Packets that are sent through a chain that tracks connections.
const SENT: usize = 60;

/// A folder of a test's own.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Folder {
        let dir = std::env::temp_dir().join(format!("onefold-brute-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Folder(dir)
    }

    /// A chain that is a firewall of a ruleset.
    fn chain(&self, name: &str, text: &str, l: Language) -> String {
        let format = match l {
            Language::Iptables => "iptables",
            Language::Nft => "nftables",
        };
        std::fs::write(self.0.join(format!("{name}.rules")), text).unwrap();
        let chain = format!(
            "functions:\n  fw:\n    firewall:\n      rules-file: {name}.rules\n      format: {format}\n      \
             interfaces: {{ inside: eth0, outside: eth1 }}\nports: {{ a: \"fw[0]\", b: \"fw[1]\" }}\n"
        );
        let file = self.0.join(format!("{name}.yaml"));
        std::fs::write(&file, chain).unwrap();
        file.display().to_string()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A kind of rulesets.
#[derive(Clone, Copy)]
struct Sort {
    language: Language,
    stateful: bool,
    seed: u64,
}

impl Sort {
    fn name(self) -> String {
        format!("{:?}-{}", self.language, self.stateful).to_lowercase()
    }

    /// All that a packet may be beside its bytes.
    fn comes(self) -> Vec<Comes> {
        let states = if self.stateful { STATES.len() } else { 1 };
        let both = [false, true].into_iter();
        both.flat_map(|down| (0..states).map(move |state| Comes { down, state }))
            .collect()
    }
}

const PORTS: [&str; 2] = ["a", "b"];

fn port(c: Comes) -> &'static str {
    PORTS[usize::from(c.down)]
}

/// What a rule is, by all packets; and what else may be said where that is a matter of how it is written.
struct Truth {
    kind: Option<&'static str>,
    or: Option<&'static str>,
    /// Packets that are the rule's.
    mine: Vec<(Packet, Comes)>,
}

fn truth(rs: &Ruleset, at: At, space: &[(Packet, Comes)], whole: &[(Option<At>, bool)]) -> Truth {
    let (mut mine, mut own) = (Vec::new(), Vec::new());
    for (i, (p, c)) in space.iter().enumerate() {
        if rs.decides(p, *c, &|o| o == at).0.is_some() {
            mine.push((*p, *c));
            own.push((i, rs.own(at, p, *c)));
        }
    }
    let decided: Vec<usize> = (0..space.len())
        .filter(|i| whole[*i].0 == Some(at))
        .collect();
    let before = |same: bool| {
        own.iter()
            .any(|(i, own)| (Some(whole[*i].1) == *own) == same)
    };
    let (mut changes, mut written) = (false, false);
    for i in &decided {
        let (p, c) = space[*i];
        let (by, does) = rs.decides(&p, c, &|o| o != at);
        changes |= does != whole[*i].1;
        written |= by.is_some();
    }
    // a last rule that says what happens where no rule fits is no finding
    let last = !decided.is_empty() && !changes && !written && {
        let by = |all: &[(Packet, Comes)]| {
            all.iter().fold(BTreeMap::new(), |mut n, (_, c)| {
                *n.entry((c.down, c.state)).or_insert(0) += 1;
                n
            })
        };
        let (mine, all) = (by(&mine), by(space));
        let everything = |(c, n)| mine.get(c).is_none_or(|m| m == n);
        all.iter().all(everything)
    };
    let kind = match (mine.is_empty(), decided.is_empty()) {
        (true, _) => Some("never-matches"),
        (_, true) if !before(true) => Some("contradictory"),
        (_, true) if before(false) => Some("shadowed"),
        (_, true) => Some("redundant"),
        (_, false) if !changes => Some("redundant"),
        _ => None,
    };
    Truth {
        kind,
        or: last.then_some("nothing"),
        mine,
    }
}

/// Which packets come to a list.
fn comes(element: &str) -> Comes {
    let state = STATES.iter().position(|s| {
        let words: Vec<&str> = element.split('_').collect();
        words.contains(s)
    });
    Comes {
        down: element.contains("down_"),
        state: state.unwrap_or(0),
    }
}

fn bytes(hex: &str) -> Vec<u8> {
    let digit = |i: usize| u8::from_str_radix(&hex[i..i + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(digit).collect()
}

/// The rules that a finding names; `None` is what happens where no rule fits.
fn named(f: &Value, lines: &BTreeMap<u64, At>) -> Vec<Option<At>> {
    let by = f["by"].as_array().unwrap().iter();
    by.map(|b| match b["policy"].as_bool() {
        Some(true) => None,
        _ => Some(lines[&b["line"].as_u64().unwrap()]),
    })
    .collect()
}

/// A finding's packet is the rule's, and one of those that are named decides about it.
fn shown(rs: &Ruleset, at: At, f: &Value, by: &[Option<At>], about: &str) {
    let frame = f["packet"].as_str().unwrap_or_else(|| panic!("{about}"));
    let p = packets::read(&bytes(frame));
    let c = comes(f["element"].as_str().unwrap());
    assert!(rs.decides(&p, c, &|o| o == at).0.is_some(), "{about} {p:?}");
    let behind = f["behind"].as_bool().unwrap();
    let (decides, does) = rs.decides(&p, c, &|o| !behind || o != at);
    assert!(by.contains(&decides), "{about} {decides:?}");
    let same = rs.own(at, &p, c) == Some(does);
    assert_eq!(same, f["kind"] == "redundant", "{about} {p:?}");
}

fn findings(sort: Sort) {
    let mut rng = Rng::new(sort.seed);
    let folder = Folder::new(&format!("check-{}", sort.name()));
    let space: Vec<(Packet, Comes)> = (packets::all().into_iter())
        .flat_map(|p| sort.comes().into_iter().map(move |c| (p, c)))
        .collect();
    let mut kinds: BTreeMap<&str, usize> = BTreeMap::new();
    for n in 0..EACH {
        let rs = Ruleset::random(&mut rng, sort.language, sort.stateful);
        let (text, lines) = rs.text(sort.language);
        let args = ChainArgs {
            chain: folder.chain("x", &text, sort.language),
            set: Vec::new(),
        };
        let mut s = Subject::load(&args.chain, &[]).unwrap_or_else(|| panic!("{text}"));
        let whole = onefold_chain::load_whole(&args.chain, &args.options());
        let whole = whole.unwrap_or_else(|e| panic!("{e:?} {text}"));
        let checked = rules::check(&s.chain, &whole, &mut s.graph, true);
        let (found, lists) = checked.json();
        let found = found.as_array().unwrap();
        let about = format!("{n}: {text} {found:#?} {lists:#?}");
        for l in lists.as_array().unwrap() {
            assert_eq!(l["unknown"].as_array().map(Vec::len), Some(0), "{about}");
        }
        let by_line: BTreeMap<u64, At> = lines.iter().map(|(at, l)| (*l, *at)).collect();
        let decided: Vec<_> = (space.iter())
            .map(|(p, c)| rs.decides(p, *c, &|_| true))
            .collect();
        let mut told = BTreeSet::new();
        for at in rs.deciding().into_iter().filter(|at| rs.is_called(at.0)) {
            let line = lines.iter().find(|l| l.0 == at).unwrap().1;
            let mut said = found.iter().filter(|f| f["line"] == line);
            let f = said.next();
            assert!(said.next().is_none(), "line {line} twice in {about}");
            told.insert(line);
            let t = truth(&rs, at, &space, &decided);
            let kind = f.and_then(|f| f["kind"].as_str());
            let fits = kind == t.kind || kind.unwrap_or("nothing") == t.or.unwrap_or("");
            assert!(fits, "line {line}: {:?}, not {kind:?} in {about}", t.kind);
            let Some(f) = f else { continue };
            *kinds.entry(t.kind.unwrap()).or_default() += 1;
            if kind == Some("never-matches") {
                continue;
            }
            let by = named(f, &by_line);
            let about = format!("line {line} of {about}");
            shown(&rs, at, f, &by, &about);
            if f["behind"] == false && f["rules_by"] == by.len() {
                // those that are named suffice
                let takes = |(p, c): &(Packet, Comes)| {
                    let some = |o: At| by.contains(&Some(o));
                    rs.decides(p, *c, &some).0.is_some()
                };
                assert!(t.mine.iter().all(takes), "{about}");
            }
        }
        let others = found.iter().map(|f| f["line"].as_u64().unwrap());
        assert!(others.into_iter().all(|l| told.contains(&l)), "{about}");
    }
    let found: usize = kinds.values().sum();
    assert!(kinds.len() == 4 && found > EACH, "{kinds:?}");
}

/// What becomes of packets in a chain, against what the ruleset says; a connection is new.
fn executed(rs: &Ruleset, s: &Subject, space: &[Packet], about: &str) {
    for down in [false, true] {
        let c = Comes { down, state: 0 };
        for p in space {
            let left = !leaves(&s.compared(), port(c), &packets::frame(p)).is_empty();
            assert_eq!(left, rs.decides(p, c, &|_| true).1, "{p:?} {c:?} {about}");
        }
    }
}

fn differing(sort: Sort) {
    let mut rng = Rng::new(sort.seed + 1);
    let folder = Folder::new(&format!("diff-{}", sort.name()));
    let space: Vec<Packet> = (packets::all().into_iter())
        .filter(|p| !p.later || !sort.stateful)
        .collect();
    let (mut same, mut different, mut proved) = (0, 0, 0);
    for n in 0..EACH {
        let old = Ruleset::random(&mut rng, sort.language, sort.stateful);
        let new = old.changed(&mut rng, sort.language, sort.stateful);
        let load = |name: &str, rs: &Ruleset| {
            let (text, _) = rs.text(sort.language);
            let file = folder.chain(name, &text, sort.language);
            let s = Subject::load(&file, &[]).unwrap_or_else(|| panic!("{text}"));
            (text, s)
        };
        let ((t, a), (u, b)) = (load("old", &old), load("new", &new));
        let found = differences(&a.compared(), &b.compared(), &mut || true);
        let about = format!("pair {n}: {t} {u} {found:#?}");
        let few: Vec<Packet> = match sort.stateful {
            true => (0..SENT).map(|_| space[rng.below(space.len())]).collect(),
            false => (space.iter().copied().filter(|_| rng.one_in(4))).collect(),
        };
        executed(&old, &a, &few, &about);
        let differ = |c: Comes| {
            let says = |rs: &Ruleset, p: &Packet| rs.decides(p, c, &|_| true).1;
            let all = space.iter().copied();
            all.filter(|p| says(&old, p) != says(&new, p))
                .collect::<Vec<_>>()
        };
        // a first packet shows a difference if it begins a connection, or can belong to none
        let (mut shown, mut may, mut any) = (false, false, false);
        for c in sort.comes() {
            let all = differ(c);
            any |= !all.is_empty();
            may |= !all.is_empty() && (c.state == 0 || STATES[c.state] == "invalid");
            let whole: Vec<&Packet> = all.iter().filter(|p| !p.later).collect();
            shown |= c.state == 0 && !whole.is_empty();
            let here = found.changes.iter().filter(|x| x.port == port(c));
            let here: Vec<_> = here.collect();
            if c.state == 0 && !whole.is_empty() {
                assert!(!here.is_empty(), "{about} {c:?}");
            }
            let told = here.iter().all(|x| x.pairs <= x.filters.len());
            for p in whole.into_iter().filter(|_| !sort.stateful && told) {
                let seen = Seen::arrive(&packets::frame(p), 0);
                let fits = |f| seen.fits(f).is_ok();
                assert!(
                    here.iter().flat_map(|x| &x.filters).any(fits),
                    "{about} {p:?}"
                );
            }
        }
        assert!(!shown || !found.changes.is_empty(), "{about}");
        assert!(may || found.changes.is_empty(), "{about}");
        assert!(!any || !found.none(), "{about}");
        for x in &found.changes {
            let f = x.frame.as_ref().unwrap();
            let [l, m] = [&a, &b].map(|s| leaves(&s.compared(), &x.port, f));
            assert_ne!(l, m, "{about}");
            let (p, down) = (packets::read(f), x.port == "b");
            if !sort.stateful {
                let c = Comes { down, state: 0 };
                let says = |rs: &Ruleset| rs.decides(&p, c, &|_| true).1;
                assert_ne!(says(&old), says(&new), "{about} {p:?}");
            }
        }
        match any {
            true => different += 1,
            false => same += 1,
        }
        proved += usize::from(!any && found.none());
    }
    println!(
        "{}: {same} mean the same, {proved} of them proved, {different} do not",
        sort.name()
    );
    assert!(
        same > EACH / 10 && different > EACH / 4,
        "{same} {different}"
    );
    assert!(proved * 2 > same, "{proved} of {same}");
}

fn asked(sort: Sort) {
    let mut rng = Rng::new(sort.seed + 2);
    let folder = Folder::new(&format!("ask-{}", sort.name()));
    let space: Vec<Packet> = packets::all().into_iter().filter(|p| !p.later).collect();
    let (mut yes, mut no) = (0, 0);
    for n in 0..EACH {
        let rs = Ruleset::random(&mut rng, sort.language, sort.stateful);
        let (text, _) = rs.text(sort.language);
        let s = Subject::load(&folder.chain("x", &text, sort.language), &[]);
        let s = s.unwrap_or_else(|| panic!("{text}"));
        for _ in 0..4 {
            let down = rng.one_in(2);
            let net = |rng: &mut Rng, n: u8| {
                let (bits, host) = (30 + rng.below(3) as u8, rng.below(5) as u128);
                let net = u128::from(u32::from_be_bytes([10, 0, n, 0]));
                ValueSet::prefix(net | host, bits, 32)
            };
            let (src, dst) = (net(&mut rng, 1), net(&mut rng, 2));
            let proto = [TCP, UDP][rng.below(2)];
            let dport = ruleset::DST_PORTS[rng.below(5)];
            let q = Question {
                six: false,
                from: vec![PORTS[usize::from(down)].into()],
                to: vec![PORTS[usize::from(!down)].into()],
                sent: vec![
                    (Field::Source, src.clone()),
                    (Field::Protocol, ValueSet::one(proto.into())),
                    (Field::DestinationPort, ValueSet::one(dport.into())),
                ],
                delivered: vec![(Field::Destination, dst.clone())],
            };
            let host = |n: u8, h: u8| u128::from(u32::from_be_bytes([10, 0, n, h]));
            let fits = |p: &&Packet| {
                src.contains(host(1, p.src))
                    && dst.contains(host(2, p.dst))
                    && (p.proto, p.dport) == (proto, dport)
            };
            let passes = |state: usize| {
                let c = Comes { down, state };
                let mut all = space.iter().filter(fits);
                all.any(|p| rs.decides(p, c, &|_| true).1)
            };
            // such packets begin connections; what belongs to none, or an answer, they may be, too
            let (new, any) = (passes(0), (0..STATES.len()).any(passes));
            let about = format!("{n}: {text} {q:?}");
            match ask(&s.compared(), &q, &mut || true).answer {
                Answer::Yes { frame, .. } => {
                    assert!(any, "{about} {frame:?}");
                    yes += 1;
                }
                Answer::No { .. } => {
                    assert!(!new, "{about}");
                    no += 1;
                }
                Answer::Unknown(why) => assert!(any && !new, "{about} {why:?}"),
            }
        }
    }
    assert!(yes > EACH / 2 && no > EACH / 2, "{yes} {no}");
}

fn sort(language: Language, stateful: bool) -> Sort {
    let seed = 0x5eed + 16 * u64::from(stateful) + 32 * u64::from(language == Language::Nft);
    Sort {
        language,
        stateful,
        seed,
    }
}

macro_rules! brute {
    ($($name:ident: $what:ident($language:ident, $stateful:expr);)*) => {
        $(#[test]
        fn $name() {
            $what(sort(Language::$language, $stateful));
        })*
    };
}

brute! {
    odd_rules_of_iptables: findings(Iptables, false);
    odd_rules_of_iptables_about_connections: findings(Iptables, true);
    odd_rules_of_nftables: findings(Nft, false);
    odd_rules_of_nftables_about_connections: findings(Nft, true);
    what_iptables_rules_do_differently: differing(Iptables, false);
    what_iptables_rules_about_connections_do_differently: differing(Iptables, true);
    what_nftables_rules_do_differently: differing(Nft, false);
    what_nftables_rules_about_connections_do_differently: differing(Nft, true);
    what_gets_through_iptables: asked(Iptables, false);
    what_gets_through_iptables_by_connections: asked(Iptables, true);
    what_gets_through_nftables: asked(Nft, false);
    what_gets_through_nftables_by_connections: asked(Nft, true);
}
