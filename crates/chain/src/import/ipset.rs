//! Sets of addresses as `ipset save` prints them, for rules of iptables that ask for them (`-m set --match-set`).

use super::ports::{test as port_test, union};
use super::terms::{Family, Range, icmp_type, protocol, service};
use std::collections::HashMap;

/// Most elements of all sets.
const MAX_ELEMENTS: usize = 1_000_000;
/// Most sets.
const MAX_SETS: usize = 65_536;

/// What one part of a set's elements is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// An address, a network, or a range of addresses.
    Address,
    /// A port with its protocol.
    Port,
    /// A port of whatever protocol has them.
    AnyPort,
}

/// A set.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Set {
    kind: Kind,
    /// `None`: of both.
    family: Option<Family>,
    /// Elements as they are written, whether they are exceptions, and their lines.
    elements: Vec<(String, bool, u32)>,
}

/// Of what.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// Parts, in order.
    Parts(Vec<Part>),
    /// Other sets.
    List,
    /// What nothing here can ask for.
    Unknown(String),
}

/// Sets by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IpSets {
    sets: HashMap<String, Set>,
}

/// Which side of a packet each part of an element is compared with: true, the source.
type Sides = Vec<bool>;

impl Kind {
    fn of(name: &str) -> Kind {
        if name == "list:set" {
            return Kind::List;
        }
        let unknown = || Kind::Unknown(name.to_string());
        let Some((how, what)) = name.split_once(':') else {
            return unknown();
        };
        let part = |p: &str| match (how, p) {
            (_, "ip" | "net") => Some(Part::Address),
            ("bitmap", "port") => Some(Part::AnyPort),
            (_, "port") => Some(Part::Port),
            _ => None,
        };
        match what.split(',').map(part).collect() {
            Some(parts) => Kind::Parts(parts),
            None => unknown(),
        }
    }
}

impl IpSets {
    /// Reads what `ipset save` prints; errors are (line, message).
    ///
    /// # Errors
    /// Lines that are no commands of it.
    pub fn parse(text: &str) -> Result<IpSets, Vec<(u32, String)>> {
        let mut out = IpSets::default();
        let mut errors = Vec::new();
        let mut count = 0;
        for (l, line) in text.lines().zip(1..) {
            let l = l.trim();
            if l.is_empty() || l.starts_with('#') || l == "COMMIT" {
                continue;
            }
            count += 1;
            if count > MAX_ELEMENTS {
                errors.push((line, format!("more than {MAX_ELEMENTS} elements")));
                break;
            }
            if let Err(e) = out.command(l, line) {
                errors.push((line, e));
            }
        }
        match errors.is_empty() {
            true => Ok(out),
            false => Err(errors),
        }
    }

    fn command(&mut self, l: &str, line: u32) -> Result<(), String> {
        let mut words = l.split_whitespace();
        match (words.next(), words.next(), words.next()) {
            (Some("create" | "-N"), Some(name), Some(kind)) => {
                let mut family = Some(Family::V4);
                while let Some(w) = words.next() {
                    match (w, words.clone().next()) {
                        ("family", Some("inet6")) => family = Some(Family::V6),
                        ("timeout", Some(t)) if t != "0" => {
                            return Err(format!("set '{name}' whose elements expire is not supported"));
                        }
                        _ => {}
                    }
                }
                if self.sets.len() >= MAX_SETS {
                    return Err(format!("more than {MAX_SETS} sets"));
                }
                let kind = Kind::of(kind);
                let any = kind == Kind::List || kind == Kind::Parts(vec![Part::AnyPort]);
                let set = Set {
                    family: family.filter(|_| !any),
                    kind,
                    elements: Vec::new(),
                };
                match self.sets.insert(name.to_string(), set) {
                    None => Ok(()),
                    Some(_) => Err(format!("set '{name}' twice")),
                }
            }
            (Some("add" | "-A"), Some(name), Some(element)) => {
                let mut except = false;
                while let Some(w) = words.next() {
                    match (w, words.clone().next()) {
                        ("nomatch", _) => except = true,
                        ("timeout", Some(t)) if t != "0" => {
                            return Err(format!("element '{element}' that expires is not supported"));
                        }
                        // what follows is text
                        ("comment", _) => break,
                        _ => {}
                    }
                }
                let set = self.sets.get_mut(name);
                let set = set.ok_or_else(|| format!("set '{name}' has not been created"))?;
                set.elements.push((element.to_string(), except, line));
                Ok(())
            }
            _ => Err("expected 'create NAME TYPE ...' or 'add NAME ELEMENT', as 'ipset save' prints them".into()),
        }
    }

    /// The expression for `--match-set NAME SIDES`.
    ///
    /// # Errors
    /// There is no such set, or it cannot be asked for.
    pub(super) fn test(&self, name: &str, sides: &str, family: Family) -> Result<String, String> {
        let side = |s: &str| match s {
            "src" => Ok(true),
            "dst" => Ok(false),
            _ => Err(format!(
                "'{sides}': expected src or dst, or several with commas"
            )),
        };
        let sides = sides.split(',').map(side).collect::<Result<Sides, _>>()?;
        let set = self.get(name)?;
        let tests = match &set.kind {
            Kind::List => {
                let mut all = Vec::new();
                for (member, ..) in &set.elements {
                    let of = self.get(member)?;
                    if of.kind == Kind::List {
                        return Err(format!("set '{name}' has a list, '{member}', in it"));
                    }
                    all.push(of.test(member, &sides, family)?);
                }
                all
            }
            _ => vec![set.test(name, &sides, family)?],
        };
        let some = tests.into_iter().filter(|t| t != "false");
        Ok(one_of(some.collect()))
    }

    fn get(&self, name: &str) -> Result<&Set, String> {
        let set = self.sets.get(name);
        set.ok_or_else(|| format!("set '{name}' is not in the file that 'sets-file' names"))
    }
}

impl Set {
    fn test(&self, name: &str, sides: &[bool], family: Family) -> Result<String, String> {
        let parts = match &self.kind {
            Kind::Parts(parts) => parts,
            Kind::List => return Ok("false".into()),
            Kind::Unknown(kind) => {
                return Err(format!("set '{name}' of type {kind} is not supported"));
            }
        };
        // ip_set_test: such a question is never true
        if sides.len() < parts.len() || self.family.is_some_and(|f| f != family) {
            return Ok("false".into());
        }
        let wrong = |line: &u32, e: String| format!("set '{name}', line {line}: {e}");
        if self.elements.iter().any(|e| e.1) {
            return self
                .with_exceptions(parts, sides, family)
                .map_err(|(l, e)| wrong(&l, e));
        }
        // a run of addresses alone is as few networks as it needs
        if let [Part::Address] = parts.as_slice() {
            let mut ranges: Vec<Range> = Vec::new();
            for (text, _, line) in &self.elements {
                ranges.push(range(text, family).map_err(|e| wrong(line, e))?);
            }
            let way = way(sides[0]);
            let test = family.address_test(way, &joined(ranges));
            return Ok(test.unwrap_or_else(|| "true".into()));
        }
        let mut all = Vec::new();
        for (text, _, line) in &self.elements {
            all.push(element(text, parts, sides, family).map_err(|e| wrong(line, e))?);
        }
        Ok(one_of(all))
    }

    /// Networks, of which the longest prefix decides.
    fn with_exceptions(
        &self,
        parts: &[Part],
        sides: &[bool],
        family: Family,
    ) -> Result<String, (u32, String)> {
        let mut all: Vec<(Range, bool)> = Vec::new();
        for (text, except, line) in &self.elements {
            if parts != [Part::Address] {
                let text = "exceptions ('nomatch') among others than networks are not supported";
                return Err((*line, text.into()));
            }
            all.push((range(text, family).map_err(|e| (*line, e))?, *except));
        }
        // longer prefixes are asked first, and so written last
        all.sort_by_key(|((lo, hi), _)| std::cmp::Reverse(hi - lo));
        let mut test = "false".to_string();
        for (r, except) in all {
            let net = family.address_test(way(sides[0]), &[r]);
            let net = net.unwrap_or_else(|| "true".into());
            test = match (except, test.as_str()) {
                (true, "false") => continue,
                (true, _) => format!("(not {net} && {test})"),
                (false, "false") => net,
                (false, _) => format!("({net} or {test})"),
            };
        }
        Ok(test)
    }
}

fn way(source: bool) -> &'static str {
    if source { "src" } else { "dst" }
}

/// `1.2.3.4`, `10.0.0.0/8`, `10.0.0.1-10.0.0.9`
fn range(text: &str, family: Family) -> Result<Range, String> {
    match text.split_once('-') {
        None => family.prefix(text),
        Some((a, b)) => {
            let (lo, hi) = (family.address(a)?, family.address(b)?);
            match lo <= hi {
                true => Ok((lo, hi)),
                false => Err(format!("range '{text}'")),
            }
        }
    }
}

/// Ranges that do not overlap, and of which none goes on where another ends.
fn joined(mut all: Vec<Range>) -> Vec<Range> {
    all.sort();
    let mut out: Vec<Range> = Vec::new();
    for (lo, hi) in all {
        match out.last_mut() {
            Some(last) if lo <= last.1.saturating_add(1) => last.1 = last.1.max(hi),
            _ => out.push((lo, hi)),
        }
    }
    out
}

/// The test for an element.
fn element(text: &str, parts: &[Part], sides: &[bool], family: Family) -> Result<String, String> {
    let values: Vec<&str> = text.split(',').collect();
    if values.len() != parts.len() {
        return Err(format!(
            "element '{text}' with other parts than its set has"
        ));
    }
    let mut all = Vec::new();
    for ((value, part), side) in values.iter().zip(parts).zip(sides) {
        match part {
            Part::Address => {
                all.extend(family.address_test(way(*side), &[range(value, family)?]));
            }
            Part::AnyPort => {
                let ports = ports(value)?;
                all.push("(tcp or udp)".into());
                all.extend(port_test(&union(vec![ports]), way(*side)));
            }
            Part::Port => all.extend(port(value, way(*side), family)?),
        }
    }
    Ok(match all.is_empty() {
        true => "true".into(),
        false => format!("({})", all.join(" && ")),
    })
}

/// `80`, `tcp:80-90`, `udp:domain`, `icmp:8/0`, `icmp:ping`
fn port(value: &str, way: &str, family: Family) -> Result<Vec<String>, String> {
    let (name, rest) = value.split_once(':').unwrap_or(("tcp", value));
    let number = protocol(name)?.ok_or_else(|| format!("protocol '{name}'"))?;
    let mut all = vec![family.protocol_test(number)];
    if number == family.icmp() {
        let (t, code) = match rest.split_once('/') {
            Some((t, c)) => {
                let code = c.parse::<u8>().map_err(|_| format!("ICMP code '{c}'"))?;
                (t, Some(code))
            }
            None => (rest, None),
        };
        let (t, implied) = icmp_type(family, t)?;
        let word = family.icmp_word();
        let code = code.or(implied).unwrap_or(0);
        all.push(format!("{word}[0:1] == {t} && {word}[1:1] == {code}"));
        return Ok(all);
    }
    match number {
        6 | 17 => all.extend(port_test(&union(vec![ports(rest)?]), way)),
        // others have none, and are written with 0
        _ if rest == "0" => {}
        _ => return Err(format!("ports of protocol '{name}' are not supported")),
    }
    Ok(all)
}

fn ports(text: &str) -> Result<(u16, u16), String> {
    let (a, b) = text.split_once('-').unwrap_or((text, text));
    let (lo, hi) = (service(a)?, service(b)?);
    match lo <= hi {
        true => Ok((lo, hi)),
        false => Err(format!("ports '{text}'")),
    }
}

fn one_of(tests: Vec<String>) -> String {
    match tests.len() {
        0 => "false".into(),
        1 => tests.concat(),
        _ => format!("({})", tests.join(" or ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAVED: &str = "create lan hash:net family inet hashsize 1024 maxelem 65536 bucketsize 12\n\
        add lan 10.0.0.0/9\nadd lan 10.128.0.0/9\nadd lan 192.168.1.5\n\
        create part hash:net family inet\nadd part 10.0.0.0/8\nadd part 10.1.0.0/16 nomatch\nadd part 10.1.2.0/24\n\
        create web hash:ip,port family inet comment\n\
        add web 192.0.2.1,tcp:80-81 comment \"timeout 5\"\nadd web 192.0.2.1,icmp:echo-request\n\
        create high bitmap:port range 0-65535\nadd high 1024-2000\n\
        create six hash:ip family inet6\nadd six 2001:db8::1\n\
        create both list:set size 8\nadd both lan\nadd both six\ncreate nothing hash:ip family inet\n\
        create cards hash:mac\n";

    fn of(name: &str, sides: &str, family: Family) -> Result<String, String> {
        IpSets::parse(SAVED).unwrap().test(name, sides, family)
    }

    #[test]
    fn sets_are_expressions() {
        let four = |name, sides| of(name, sides, Family::V4).unwrap();
        assert_eq!(
            four("lan", "src"),
            "(src net 10.0.0.0/8 or src host 192.168.1.5)"
        );
        assert_eq!(
            four("part", "dst"),
            "(dst net 10.1.2.0/24 or (not dst net 10.1.0.0/16 && dst net 10.0.0.0/8))"
        );
        assert_eq!(
            four("web", "dst,src"),
            "((dst host 192.0.2.1 && tcp && (src port >= 80 && src port <= 81)) or \
             (dst host 192.0.2.1 && icmp && icmp[0:1] == 8 && icmp[1:1] == 0))"
        );
        // with fewer sides than parts, it never holds
        assert_eq!(four("web", "dst"), "false");
        assert!(four("high", "dst").starts_with("((tcp or udp) && "));
        assert_eq!(four("six", "src"), "false");
        assert_eq!(
            of("six", "src", Family::V6).unwrap(),
            "src host 2001:db8::1"
        );
        assert_eq!(
            of("both", "src", Family::V6).unwrap(),
            "src host 2001:db8::1"
        );
        assert_eq!(four("both", "src"), four("lan", "src"));
        assert_eq!(four("nothing", "src"), "false");
    }

    #[test]
    fn what_is_refused() {
        assert!(
            of("none", "src", Family::V4)
                .unwrap_err()
                .contains("not in the file")
        );
        assert!(
            of("lan", "up", Family::V4)
                .unwrap_err()
                .contains("src or dst")
        );
        assert!(
            of("cards", "src", Family::V4)
                .unwrap_err()
                .contains("hash:mac")
        );
        let wrong = |text: &str| IpSets::parse(text).unwrap_err()[0].clone();
        assert_eq!(wrong("create a hash:ip timeout 5").0, 1);
        assert!(
            wrong("create a hash:ip\nadd a 1.2.3.4 timeout 5")
                .1
                .contains("expires")
        );
        assert!(wrong("add a 1.2.3.4").1.contains("not been created"));
        assert!(wrong("flush").1.contains("ipset save"));
        assert!(
            wrong("create a hash:ip\ncreate a hash:ip")
                .1
                .contains("twice")
        );
    }
}
