//! Small random rulesets, what they say in the languages of iptables and nftables, and what they mean: read off the
//! ruleset itself, by nothing of the importers.

use onefold_verify::Rng;
use std::fmt::Write;

/// Sources and destinations are 10.0.1.N and 10.0.2.N.
pub const HOSTS: u8 = 5;
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;
pub const ICMP: u8 = 1;
pub const DST_PORTS: [u16; 5] = [79, 80, 81, 82, 83];
pub const SRC_PORTS: [u16; 3] = [1000, 1001, 1002];
pub const STATES: [&str; 5] = ["new", "established", "related", "invalid", "untracked"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Language {
    Iptables,
    Nft,
}

/// A packet as rules see it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Packet {
    pub src: u8,
    pub dst: u8,
    pub proto: u8,
    pub sport: u16,
    pub dport: u16,
    /// A later fragment: it has no ports.
    pub later: bool,
}

/// Where a packet comes from, and what it is to its connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Comes {
    /// From port 1 to port 0.
    pub down: bool,
    /// Of [`STATES`].
    pub state: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    /// Ranges of last bytes of the destination, or the source.
    Address(bool, Vec<(u8, u8)>, bool),
    Protocol(Vec<u8>, bool),
    /// Protocols, the destination's, ranges.
    Port(Vec<u8>, bool, Vec<(u16, u16)>, bool),
    /// The interface at port 1, or 0, or none; packets leave by it.
    Interface(usize, bool, bool),
    State(Vec<usize>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Act {
    Verdict(bool),
    /// By destination port.
    PortMap(Vec<((u16, u16), bool)>),
    /// By state.
    StateMap(Vec<(usize, bool)>),
    Jump(usize),
    Goto(usize),
    Return,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub tests: Vec<Test>,
    pub act: Act,
}

/// Which rule: chain, place.
pub type At = (usize, usize);

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ruleset {
    pub policy: bool,
    /// The first one is the base chain; each jumps to later ones only.
    pub chains: Vec<Vec<Rule>>,
}

const CHAINS: usize = 3;

fn ranges<T: Copy + Ord>(rng: &mut Rng, all: &[T], most: usize) -> Vec<(T, T)> {
    let mut out = Vec::new();
    let mut from = rng.below(all.len() - 1);
    for _ in 0..1 + rng.below(most) {
        if from >= all.len() {
            break;
        }
        let to = (from + rng.below(2)).min(all.len() - 1);
        out.push((all[from], all[to]));
        // ranges beside one another would be one
        from = to + 2 + rng.below(2);
    }
    out
}

fn test(rng: &mut Rng, l: Language, stateful: bool) -> Test {
    let not = rng.one_in(5);
    match rng.below(if stateful { 9 } else { 8 }) {
        0 | 1 => {
            let most = if l == Language::Nft { 2 } else { 1 };
            Test::Address(rng.one_in(2), ranges(rng, &[0, 1, 2, 3], most), not)
        }
        2 => match l {
            Language::Nft if rng.one_in(2) => Test::Protocol(vec![TCP, UDP], not),
            _ => Test::Protocol(vec![[TCP, UDP, ICMP][rng.below(3)]], not),
        },
        3..=5 => {
            let proto = match l {
                Language::Nft if rng.one_in(4) => vec![TCP, UDP],
                _ => vec![[TCP, UDP][rng.below(2)]],
            };
            match rng.one_in(4) {
                true => Test::Port(proto, false, ranges(rng, &SRC_PORTS[..2], 1), not),
                false => Test::Port(proto, true, ranges(rng, &DST_PORTS[1..], 2), not),
            }
        }
        6 | 7 => Test::Interface([0, 1, 0, 1, 0, 1, 2][rng.below(7)], rng.one_in(3), not),
        _ => {
            let first = rng.below(STATES.len());
            let mut states = vec![first];
            if rng.one_in(3) {
                states.push((first + 1) % STATES.len());
            }
            states.sort_unstable();
            Test::State(states)
        }
    }
}

/// One of each kind, and one that says of protocols what is not the same twice: iptables has no more in a rule.
fn tests(rng: &mut Rng, l: Language, stateful: bool) -> Vec<Test> {
    let kind = |t: &Test| match t {
        Test::Address(dst, ..) => usize::from(*dst),
        Test::Protocol(..) | Test::Port(..) => 2,
        Test::Interface(_, out, _) => 3 + usize::from(*out),
        Test::State(_) => 5,
    };
    let mut all: Vec<Test> = Vec::new();
    for _ in 0..rng.below(4) {
        let t = test(rng, l, stateful);
        if !all.iter().any(|o| kind(o) == kind(&t)) {
            all.push(t);
        }
    }
    all
}

fn act(rng: &mut Rng, l: Language, chain: usize, stateful: bool) -> Act {
    let later = chain + 1 + rng.below(CHAINS);
    match rng.below(12) {
        0 | 1 if later < CHAINS => Act::Jump(later),
        2 if later < CHAINS => Act::Goto(later),
        3 if chain > 0 => Act::Return,
        4 if l == Language::Nft => {
            let all = ranges(rng, &DST_PORTS[1..], 2);
            Act::PortMap(all.into_iter().map(|r| (r, rng.one_in(2))).collect())
        }
        5 if l == Language::Nft && stateful => {
            let (s, t) = (rng.below(2), 2 + rng.below(3));
            Act::StateMap(vec![(s, rng.one_in(2)), (t, rng.one_in(2))])
        }
        _ => Act::Verdict(rng.one_in(2)),
    }
}

pub fn rule(rng: &mut Rng, l: Language, chain: usize, stateful: bool) -> Rule {
    let mut act = act(rng, l, chain, stateful);
    let mut tests = tests(rng, l, stateful);
    match act {
        // the map asks for TCP's port
        Act::PortMap(_) => tests.retain(|t| !matches!(t, Test::Protocol(..) | Test::Port(..))),
        Act::StateMap(_) => tests.retain(|t| !matches!(t, Test::State(_))),
        // a chain that ends at once is rarely meant
        Act::Return | Act::Goto(_) if tests.is_empty() && !rng.one_in(4) => {
            act = Act::Verdict(rng.one_in(2));
        }
        _ => {}
    }
    Rule { tests, act }
}

impl Ruleset {
    pub fn random(rng: &mut Rng, l: Language, stateful: bool) -> Ruleset {
        let mut list = |chain: usize, least: usize| -> Vec<Rule> {
            let n = least + rng.below(4);
            (0..n).map(|_| rule(rng, l, chain, stateful)).collect()
        };
        let chains = vec![list(0, 3), list(1, 1), list(2, 1)];
        Ruleset {
            policy: rng.one_in(2),
            chains,
        }
    }

    /// The same with a few changes.
    pub fn changed(&self, rng: &mut Rng, l: Language, stateful: bool) -> Ruleset {
        let mut new = self.clone();
        for _ in 0..1 + rng.below(4) {
            // mostly where it matters
            let any = rng.below(CHAINS);
            let chain = match new.is_called(any) || rng.one_in(4) {
                true => any,
                false => 0,
            };
            let r = rule(rng, l, chain, stateful);
            let list = &mut new.chains[chain];
            let i = rng.below(list.len());
            match rng.below(5) {
                0 => list.insert(i, r),
                1 if list.len() > 1 => {
                    list.remove(i);
                }
                2 => {
                    let j = rng.below(list.len());
                    list.swap(i, j);
                }
                3 => new.policy = !new.policy,
                _ => list[i] = r,
            }
        }
        new
    }

    /// All rules that decide.
    pub fn deciding(&self) -> Vec<At> {
        let mut all = Vec::new();
        for (c, list) in self.chains.iter().enumerate() {
            for (i, r) in list.iter().enumerate() {
                if matches!(r.act, Act::Verdict(_) | Act::PortMap(_) | Act::StateMap(_)) {
                    all.push((c, i));
                }
            }
        }
        all
    }

    /// The rule that decides about a packet, if one does, and what becomes of it. Rules that decide but are not `there`
    /// take nothing.
    pub fn decides(&self, p: &Packet, c: Comes, there: &dyn Fn(At) -> bool) -> (Option<At>, bool) {
        match self.chain(0, p, c, there) {
            Some((at, verdict)) => (Some(at), verdict),
            None => (None, self.policy),
        }
    }

    fn chain(
        &self,
        n: usize,
        p: &Packet,
        c: Comes,
        there: &dyn Fn(At) -> bool,
    ) -> Option<(At, bool)> {
        for (i, r) in self.chains[n].iter().enumerate() {
            if !r.tests.iter().all(|t| holds(t, p, c)) {
                continue;
            }
            let verdict = match &r.act {
                Act::Verdict(v) => Some(*v),
                Act::PortMap(all) => all
                    .iter()
                    .find(|(r, _)| port(&[TCP], true, &[*r], false, p))
                    .map(|(_, v)| *v),
                Act::StateMap(all) => all.iter().find(|(s, _)| *s == c.state).map(|(_, v)| *v),
                Act::Jump(to) => match self.chain(*to, p, c, there) {
                    Some(found) => return Some(found),
                    None => None,
                },
                Act::Goto(to) => return self.chain(*to, p, c, there),
                Act::Return => return None,
            };
            if let Some(v) = verdict.filter(|_| there((n, i))) {
                return Some(((n, i), v));
            }
        }
        None
    }

    /// What a rule does with a packet that it takes.
    pub fn own(&self, (chain, i): At, p: &Packet, c: Comes) -> Option<bool> {
        match &self.chains[chain][i].act {
            Act::Verdict(v) => Some(*v),
            Act::PortMap(all) => {
                let fits = |r: &(u16, u16)| port(&[TCP], true, &[*r], false, p);
                all.iter().find(|(r, _)| fits(r)).map(|(_, v)| *v)
            }
            Act::StateMap(all) => all.iter().find(|(s, _)| *s == c.state).map(|(_, v)| *v),
            _ => None,
        }
    }

    /// Does a jump from the base chain lead there, and so on?
    pub fn is_called(&self, chain: usize) -> bool {
        chain == 0
            || (0..chain).any(|c| {
                self.is_called(c)
                    && self.chains[c]
                        .iter()
                        .any(|r| r.act == Act::Jump(chain) || r.act == Act::Goto(chain))
            })
    }
}

fn port(protocols: &[u8], dst: bool, ranges: &[(u16, u16)], not: bool, p: &Packet) -> bool {
    let value = if dst { p.dport } else { p.sport };
    let within = ranges.iter().any(|(a, b)| (*a..=*b).contains(&value));
    protocols.contains(&p.proto) && !p.later && within != not
}

fn holds(t: &Test, p: &Packet, c: Comes) -> bool {
    match t {
        Test::Address(dst, ranges, not) => {
            let value = if *dst { p.dst } else { p.src };
            ranges.iter().any(|(a, b)| (*a..=*b).contains(&value)) != *not
        }
        Test::Protocol(all, not) => all.contains(&p.proto) != *not,
        Test::Port(protocols, dst, ranges, not) => port(protocols, *dst, ranges, *not, p),
        Test::Interface(n, out, not) => (*n == usize::from(c.down != *out)) != *not,
        Test::State(all) => all.contains(&c.state),
    }
}

fn name(proto: u8) -> &'static str {
    match proto {
        TCP => "tcp",
        UDP => "udp",
        _ => "icmp",
    }
}

fn address(dst: bool, host: u8) -> String {
    format!("10.0.{}.{host}", if dst { 2 } else { 1 })
}

/// `1-2`, or `1`.
fn words<T: PartialEq + Copy>(
    all: &[(T, T)],
    between: char,
    one: impl Fn(T) -> String,
) -> Vec<String> {
    let range = |(a, b): &(T, T)| match a == b {
        true => one(*a),
        false => format!("{}{between}{}", one(*a), one(*b)),
    };
    all.iter().map(range).collect()
}

impl Ruleset {
    /// The ruleset as text, and the line of each rule.
    pub fn text(&self, l: Language) -> (String, Vec<(At, u64)>) {
        let mut t = Text::default();
        match l {
            Language::Iptables => self.iptables(&mut t),
            Language::Nft => self.nft(&mut t),
        }
        (t.text, t.lines)
    }

    fn iptables(&self, t: &mut Text) {
        t.line("*filter");
        t.line(":INPUT ACCEPT [0:0]");
        t.line(match self.policy {
            true => ":FORWARD ACCEPT [0:0]",
            false => ":FORWARD DROP [0:0]",
        });
        for c in 1..CHAINS {
            t.line(&format!(":c{c} - [0:0]"));
        }
        for (c, list) in self.chains.iter().enumerate() {
            for (i, r) in list.iter().enumerate() {
                let chain = match c {
                    0 => "FORWARD".to_string(),
                    c => format!("c{c}"),
                };
                let mut s = format!("-A {chain}");
                for test in &r.tests {
                    iptables(&mut s, test);
                }
                let _ = match &r.act {
                    Act::Verdict(true) => write!(s, " -j ACCEPT"),
                    Act::Verdict(false) => write!(s, " -j DROP"),
                    Act::Jump(n) => write!(s, " -j c{n}"),
                    Act::Goto(n) => write!(s, " -g c{n}"),
                    _ => write!(s, " -j RETURN"),
                };
                t.rule((c, i), &s);
            }
        }
        t.line("COMMIT");
    }

    fn nft(&self, t: &mut Text) {
        t.line("table ip filter {");
        for c in (1..CHAINS).rev().chain([0]) {
            match c {
                0 => {
                    t.line("  chain forward {");
                    let policy = if self.policy { "accept" } else { "drop" };
                    t.line(&format!(
                        "    type filter hook forward priority 0; policy {policy};"
                    ));
                }
                c => t.line(&format!("  chain c{c} {{")),
            }
            for (i, r) in self.chains[c].iter().enumerate() {
                let mut s = "   ".to_string();
                for test in &r.tests {
                    nft(&mut s, test);
                }
                let word = |v: bool| if v { "accept" } else { "drop" };
                let _ = match &r.act {
                    Act::Verdict(v) => write!(s, " {}", word(*v)),
                    Act::Jump(n) => write!(s, " jump c{n}"),
                    Act::Goto(n) => write!(s, " goto c{n}"),
                    Act::Return => write!(s, " return"),
                    Act::PortMap(all) => {
                        let one = |(r, v): &((u16, u16), bool)| {
                            let ports = words(&[*r], '-', |n| n.to_string());
                            format!("{} : {}", ports[0], word(*v))
                        };
                        let all: Vec<String> = all.iter().map(one).collect();
                        write!(s, " tcp dport vmap {{ {} }}", all.join(", "))
                    }
                    Act::StateMap(all) => {
                        let one = |(n, v): &(usize, bool)| format!("{} : {}", STATES[*n], word(*v));
                        let all: Vec<String> = all.iter().map(one).collect();
                        write!(s, " ct state vmap {{ {} }}", all.join(", "))
                    }
                };
                t.rule((c, i), &s);
            }
            t.line("  }");
        }
        t.line("}");
    }
}

#[derive(Default)]
struct Text {
    text: String,
    lines: Vec<(At, u64)>,
}

impl Text {
    fn line(&mut self, s: &str) {
        self.text.push_str(s);
        self.text.push('\n');
    }
    fn rule(&mut self, at: At, s: &str) {
        self.line(s);
        self.lines.push((at, self.text.lines().count() as u64));
    }
}

fn iptables(s: &mut String, t: &Test) {
    let bang = |not: bool| if not { " !" } else { "" };
    let _ = match t {
        Test::Address(dst, ranges, not) => {
            let (a, b) = ranges[0];
            match a == b || a % 2 == 0 {
                true => {
                    let bits = if a == b { 32 } else { 31 };
                    let flag = if *dst { "-d" } else { "-s" };
                    write!(s, "{} {flag} {}/{bits}", bang(*not), address(*dst, a))
                }
                false => {
                    let flag = if *dst { "--dst-range" } else { "--src-range" };
                    let (a, b) = (address(*dst, a), address(*dst, b));
                    write!(s, " -m iprange{} {flag} {a}-{b}", bang(*not))
                }
            }
        }
        Test::Protocol(all, not) => write!(s, "{} -p {}", bang(*not), name(all[0])),
        Test::Port(all, dst, ranges, not) => {
            let list = words(ranges, ':', |n| n.to_string());
            let flag = if *dst { "--dport" } else { "--sport" };
            match list.as_slice() {
                [one] => write!(s, " -p {}{} {flag} {one}", name(all[0]), bang(*not)),
                more => write!(
                    s,
                    " -p {} -m multiport{} {flag}s {}",
                    name(all[0]),
                    bang(*not),
                    more.join(",")
                ),
            }
        }
        Test::Interface(n, out, not) => {
            let flag = if *out { "-o" } else { "-i" };
            write!(s, "{} {flag} eth{n}", bang(*not))
        }
        Test::State(all) => {
            let all: Vec<String> = all.iter().map(|n| STATES[*n].to_uppercase()).collect();
            write!(s, " -m conntrack --ctstate {}", all.join(","))
        }
    };
}

fn nft(s: &mut String, t: &Test) {
    let set = |all: Vec<String>| match all.as_slice() {
        [one] => one.clone(),
        all => format!("{{ {} }}", all.join(", ")),
    };
    let not = |not: bool| if not { " !=" } else { "" };
    let _ = match t {
        Test::Address(dst, ranges, n) => {
            let key = if *dst { "daddr" } else { "saddr" };
            let all = set(words(ranges, '-', |h| address(*dst, h)));
            write!(s, " ip {key}{} {all}", not(*n))
        }
        Test::Protocol(all, n) => {
            let all = set(all.iter().map(|p| name(*p).to_string()).collect());
            write!(s, " meta l4proto{} {all}", not(*n))
        }
        Test::Port(all, dst, ranges, n) => {
            let key = if *dst { "dport" } else { "sport" };
            let ports = set(words(ranges, '-', |p| p.to_string()));
            match all.as_slice() {
                [one] => write!(s, " {} {key}{} {ports}", name(*one), not(*n)),
                _ => write!(
                    s,
                    " meta l4proto {{ tcp, udp }} th {key}{} {ports}",
                    not(*n)
                ),
            }
        }
        Test::Interface(n, out, negated) => {
            let key = if *out { "oifname" } else { "iifname" };
            write!(s, " {key}{} \"eth{n}\"", not(*negated))
        }
        Test::State(all) => {
            let all: Vec<&str> = all.iter().map(|n| STATES[*n]).collect();
            write!(s, " ct state {}", all.join(","))
        }
    };
}
