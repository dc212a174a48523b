//! `iptables-save` and `ip6tables-save`.
//!
//! One chain of one table is taken, with all that it jumps to: FORWARD of the table filter unless told otherwise. Packets from
//! port 0 to port 1 come in by the inside interface and go out by the outside one, the others the other way round.
//! Chains that these packets do not pass are not looked at; rules in another table are refused, because they would be passed.

use super::chains::{ChainRule, InterfaceTest, Interfaces, Target, flatten};
use super::ports::{ANY, Ports, complement, test, union};
use super::rule::{RuleSet, Verdict, Way};
use super::terms::{Family, icmp_type, protocol, service, tcp_flag};
use crate::rules::RulePlace;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// What to take from a file.
#[derive(Debug, Clone)]
pub struct Request<'a> {
    /// IPv4 (`iptables-save`) or IPv6 (`ip6tables-save`).
    pub family: Family,
    /// `CHAIN` or `TABLE/CHAIN`; FORWARD if not given.
    pub chain: Option<&'a str>,
    /// Which interface is which.
    pub interfaces: &'a Interfaces,
}

/// A rule before it is understood.
struct Raw<'a> {
    text: &'a str,
    line: u32,
}

#[derive(Default)]
struct Table<'a> {
    chains: HashMap<&'a str, Vec<Raw<'a>>>,
    /// Of built-in chains.
    policies: HashMap<&'a str, (&'a str, u32)>,
    first_rule: Option<u32>,
}

type Errors = Vec<(u32, String)>;

/// Reads a file; errors are (line, message).
pub fn parse(text: &str, request: &Request<'_>) -> Result<RuleSet, Errors> {
    let mut errors = Errors::new();
    let tables = read_tables(text, &mut errors);
    let (table, chain) = request.chain.map_or(("filter", "FORWARD"), |c| {
        c.split_once('/').unwrap_or(("filter", c))
    });
    for (name, t) in &tables {
        if let Some(line) = t.first_rule.filter(|_| *name != table) {
            errors.push((
                line,
                format!("table '{name}' has rules; only those of '{table}' can be taken: remove the table from the file (address translation is the work of a nat function)"),
            ));
        }
    }
    let Some(t) = tables.get(table) else {
        errors.push((1, format!("the file has no table '{table}'")));
        return Err(errors);
    };
    let policy = t.policies.get(chain).copied();
    let has_rules = t.chains.get(chain).is_some_and(|c| !c.is_empty());
    if policy.is_none() && !has_rules {
        errors.push((1, format!("table '{table}' has no chain '{chain}'")));
    }
    if request.chain.is_none() && !has_rules {
        let others: Vec<&str> = ["INPUT", "OUTPUT"]
            .into_iter()
            .filter(|c| t.chains.get(c).is_some_and(|c| !c.is_empty()))
            .collect();
        if !others.is_empty() {
            errors.push((
                1,
                format!(
                    "chain FORWARD has no rules, but {} has; say which one with 'chain'",
                    others.join(" and ")
                ),
            ));
        }
    }
    let default = match policy {
        Some(("ACCEPT", _)) | None => Some(Verdict::Allow),
        Some(("DROP", _)) => Some(Verdict::Deny),
        Some((p, line)) => {
            errors.push((
                line,
                format!("chain '{chain}' has no policy ('{p}'): take the chain that jumps to it"),
            ));
            None
        }
    };
    let mut reader = Rules {
        family: request.family,
        interfaces: request.interfaces,
        rejects: 0,
        logs: 0,
        errors,
    };
    let mut chains: HashMap<String, Vec<ChainRule>> = HashMap::new();
    let mut todo = vec![chain.to_string()];
    while let Some(name) = todo.pop() {
        if chains.contains_key(&name) {
            continue;
        }
        let raw = t.chains.get(name.as_str());
        if raw.is_none() && !t.policies.contains_key(name.as_str()) {
            // a jump to nowhere; the walk says where
            continue;
        }
        let list: Vec<ChainRule> = raw
            .into_iter()
            .flatten()
            .zip(1..)
            .filter_map(|(r, number)| {
                let rule = reader.rule(r)?;
                let place = Some(place(request.family, table, &name, number));
                Some(ChainRule { place, ..rule })
            })
            .collect();
        for r in &list {
            if let Target::Jump(c) | Target::Goto(c) = &r.target {
                todo.push(c.clone());
            }
        }
        chains.insert(name, list);
    }
    let Rules {
        rejects,
        logs,
        mut errors,
        ..
    } = reader;
    if !errors.is_empty() {
        return Err(errors);
    }
    let mut one = |way| match flatten(&chains, chain, way, request.interfaces) {
        Ok(r) => r,
        Err(e) => {
            errors.push(e);
            Vec::new()
        }
    };
    let (up, down) = (one(Way::Up), one(Way::Down));
    if !errors.is_empty() {
        errors.dedup();
        return Err(errors);
    }
    let mut warnings = Vec::new();
    if rejects > 0 {
        warnings.push(format!("{rejects} REJECT rules drop without an answer"));
    }
    if logs > 0 {
        warnings.push(format!("{logs} rules that only log do nothing"));
    }
    let line = policy.map(|(_, line)| line);
    Ok(RuleSet {
        down: (up != down).then_some(down),
        rules: up,
        default,
        policy: Some((place(request.family, table, chain, 0), line)),
        warnings,
    })
}

fn place(family: Family, table: &str, chain: &str, number: u32) -> Arc<RulePlace> {
    Arc::new(RulePlace {
        family: match family {
            Family::V4 => "ip".into(),
            Family::V6 => "ip6".into(),
        },
        table: table.to_string(),
        chain: chain.to_string(),
        number,
        handle: None,
    })
}

fn read_tables<'a>(text: &'a str, errors: &mut Errors) -> BTreeMap<&'a str, Table<'a>> {
    let mut tables: BTreeMap<&str, Table<'_>> = BTreeMap::new();
    let mut current: Option<&str> = None;
    for (i, l) in text.lines().enumerate() {
        let (line, l) = (i as u32 + 1, l.trim());
        if l.is_empty() || l.starts_with('#') || l == "COMMIT" {
            continue;
        }
        if let Some(name) = l.strip_prefix('*') {
            current = Some(name.trim());
            tables.entry(name.trim()).or_default();
            continue;
        }
        let Some(t) = current.and_then(|c| tables.get_mut(c)) else {
            errors.push((
                line,
                "expected '*TABLE' first, as iptables-save prints it".into(),
            ));
            break;
        };
        if let Some(rest) = l.strip_prefix(':') {
            let mut w = rest.split_whitespace();
            match (w.next(), w.next()) {
                (Some(chain), Some(policy)) => {
                    t.policies.insert(chain, (policy, line));
                }
                _ => errors.push((line, "expected ':CHAIN POLICY'".into())),
            }
            continue;
        }
        // "[packets:bytes] -A ..." with -c
        let l = match l.strip_prefix('[') {
            Some(r) => r.split_once(']').map_or(l, |(_, r)| r.trim()),
            None => l,
        };
        let Some(rest) = l.strip_prefix("-A ").or(l.strip_prefix("--append ")) else {
            let word = l.split_whitespace().next().unwrap_or("");
            errors.push((line, format!("expected '-A CHAIN ...', found '{word}'")));
            continue;
        };
        let rest = rest.trim_start();
        let (chain, text) = rest.split_once(char::is_whitespace).unwrap_or((rest, ""));
        t.first_rule.get_or_insert(line);
        t.chains.entry(chain).or_default().push(Raw { text, line });
    }
    tables
}

/// Splits at white space; double quotes keep together.
fn words(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    let mut word: Option<String> = None;
    let (mut quoted, mut escaped) = (false, false);
    for c in text.chars() {
        match c {
            c if escaped => {
                word.get_or_insert_default().push(c);
                escaped = false;
            }
            '\\' if quoted => escaped = true,
            '"' => {
                quoted = !quoted;
                word.get_or_insert_default();
            }
            c if c.is_whitespace() && !quoted => out.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    out.extend(word);
    out
}

/// Understands rules; collects what is wrong with them.
struct Rules<'a> {
    family: Family,
    interfaces: &'a Interfaces,
    rejects: usize,
    logs: usize,
    errors: Errors,
}

/// A rule while its options are read.
#[derive(Default)]
struct Draft {
    tests: Vec<String>,
    interfaces: Vec<InterfaceTest>,
    protocol: Option<u8>,
    /// A match extension that looks at the transport header, which later fragments do not have.
    transport: bool,
    target: Option<Target>,
}

impl Rules<'_> {
    fn rule(&mut self, raw: &Raw<'_>) -> Option<ChainRule> {
        let list = words(raw.text);
        let mut it = list.iter().map(String::as_str);
        let mut d = Draft::default();
        let mut not = false;
        let mut ok = true;
        while let Some(w) = it.next() {
            if w == "!" {
                not = !not;
                continue;
            }
            let result = self.option(w, std::mem::take(&mut not), &mut it, &mut d);
            if let Err(e) = result {
                self.errors.push((raw.line, e));
                ok = false;
                if w == "-m" || w == "--match" || w == "-j" || w == "--jump" {
                    // its options mean nothing to us
                    break;
                }
            }
        }
        if d.transport {
            d.tests.push(match self.family {
                Family::V4 => "ip[6:2] & 8191 == 0".into(),
                Family::V6 => "not ip frag".into(),
            });
        }
        ok.then(|| ChainRule {
            tests: d.tests,
            interfaces: d.interfaces,
            target: d.target.unwrap_or(Target::Nothing),
            line: raw.line,
            place: None,
        })
    }

    fn option<'b>(
        &mut self,
        w: &str,
        not: bool,
        it: &mut impl Iterator<Item = &'b str>,
        d: &mut Draft,
    ) -> Result<(), String> {
        // the value; a '!' before it (the old way) counts too
        let mut not = not;
        let value = |it: &mut dyn Iterator<Item = &'b str>, not: &mut bool| {
            let mut v = it.next();
            if v == Some("!") {
                *not = !*not;
                v = it.next();
            }
            v.ok_or_else(|| format!("expected a value behind '{w}'"))
        };
        let negate = |t: String, not: bool| if not { format!("not {t}") } else { t };
        match w {
            "-s" | "--source" | "--src" | "-d" | "--destination" | "--dst" => {
                let way = if w.starts_with("-s") || w.starts_with("--s") {
                    "src"
                } else {
                    "dst"
                };
                let v = value(it, &mut not)?;
                let ranges = v
                    .split(',')
                    .map(|p| self.family.prefix(p))
                    .collect::<Result<Vec<_>, _>>()?;
                match self.family.address_test(way, &ranges) {
                    Some(t) => d.tests.push(negate(t, not)),
                    None if not => d.tests.push("false".into()),
                    None => {}
                }
            }
            "-p" | "--protocol" | "--proto" => {
                let v = value(it, &mut not)?;
                match protocol(v)? {
                    Some(p) => {
                        if !not {
                            d.protocol = Some(p);
                        }
                        d.tests.push(negate(self.family.protocol_test(p), not));
                    }
                    None if not => d.tests.push("false".into()),
                    None => {}
                }
            }
            "-i" | "--in-interface" | "-o" | "--out-interface" => {
                let v = value(it, &mut not)?;
                if self.interfaces.inside.is_none() && self.interfaces.outside.is_none() {
                    return Err(format!(
                        "the rule names interface '{v}'; say which is which with 'interfaces: {{ inside: NAME, outside: NAME }}'"
                    ));
                }
                d.interfaces.push(InterfaceTest {
                    out: w.contains('o') && w != "--in-interface",
                    not,
                    names: vec![v.to_string()],
                });
            }
            "-f" | "--fragment" => d.tests.push(negate("(ip[6:2] & 8191 != 0)".into(), not)),
            "-m" | "--match" => {
                let m = value(it, &mut not)?;
                match m {
                    "tcp" | "udp" | "icmp" | "icmp6" | "multiport" => d.transport = true,
                    "comment" | "iprange" | "ttl" | "hl" => {}
                    _ => return Err(format!("match '{m}' is not supported")),
                }
            }
            "--comment" => {
                value(it, &mut not)?;
            }
            "--sport"
            | "--source-port"
            | "--dport"
            | "--destination-port"
            | "--sports"
            | "--source-ports"
            | "--dports"
            | "--destination-ports"
            | "--ports" => {
                let v = value(it, &mut not)?;
                self.ports(w, v, not, d)?;
            }
            "--tcp-flags" => {
                let (mask, want) = (value(it, &mut not)?, value(it, &mut not)?);
                let bits = |s: &str| {
                    s.split(',')
                        .try_fold(0, |n, f| Ok::<_, String>(n | tcp_flag(f)?))
                };
                let (mask, want) = (bits(mask)?, bits(want)?);
                needs(d, 6, w)?;
                d.tests
                    .push(negate(format!("(tcp[13:1] & {mask} == {want})"), not));
            }
            "--syn" => {
                needs(d, 6, w)?;
                d.tests.push(negate("(tcp[13:1] & 23 == 2)".into(), not));
            }
            "--icmp-type" | "--icmpv6-type" => {
                let v = value(it, &mut not)?;
                needs(d, self.family.icmp(), w)?;
                if v == "any" || v == "255" {
                    return Ok(());
                }
                let (name, code) = match v.split_once('/') {
                    Some((t, c)) => (
                        t,
                        Some(c.parse::<u8>().map_err(|_| format!("ICMP code '{c}'"))?),
                    ),
                    None => (v, None),
                };
                let (t, implied) = icmp_type(self.family, name)?;
                let word = self.family.icmp_word();
                let test = match code.or(implied) {
                    Some(c) => format!("({word}[0:1] == {t} && {word}[1:1] == {c})"),
                    None => format!("({word}[0:1] == {t})"),
                };
                d.tests.push(negate(test, not));
            }
            "--src-range" | "--dst-range" => {
                let way = if w == "--src-range" { "src" } else { "dst" };
                let v = value(it, &mut not)?;
                let (a, b) = v.split_once('-').unwrap_or((v, v));
                let range = (self.family.address(a)?, self.family.address(b)?);
                if range.0 > range.1 {
                    return Err(format!("address range '{v}'"));
                }
                let t = self
                    .family
                    .address_test(way, &[range])
                    .unwrap_or_else(|| "true".into());
                d.tests.push(negate(t, not));
            }
            "--ttl-eq" | "--ttl-lt" | "--ttl-gt" | "--hl-eq" | "--hl-lt" | "--hl-gt" => {
                let v = value(it, &mut not)?;
                let n: u8 = v.parse().map_err(|_| format!("{w} '{v}'"))?;
                let op = match w.rsplit('-').next() {
                    Some("lt") => "<",
                    Some("gt") => ">",
                    _ => "==",
                };
                let field = match self.family {
                    Family::V4 => "ip[8:1]",
                    Family::V6 => "ip[7:1]",
                };
                d.tests.push(negate(format!("({field} {op} {n})"), not));
            }
            "-c" | "--set-counters" => {
                value(it, &mut not)?;
                value(it, &mut not)?;
            }
            "-j" | "--jump" | "-g" | "--goto" => {
                let v = value(it, &mut not)?;
                let goto = w == "-g" || w == "--goto";
                d.target = Some(self.target(v, goto, it)?);
            }
            _ => return Err(format!("option '{w}' is not supported")),
        }
        Ok(())
    }

    fn target<'b>(
        &mut self,
        v: &str,
        goto: bool,
        it: &mut impl Iterator<Item = &'b str>,
    ) -> Result<Target, String> {
        Ok(match v {
            _ if goto => Target::Goto(v.to_string()),
            "ACCEPT" => Target::Verdict(Verdict::Allow),
            "DROP" => Target::Verdict(Verdict::Deny),
            "RETURN" => Target::Return,
            "REJECT" => {
                self.rejects += 1;
                // --reject-with TYPE
                it.by_ref().for_each(drop);
                Target::Verdict(Verdict::Deny)
            }
            "LOG" | "NFLOG" => {
                self.logs += 1;
                it.by_ref().for_each(drop);
                Target::Nothing
            }
            // the targets of extensions are written in capitals; chains may be, too, but then they are in the file
            "MARK" | "CONNMARK" | "NFQUEUE" | "QUEUE" | "SNAT" | "DNAT" | "MASQUERADE"
            | "REDIRECT" | "TCPMSS" | "TOS" | "DSCP" | "TTL" | "HL" | "CT" | "NOTRACK" | "TEE"
            | "TPROXY" | "SET" | "ULOG" | "CLASSIFY" | "SECMARK" | "CONNSECMARK" | "NETMAP"
            | "CHECKSUM" | "AUDIT" | "TRACE" | "IDLETIMER" | "SYNPROXY" => {
                return Err(format!("target '{v}' is not supported"));
            }
            _ => Target::Jump(v.to_string()),
        })
    }

    fn ports(&mut self, w: &str, v: &str, not: bool, d: &mut Draft) -> Result<(), String> {
        match d.protocol {
            Some(6 | 17) => {}
            _ => return Err(format!("'{w}' needs '-p tcp' or '-p udp' before it")),
        }
        let list = v.split(',').map(port_range).collect::<Result<Ports, _>>()?;
        let mut set = union(list);
        if not {
            set = complement(&set);
        }
        d.transport = true;
        let both = w == "--ports";
        let ways: &[&str] = match w {
            "--ports" => &["src", "dst"],
            _ if w.starts_with("--s") => &["src"],
            _ => &["dst"],
        };
        if set.is_empty() {
            d.tests.push("false".into());
            return Ok(());
        }
        let tests: Vec<String> = ways.iter().filter_map(|way| test(&set, way)).collect();
        if tests.len() < ways.len() {
            // any port
            return Ok(());
        }
        d.tests.push(match (both, not) {
            (false, _) => tests.concat(),
            // one of them is in the list; or none is
            (true, false) => format!("({})", tests.join(" or ")),
            (true, true) => tests.join(" && "),
        });
        Ok(())
    }
}

fn needs(d: &mut Draft, protocol: u8, what: &str) -> Result<(), String> {
    d.transport = true;
    if d.protocol == Some(protocol) {
        return Ok(());
    }
    Err(format!(
        "'{what}' needs its protocol, given with '-p', before it"
    ))
}

fn port_range(s: &str) -> Result<(u16, u16), String> {
    let (lo, hi) = match s.split_once(':') {
        Some((a, b)) => (
            if a.is_empty() { ANY.0 } else { service(a)? },
            if b.is_empty() { ANY.1 } else { service(b)? },
        ),
        None => (service(s)?, service(s)?),
    };
    if lo <= hi {
        Ok((lo, hi))
    } else {
        Err(format!("port range '{s}'"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, chain: Option<&str>) -> Result<RuleSet, Errors> {
        let interfaces = Interfaces {
            inside: Some("lan0".into()),
            outside: Some("wan0".into()),
        };
        let request = Request {
            family: Family::V4,
            chain,
            interfaces: &interfaces,
        };
        parse(text, &request)
    }

    fn lines(rules: &[super::super::rule::Rule]) -> Vec<String> {
        rules
            .iter()
            .map(|r| format!("{}: {} {}", r.line, r.verdict.action(), r.filter))
            .collect()
    }

    fn forward(rules: &str) -> Result<RuleSet, Errors> {
        read(
            &format!("*filter\n:FORWARD DROP [0:0]\n:own - [0:0]\n{rules}\nCOMMIT\n"),
            None,
        )
    }

    fn one(rule: &str) -> String {
        let set = forward(&format!("-A FORWARD {rule} -j ACCEPT")).unwrap();
        set.rules[0].filter.clone()
    }

    fn wrong(rule: &str) -> String {
        let e = forward(&format!("-A FORWARD {rule}")).unwrap_err();
        assert_eq!(e[0].0, 4);
        e.into_iter().map(|e| e.1).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn matches_become_expressions() {
        let frag = "ip[6:2] & 8191 == 0";
        assert_eq!(one(""), "all");
        assert_eq!(
            one("-s 10.0.0.0/8 ! -d 10.1.2.3/32 -p 47"),
            "src net 10.0.0.0/8 && not dst host 10.1.2.3 && ip proto 47"
        );
        assert_eq!(one("-s ! 10.0.0.0/255.0.0.0"), "not src net 10.0.0.0/8");
        assert_eq!(
            one("-p tcp -m tcp --dport 80:90 --sport 1024:"),
            format!("tcp && (dst port >= 80 && dst port <= 90) && src port >= 1024 && {frag}")
        );
        assert_eq!(
            one("-p udp -m udp ! --dport domain"),
            format!("udp && (dst port <= 52 or dst port >= 54) && {frag}")
        );
        assert_eq!(
            one("-p tcp -m multiport --ports 1,2"),
            format!(
                "tcp && ((src port >= 1 && src port <= 2) or (dst port >= 1 && dst port <= 2)) && {frag}"
            )
        );
        assert_eq!(
            one("-p tcp -m tcp --tcp-flags SYN,ACK SYN"),
            format!("tcp && (tcp[13:1] & 18 == 2) && {frag}")
        );
        assert_eq!(
            one("-p tcp ! --syn"),
            format!("tcp && not (tcp[13:1] & 23 == 2) && {frag}")
        );
        assert_eq!(
            one("-p icmp -m icmp --icmp-type 3/4"),
            format!("icmp && (icmp[0:1] == 3 && icmp[1:1] == 4) && {frag}")
        );
        assert_eq!(
            one("-p icmp --icmp-type echo-request"),
            format!("icmp && (icmp[0:1] == 8) && {frag}")
        );
        assert_eq!(one("-p tcp -m tcp"), format!("tcp && {frag}"));
        assert_eq!(one("! -p tcp"), "not tcp");
        assert_eq!(one("-f"), "(ip[6:2] & 8191 != 0)");
        assert_eq!(
            one("-m iprange --src-range 10.0.0.2-10.0.0.3"),
            "src net 10.0.0.2/31"
        );
        assert_eq!(
            one("-m ttl --ttl-lt 5 -m comment --comment \"a \\\"b\\\" c\""),
            "(ip[8:1] < 5)"
        );
    }

    #[test]
    fn chains_directions_and_the_policy() {
        let set = forward(
            "-A FORWARD -i lan0 -j own\n-A FORWARD -i wan0 -o lan0 -p tcp -j REJECT --reject-with tcp-reset\n\
             -A own -p udp -j RETURN\n-A own -j LOG --log-prefix \"x y\"\n[1:2] -A own -s 10.0.0.0/8 -j ACCEPT",
        )
        .unwrap();
        assert_eq!(
            lines(&set.rules),
            ["8: allow not (udp) && src net 10.0.0.0/8"]
        );
        assert_eq!(lines(&set.down.unwrap()), ["5: deny tcp"]);
        assert_eq!(set.default, Some(Verdict::Deny));
        assert_eq!(
            set.warnings,
            [
                "1 REJECT rules drop without an answer",
                "1 rules that only log do nothing"
            ]
        );
        // another chain, of another table
        let text = "*mangle\n:PREROUTING ACCEPT [0:0]\n-A PREROUTING -p 89 -j DROP\nCOMMIT\n*filter\n:FORWARD ACCEPT [0:0]\nCOMMIT\n";
        let set = read(text, Some("mangle/PREROUTING")).unwrap();
        assert_eq!(
            (lines(&set.rules), set.down),
            (vec!["3: deny ip proto 89".to_string()], None)
        );
        assert_eq!(set.default, Some(Verdict::Allow));
        let e = read(text, None).unwrap_err();
        assert_eq!(e[0].0, 3);
        assert!(e[0].1.starts_with("table 'mangle' has rules"));
    }

    #[test]
    fn what_cannot_be_expressed_is_refused_by_name() {
        assert_eq!(
            wrong("-m conntrack --ctstate ESTABLISHED -j ACCEPT"),
            "match 'conntrack' is not supported"
        );
        assert_eq!(
            wrong("-m limit --limit 3/min -j ACCEPT"),
            "match 'limit' is not supported"
        );
        assert_eq!(
            wrong("-p tcp -j MARK --set-mark 1"),
            "target 'MARK' is not supported"
        );
        assert_eq!(
            wrong("--dport 80 -j ACCEPT"),
            "'--dport' needs '-p tcp' or '-p udp' before it"
        );
        assert_eq!(
            wrong("-s 1.2.3 -d x --foo -j ACCEPT"),
            "'1.2.3' is no IPv4 address; 'x' is no IPv4 address; option '--foo' is not supported"
        );
        assert_eq!(wrong("-j nowhere"), "there is no chain 'nowhere'");
        assert_eq!(wrong("-p xyz -j ACCEPT"), "protocol 'xyz'");
        assert_eq!(
            wrong("-p udp --syn -j ACCEPT"),
            "'--syn' needs its protocol, given with '-p', before it"
        );
        assert_eq!(
            wrong("-p tcp --dport 90:80 -j ACCEPT"),
            "port range '90:80'"
        );
        let e = forward("-A FORWARD -j own\n-A own -g own").unwrap_err();
        assert!(e[0].0 == 5 && e[0].1.contains("circle"), "{e:?}");
        let none = Interfaces::default();
        let r = Request {
            family: Family::V4,
            chain: None,
            interfaces: &none,
        };
        let e = parse(
            "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -i eth0 -j ACCEPT\n",
            &r,
        )
        .unwrap_err();
        assert!(
            e[0].1.starts_with("the rule names interface 'eth0'"),
            "{e:?}"
        );
        let e = read(
            "*filter\n:FORWARD DROP [0:0]\n-A INPUT -p tcp -j DROP\n",
            None,
        )
        .unwrap_err();
        assert!(e[0].1.contains("INPUT has"), "{e:?}");
        for bad in [
            "-A FORWARD -j DROP",
            "*filter\n:x\n",
            "*filter\nfoo\n",
            "*nat\n",
            "*filter\n:own - [0:0]\n-A own -j DROP\n",
        ] {
            assert!(read(bad, Some("own")).is_err(), "{bad}");
        }
    }

    #[test]
    fn ipv6() {
        let none = Interfaces::default();
        let r = Request {
            family: Family::V6,
            chain: Some("INPUT"),
            interfaces: &none,
        };
        let text = "*filter\n:INPUT ACCEPT [0:0]\n-A INPUT -s fd00::/8 -p ipv6-icmp -m icmp6 --icmpv6-type 128 -j DROP\n";
        let set = parse(text, &r).unwrap();
        assert_eq!(
            lines(&set.rules),
            ["3: deny src net fd00::/8 && icmp6 && (icmp6[0:1] == 128) && not ip frag"]
        );
    }
}
