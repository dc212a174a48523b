//! The options of a rule, as `iptables(8)` and `iptables-extensions(8)` describe them, as expressions of IPFilter.

use super::changes;
use super::draft::{Draft, meant_option};
use super::{Errors, Raw};
use crate::import::chains::{ChainRule, InterfaceTest, Interfaces, Property, Target};
use crate::import::mark::MarkOf;
use crate::import::own::{AddressKind, OwnTest, Types};
use crate::import::ports::{ANY, Ports, complement, test, union};
use crate::import::rule::Verdict;
use crate::import::terms::{Family, icmp_type, protocol, service, tcp_flag};

/// Splits at white space; double quotes keep together.
pub(super) fn words(text: &str) -> Vec<String> {
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

/// Options that are known.
const OPTIONS: &[&str] = &[
    "--source",
    "--destination",
    "--protocol",
    "--in-interface",
    "--out-interface",
    "--fragment",
    "--jump",
    "--goto",
    "--match",
    "--sport",
    "--dport",
    "--sports",
    "--dports",
    "--ports",
    "--syn",
    "--tcp-flags",
    "--icmp-type",
    "--icmpv6-type",
    "--ctstate",
    "--ctdir",
    "--ctstatus",
    "--state",
    "--src-range",
    "--dst-range",
    "--src-type",
    "--dst-type",
    "--mark",
    "--match-set",
    "--comment",
    "--ttl-eq",
    "--ttl-lt",
    "--ttl-gt",
    "--pol",
    "--dir",
];

/// Understands rules; collects what is wrong with them.
pub(super) struct Rules<'a> {
    pub family: Family,
    pub interfaces: &'a Interfaces,
    /// How many reject, and how many only log.
    pub rejects: usize,
    pub logs: usize,
    /// How many ask for IPsec.
    pub ipsec: usize,
    /// They are of table nat.
    pub nat: bool,
    /// May packets be sent to programs of the host, and if not, why?
    pub redirects: Result<Option<std::net::IpAddr>, &'static str>,
    pub errors: Errors,
}

impl Rules<'_> {
    /// What a rule says; `None` if something is wrong with it.
    pub fn rule(&mut self, raw: &Raw<'_>) -> Option<ChainRule> {
        let list = words(raw.text);
        let mut it = list.iter().map(String::as_str).peekable();
        let mut d = Draft::default();
        let mut not = false;
        let mut errors = Vec::new();
        while let Some(w) = it.next() {
            if w == "!" {
                not = !not;
                continue;
            }
            let result = self.option(w, std::mem::take(&mut not), &mut it, &mut d);
            if let Err(e) = result {
                let unknown = e.starts_with("option ");
                errors.push(e);
                // what follows an option that is not known is its value
                while unknown && it.next_if(|v| !v.starts_with(['-', '!'])).is_some() {}
                if w == "-m" || w == "--match" || w == "-j" || w == "--jump" {
                    // its options mean nothing to us
                    break;
                }
            }
        }
        d.connection_tests();
        if d.transport {
            d.base.tests.push(match self.family {
                Family::V4 => "ip[6:2] & 8191 == 0".into(),
                Family::V6 => "not ip frag".into(),
            });
        }
        let asks = d.questions(self.family, &mut errors);
        // what comes to no packet is in nobody's way: it is refused where one comes to it
        let refused = (!errors.is_empty()).then(|| errors.join("; "));
        Some(ChainRule {
            tests: d.base.tests,
            interfaces: d.interfaces,
            own: d.base.own,
            marks: d.base.marks,
            asks,
            changes: d.changes,
            target: d.target.unwrap_or(Target::Nothing),
            refused,
            line: raw.line,
            place: None,
        })
    }

    /// Reads an option with its values; `not`: a '!' stands before it.
    fn option<'b>(
        &mut self,
        w: &str,
        not: bool,
        it: &mut impl Iterator<Item = &'b str>,
        d: &mut Draft,
    ) -> Result<(), String> {
        let mut not = not;
        match w {
            // of the match before it
            "--limit-iface-in" | "--limit-iface-out" => {
                let last = d.last_own();
                let last = last
                    .ok_or_else(|| format!("'{w}' needs '--src-type' or '--dst-type' before it"))?;
                last.at = Some(w == "--limit-iface-out");
                Ok(())
            }
            "--src-type" | "--dst-type" => {
                let v = value(w, it, &mut not)?;
                self.address_type(w, v, not, d)
            }
            "--mark" => marked(value(w, it, &mut not)?, not, d),
            "-s" | "--source" | "--src" | "-d" | "--destination" | "--dst" => {
                let v = value(w, it, &mut not)?;
                self.addresses(w, v, not, d)
            }
            "-p" | "--protocol" | "--proto" => {
                let v = value(w, it, &mut not)?;
                self.protocol(v, not, d)
            }
            "-i" | "--in-interface" | "-o" | "--out-interface" => {
                let v = value(w, it, &mut not)?;
                self.interface(w, v, not, d)
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
                let v = value(w, it, &mut not)?;
                self.ports(w, v, not, d)
            }
            "--ctstate" | "--state" | "--ctdir" | "--ctstatus" => {
                let v = value(w, it, &mut not)?;
                d.asks(w, v, not)
            }
            "-m" | "--match" => d.load(value(w, it, &mut not)?, self.family == Family::V6),
            "--match-set" => {
                let (name, sides) = (value(w, it, &mut not)?, value(w, it, &mut not)?);
                let sets = self.interfaces.sets.as_ref().ok_or_else(|| {
                    format!(
                        "the rule asks for set '{name}' of ipset: give what 'ipset save' prints with 'sets-file: FILE'"
                    )
                })?;
                let test = sets.test(name, sides, self.family)?;
                d.add(Some("set"), negate(test, not));
                Ok(())
            }
            // who counts is not told
            "--update-counters" | "--update-subcounters" => Ok(()),
            "--loose" | "--accept-local" | "--validmark" | "--invert" if d.reverse.is_some() => {
                reverse(w, d)
            }
            "--comment" => value(w, it, &mut not).map(drop),
            // rules of the other family are not read
            "-4" | "--ipv4" if self.family == Family::V4 => Ok(()),
            "-6" | "--ipv6" if self.family == Family::V6 => Ok(()),
            "-c" | "--set-counters" => {
                value(w, it, &mut not)?;
                value(w, it, &mut not).map(drop)
            }
            "-j" | "--jump" | "-g" | "--goto" => {
                let v = value(w, it, &mut not)?;
                let goto = w == "-g" || w == "--goto";
                let about = (self.family, self.interfaces);
                if let Some(found) = changes::target(v, about, it).filter(|_| !goto) {
                    d.changes = found?;
                    return Ok(());
                }
                d.target = Some(self.target(v, goto, it)?);
                Ok(())
            }
            _ => {
                if let Some(read) = d.ask(w, not, |not| value(w, it, not)) {
                    return read;
                }
                if let Some(test) = self.test_of(w, &mut not, it, d)? {
                    d.add(match_of(w), negate(test, not));
                }
                Ok(())
            }
        }
    }

    /// The test that an option is; `None`: it holds always.
    fn test_of<'b>(
        &mut self,
        w: &str,
        not: &mut bool,
        it: &mut impl Iterator<Item = &'b str>,
        d: &mut Draft,
    ) -> Result<Option<String>, String> {
        Ok(Some(match w {
            "-f" | "--fragment" => "(ip[6:2] & 8191 != 0)".into(),
            "--syn" => {
                needs(d, 6, w)?;
                "(tcp[13:1] & 23 == 2)".into()
            }
            "--tcp-flags" => {
                let (mask, want) = (value(w, it, not)?, value(w, it, not)?);
                let (mask, want) = (tcp_flags(mask)?, tcp_flags(want)?);
                needs(d, 6, w)?;
                format!("(tcp[13:1] & {mask} == {want})")
            }
            "--src-range" | "--dst-range" => {
                let way = if w == "--src-range" { "src" } else { "dst" };
                self.address_range(way, value(w, it, not)?)?
            }
            "--ttl-eq" | "--ttl-lt" | "--ttl-gt" | "--hl-eq" | "--hl-lt" | "--hl-gt" => {
                self.hop_limit(w, value(w, it, not)?)?
            }
            "--pol" if !*not => match value(w, it, not)? {
                "none" => return Ok(None),
                // packets here have been, and will be, of no IPsec
                "ipsec" => {
                    self.ipsec += 1;
                    "false".into()
                }
                v => {
                    return Err(format!(
                        "policy '{v}' is not supported; there are none and ipsec"
                    ));
                }
            },
            // whichever it is, there is none
            "--dir" if !*not => return value(w, it, not).map(|_| None),
            "--icmp-type" | "--icmpv6-type" => {
                let v = value(w, it, not)?;
                needs(d, self.family.icmp(), w)?;
                match self.icmp(v)? {
                    Some(test) => test,
                    None => return Ok(None),
                }
            }
            _ => {
                return Err(meant_option(
                    format!("option '{w}' is not supported"),
                    w,
                    OPTIONS,
                ));
            }
        }))
    }

    /// Addresses of a source (`-s`) or destination (`-d`).
    fn addresses(&self, w: &str, v: &str, not: bool, d: &mut Draft) -> Result<(), String> {
        let source = w.starts_with("-s") || w.starts_with("--s");
        let ranges = v
            .split(',')
            .map(|p| self.family.prefix(p))
            .collect::<Result<Vec<_>, _>>()?;
        let way = if source { "src" } else { "dst" };
        match self.family.address_test(way, &ranges) {
            Some(t) => d.base.tests.push(negate(t, not)),
            None if not => d.base.tests.push("false".into()),
            None => {}
        }
        Ok(())
    }

    fn protocol(&self, v: &str, not: bool, d: &mut Draft) -> Result<(), String> {
        let read = protocol(v);
        d.strange |= read.is_err();
        match read? {
            Some(p) => {
                if !not {
                    d.protocol = Some(p);
                }
                d.base.tests.push(negate(self.family.protocol_test(p), not));
            }
            None if not => d.base.tests.push("false".into()),
            None => {}
        }
        Ok(())
    }

    fn interface(&self, w: &str, v: &str, not: bool, d: &mut Draft) -> Result<(), String> {
        if self.interfaces.inside.is_none() && self.interfaces.outside.is_none() {
            let hint = "say which is which with 'interfaces: { inside: NAME, outside: NAME }'";
            return Err(format!("the rule names interface '{v}'; {hint}"));
        }
        d.interfaces.push(InterfaceTest {
            out: w.contains('o') && w != "--in-interface",
            not,
            names: vec![v.to_string()],
            of: Property::Name,
        });
        Ok(())
    }

    /// What kind of address it is, as the host's routes say.
    fn address_type(&self, w: &str, v: &str, not: bool, d: &mut Draft) -> Result<(), String> {
        let six = self.family == Family::V6;
        let mut types = Types {
            wide: six,
            ..Types::default()
        };
        for name in v.split(',') {
            let known = types.add(&name.to_lowercase());
            known.ok_or_else(|| format!("address type '{name}' is not supported"))?;
        }
        if six && v.contains(',') {
            // xt_addrtype.c wants all of them at once then
            return Err(format!(
                "several address types ('{v}') of IPv6 are not supported"
            ));
        }
        d.conditions(Some("addrtype")).own.push(OwnTest {
            not,
            kind: AddressKind::Types(types),
            ..OwnTest::local(w == "--src-type", six)
        });
        Ok(())
    }

    fn address_range(&self, way: &str, v: &str) -> Result<String, String> {
        let (a, b) = v.split_once('-').unwrap_or((v, v));
        let range = (self.family.address(a)?, self.family.address(b)?);
        if range.0 > range.1 {
            return Err(format!("address range '{v}'"));
        }
        let test = self.family.address_test(way, &[range]);
        Ok(test.unwrap_or_else(|| "true".into()))
    }

    /// A type of ICMP messages, with a code or without; `None` for any.
    fn icmp(&self, v: &str) -> Result<Option<String>, String> {
        if v == "any" || v == "255" {
            return Ok(None);
        }
        let (name, code) = match v.split_once('/') {
            Some((t, c)) => {
                let code = c.parse::<u8>().map_err(|_| format!("ICMP code '{c}'"))?;
                (t, Some(code))
            }
            None => (v, None),
        };
        let (t, implied) = icmp_type(self.family, name)?;
        let word = self.family.icmp_word();
        Ok(Some(match code.or(implied) {
            Some(c) => format!("({word}[0:1] == {t} && {word}[1:1] == {c})"),
            None => format!("({word}[0:1] == {t})"),
        }))
    }

    fn hop_limit(&self, w: &str, v: &str) -> Result<String, String> {
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
        Ok(format!("({field} {op} {n})"))
    }

    fn target<'b>(
        &mut self,
        v: &str,
        goto: bool,
        it: &mut impl Iterator<Item = &'b str>,
    ) -> Result<Target, String> {
        if let Some(target) = super::nat::target(v, self.nat, self.redirects, it) {
            return target;
        }
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
            // it fills in what a host's own packets lack; a packet that has come has its checksums
            "CHECKSUM" => {
                it.by_ref().for_each(drop);
                Target::Nothing
            }
            // the targets of extensions are written in capitals; chains may be, too, but then they are in the file
            "NFQUEUE" | "QUEUE" | "TOS" | "TEE" | "TPROXY" | "SET" | "ULOG" | "CLASSIFY"
            | "SECMARK" | "CONNSECMARK" | "AUDIT" | "TRACE" | "IDLETIMER" | "SYNPROXY" => {
                return Err(format!("target '{v}' is not supported"));
            }
            _ => Target::Jump(v.to_string()),
        })
    }

    fn ports(&mut self, w: &str, v: &str, not: bool, d: &mut Draft) -> Result<(), String> {
        match d.protocol {
            Some(6 | 17) => {}
            // that has been said
            _ if d.strange => return Ok(()),
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
        let of = match (w.ends_with('s'), d.protocol) {
            (true, _) => "multiport",
            (false, Some(6)) => "tcp",
            (false, _) => "udp",
        };
        if set.is_empty() {
            d.add(Some(of), "false".into());
            return Ok(());
        }
        let tests: Vec<String> = ways.iter().filter_map(|way| test(&set, way)).collect();
        if tests.len() < ways.len() {
            // any port
            return Ok(());
        }
        let test = match (both, not) {
            (false, _) => tests.concat(),
            // one of them is in the list; or none is
            (true, false) => format!("({})", tests.join(" or ")),
            (true, true) => tests.join(" && "),
        };
        d.add(Some(of), test);
        Ok(())
    }
}

/// An option of `-m rpfilter`.
fn reverse(w: &str, d: &mut Draft) -> Result<(), String> {
    let Some(test) = &mut d.reverse else {
        return Ok(());
    };
    match (w, &mut test.kind) {
        ("--invert", _) => test.not = true,
        ("--loose", AddressKind::Reverse { loose, .. }) => *loose = true,
        ("--accept-local", AddressKind::Reverse { own, .. }) => *own = true,
        // no route asks for marks here
        _ => {}
    }
    Ok(())
}

/// An option's value; a '!' before it (the old way) counts too.
fn value<'b>(
    w: &str,
    it: &mut impl Iterator<Item = &'b str>,
    not: &mut bool,
) -> Result<&'b str, String> {
    let mut v = it.next();
    if v == Some("!") {
        *not = !*not;
        v = it.next();
    }
    v.ok_or_else(|| format!("expected a value behind '{w}'"))
}

/// The match that an option is of; none of those that every rule has.
fn match_of(w: &str) -> Option<&'static str> {
    Some(match w {
        "--syn" | "--tcp-flags" => "tcp",
        "--src-range" | "--dst-range" => "iprange",
        "--icmp-type" => "icmp",
        "--icmpv6-type" => "icmp6",
        "--pol" => "policy",
        _ if w.starts_with("--ttl") => "ttl",
        _ if w.starts_with("--hl") => "hl",
        _ => return None,
    })
}

pub(super) fn negate(test: String, not: bool) -> String {
    if not { format!("not {test}") } else { test }
}

/// The bits of a list of TCP flags.
fn tcp_flags(list: &str) -> Result<u32, String> {
    list.split(',').try_fold(0, |n, f| Ok(n | tcp_flag(f)?))
}

fn needs(d: &mut Draft, protocol: u8, what: &str) -> Result<(), String> {
    d.transport = true;
    if d.protocol == Some(protocol) || d.strange {
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

/// `--mark VALUE[/MASK]`, of the match before it.
fn marked(v: &str, not: bool, d: &mut Draft) -> Result<(), String> {
    let of = d
        .mark_of
        .ok_or("'--mark' needs '-m mark' or '-m connmark'")?;
    let test = changes::mark_test(of, v, not)?;
    let name = match of {
        MarkOf::Packet => "mark",
        MarkOf::Connection => "connmark",
    };
    d.conditions(Some(name)).marks.push(test);
    Ok(())
}
