//! The lines of a file for `iptables-restore`: tables, chains, their policies, and commands that put rules there, take
//! them away or leave them to the other family.
//!
//! `iptables-save` prints `-A` alone. Files that are written by hand hold what scripts say, too; what a command makes
//! of the rules before it is what `iptables-restore` makes of them. Where its two versions differ, or where a command
//! is about what is in the kernel already, it is refused by name.

use super::options::words;
use super::{Errors, Raw, Table};
use crate::import::terms::Family;
use std::collections::BTreeMap;

/// Most places that rules are moved by in all, by commands in the middle of chains.
const MAX_MOVED: usize = 100_000_000;

/// Chains that there are without being made.
const BUILT_IN: [&str; 5] = ["PREROUTING", "INPUT", "FORWARD", "OUTPUT", "POSTROUTING"];

/// Reads the tables of a file, for one family.
pub(super) fn read_tables<'a>(
    text: &'a str,
    family: Family,
    errors: &mut Errors,
) -> BTreeMap<&'a str, Table<'a>> {
    let mut tables: BTreeMap<&str, Table<'_>> = BTreeMap::new();
    let mut current: Option<&str> = None;
    let mut moved = 0;
    for (i, l) in text.lines().enumerate() {
        let (line, l) = (i as u32 + 1, l.trim());
        if l.is_empty() || l.starts_with('#') || l == "COMMIT" {
            continue;
        }
        if let Some(name) = l.strip_prefix('*').map(str::trim) {
            current = Some(name);
            if tables.insert(name, Table::default()).is_some() {
                let text = format!(
                    "table '{name}' is in the file twice, and iptables-restore forgets the first one: remove it"
                );
                errors.push((line, text));
            }
            continue;
        }
        let Some(t) = current.and_then(|c| tables.get_mut(c)) else {
            errors.push((
                line,
                "expected '*TABLE' first, as iptables-save prints it".into(),
            ));
            break;
        };
        let result = match l.strip_prefix(':') {
            Some(rest) => t.declare(rest, line),
            None => t.command(l, family, line, &mut moved),
        };
        errors.extend(result.err().map(|e| (line, e)));
    }
    tables
}

/// Is a line about the other family? Gives back what follows options in front that say so.
fn of_family(mut l: &str, family: Family) -> Option<&str> {
    let ours = |w: &str| match w {
        "-4" | "--ipv4" => Some(family == Family::V4),
        "-6" | "--ipv6" => Some(family == Family::V6),
        _ => None,
    };
    // Bound: each turn takes a word
    while let Some(is) = ours(word(l).0) {
        if !is {
            return None;
        }
        l = word(l).1;
    }
    if ["-4", "-6", "--ipv"].iter().any(|o| l.contains(o)) {
        let all = words(l);
        let mut before = "";
        for w in &all {
            // behind another option it may be that one's value; if not, it is refused with the rule
            if !before.starts_with("--") && ours(w) == Some(false) {
                return None;
            }
            before = w;
        }
    }
    Some(l)
}

/// The first word, and what follows.
fn word(text: &str) -> (&str, &str) {
    let text = text.trim_start();
    let (w, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    (w, rest.trim_start())
}

impl<'a> Table<'a> {
    /// `CHAIN POLICY [PACKETS:BYTES]`: the policy of a built-in chain; any other is made, or emptied.
    fn declare(&mut self, rest: &'a str, line: u32) -> Result<(), String> {
        let mut w = rest.split_whitespace();
        let (Some(chain), Some(policy)) = (w.next(), w.next()) else {
            return Err("expected ':CHAIN POLICY'".into());
        };
        self.policies.insert(chain, (policy, line));
        if policy == "-" {
            self.chains.remove(chain);
        }
        Ok(())
    }

    fn command(
        &mut self,
        l: &'a str,
        family: Family,
        line: u32,
        moved: &mut usize,
    ) -> Result<(), String> {
        // "[packets:bytes] -A ..." with -c
        let l = match l.strip_prefix('[') {
            Some(r) => r.split_once(']').map_or(l, |(_, r)| r.trim()),
            None => l,
        };
        let Some(l) = of_family(l, family) else {
            return Ok(());
        };
        let (name, rest) = word(l);
        let (chain, behind) = word(rest);
        let place = Place { chain, line };
        match name {
            "-A" | "--append" | "-I" | "--insert" | "-D" | "--delete" | "-R" | "--replace"
            | "-P" | "--policy" | "-N" | "--new-chain" | "--new"
                if chain.is_empty() =>
            {
                Err(format!("expected a chain behind '{name}'"))
            }
            "-A" | "--append" => {
                let all = self.chains.entry(chain).or_default();
                all.push(Raw { text: behind, line });
                Ok(())
            }
            "-I" | "--insert" => self.insert(place, behind, moved),
            "-D" | "--delete" => self.delete(place, behind, moved),
            "-R" | "--replace" => self.replace(place, behind),
            "-P" | "--policy" => self.policy(place, behind),
            "-N" | "--new-chain" | "--new" => match self.has(chain) {
                true => Err(format!("there is a chain '{chain}' already")),
                false => {
                    self.policies.insert(chain, ("-", line));
                    Ok(())
                }
            },
            "-F" | "--flush" => self.flush(chain),
            "-X" | "--delete-chain" => self.remove(chain),
            // counters
            "-Z" | "--zero" => Ok(()),
            "-E" | "--rename-chain" | "-C" | "--check" | "-L" | "--list" | "-S"
            | "--list-rules" => {
                let hint = "it is for a shell; leave it out of the file";
                Err(format!("command '{name}' is not supported: {hint}"))
            }
            _ => Err(format!("expected '-A CHAIN ...', found '{name}'")),
        }
    }

    fn has(&self, chain: &str) -> bool {
        BUILT_IN.contains(&chain)
            || self.policies.contains_key(chain)
            || self.chains.contains_key(chain)
    }

    /// `[NUMBER] RULE`: before the rule of this number, or behind the last one.
    fn insert(&mut self, p: Place<'a>, behind: &'a str, moved: &mut usize) -> Result<(), String> {
        let (first, after) = word(behind);
        let (number, text) = match first.starts_with(|c: char| c.is_ascii_digit()) {
            true => (number(first)?, after),
            false => (1, behind),
        };
        let all = self.chains.entry(p.chain).or_default();
        if number > all.len() + 1 {
            return Err(p.too_far(number, all.len()));
        }
        *moved += all.len() + 1 - number;
        bounded(*moved)?;
        let raw = Raw { text, line: p.line };
        all.insert(number - 1, raw);
        Ok(())
    }

    /// `NUMBER`
    fn delete(&mut self, p: Place<'a>, behind: &str, moved: &mut usize) -> Result<(), String> {
        if !behind.starts_with(|c: char| c.is_ascii_digit()) {
            return Err(format!(
                "'-D {}' with a rule is not supported: say the rule's number, or leave it out where it stands",
                p.chain
            ));
        }
        let number = number(behind)?;
        let all = self.chains.entry(p.chain).or_default();
        if number > all.len() {
            return Err(p.too_far(number, all.len()));
        }
        *moved += all.len() - number;
        bounded(*moved)?;
        all.remove(number - 1);
        Ok(())
    }

    /// `NUMBER RULE`
    fn replace(&mut self, p: Place<'a>, behind: &'a str) -> Result<(), String> {
        let (first, text) = word(behind);
        let number = number(first)?;
        let all = self.chains.entry(p.chain).or_default();
        let len = all.len();
        match all.get_mut(number - 1) {
            Some(r) => *r = Raw { text, line: p.line },
            None => return Err(p.too_far(number, len)),
        }
        Ok(())
    }

    fn policy(&mut self, p: Place<'a>, behind: &'a str) -> Result<(), String> {
        let (policy, _) = word(behind);
        if !BUILT_IN.contains(&p.chain) {
            return Err(format!(
                "chain '{}' is not built in: it has no policy",
                p.chain
            ));
        }
        if !matches!(policy, "ACCEPT" | "DROP") {
            return Err(format!(
                "expected the policy ACCEPT or DROP, found '{policy}'"
            ));
        }
        self.policies.insert(p.chain, (policy, p.line));
        Ok(())
    }

    /// A chain's rules go; or those of all chains.
    fn flush(&mut self, chain: &str) -> Result<(), String> {
        if chain.is_empty() {
            // from here on iptables-legacy-restore has none, and iptables-nft-restore has them all
            return match self.chains.values().all(Vec::is_empty) {
                true => Ok(()),
                false => Err(
                    "'-F' behind rules: versions of iptables-restore differ in whether these stay; leave them \
                     out of the file, or say '-F CHAIN'"
                        .into(),
                ),
            };
        }
        if !self.has(chain) {
            return Err(format!("there is no chain '{chain}'"));
        }
        self.chains.remove(chain);
        Ok(())
    }

    /// A chain that is empty goes; or all that are made.
    fn remove(&mut self, chain: &str) -> Result<(), String> {
        if BUILT_IN.contains(&chain) {
            return Err(format!("chain '{chain}' is built in: it cannot be deleted"));
        }
        if !chain.is_empty() && !self.has(chain) {
            return Err(format!("there is no chain '{chain}'"));
        }
        let goes = |c: &str| c == chain || chain.is_empty() && !BUILT_IN.contains(&c);
        if let Some((full, _)) = (self.chains.iter()).find(|(c, r)| goes(c) && !r.is_empty()) {
            return Err(format!("chain '{full}' has rules: it cannot be deleted"));
        }
        self.chains.retain(|c, _| !goes(c));
        self.policies.retain(|c, _| !goes(c));
        Ok(())
    }
}

/// What a command is about.
struct Place<'a> {
    chain: &'a str,
    line: u32,
}

impl Place<'_> {
    fn too_far(&self, number: usize, len: usize) -> String {
        format!("chain '{}' has {len} rules: no number {number}", self.chain)
    }
}

/// A rule's number, from 1.
fn number(w: &str) -> Result<usize, String> {
    let n = w.parse::<usize>().ok().filter(|n| *n > 0);
    n.ok_or_else(|| format!("expected a rule's number, from 1, found '{w}'"))
}

fn bounded(moved: usize) -> Result<(), String> {
    match moved > MAX_MOVED {
        true => Err("too many rules are put in front of others: write them in their order".into()),
        false => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The rules of FORWARD, its policy, and what is wrong.
    fn read(lines: &str, family: Family) -> (Vec<String>, String, Vec<String>) {
        let text = format!("*filter\n:FORWARD ACCEPT [0:0]\n{lines}\nCOMMIT\n");
        let mut errors = Errors::new();
        let tables = read_tables(&text, family, &mut errors);
        let t = &tables["filter"];
        let rules = t.chains.get("FORWARD").into_iter().flatten();
        (
            rules.map(|r| format!("{}: {}", r.line, r.text)).collect(),
            t.policies.get("FORWARD").map_or("", |p| p.0).to_string(),
            errors.iter().map(|(n, e)| format!("{n}: {e}")).collect(),
        )
    }

    fn rules(lines: &str) -> Vec<String> {
        let (rules, _, errors) = read(lines, Family::V4);
        assert_eq!(errors, [""; 0]);
        rules
    }

    fn wrong(lines: &str) -> String {
        read(lines, Family::V4).2.join("; ")
    }

    /// Each as iptables-restore 1.8.9 has it.
    #[test]
    fn commands_of_scripts() {
        let two = "-A FORWARD -p tcp\n--append FORWARD -p udp\n";
        assert_eq!(
            rules(&format!(
                "{two}-I FORWARD -p 47\n-I FORWARD 2 -p 48\n[1:2] --insert FORWARD 5 -p 49"
            )),
            ["5: -p 47", "6: -p 48", "3: -p tcp", "4: -p udp", "7: -p 49"]
        );
        assert_eq!(rules(&format!("{two}-D FORWARD 1")), ["4: -p udp"]);
        assert_eq!(
            rules(&format!("{two}-R FORWARD 2 -p 47")),
            ["3: -p tcp", "5: -p 47"]
        );
        assert_eq!(rules(&format!("{two}-F FORWARD\n-Z\n-A FORWARD")), ["7: "]);
        assert_eq!(
            rules("-F\n-X\n-N own\n-A own -j DROP\n-F own\n-X own\n-N own\n-A FORWARD -j own"),
            ["10: -j own"]
        );
        // a chain that is declared again is emptied, one that is built in is not
        let again =
            ":own - [0:0]\n-A own -j DROP\n:own - [0:0]\n-X own\n-A FORWARD\n:FORWARD DROP [0:0]";
        assert_eq!(rules(again), ["7: "]);
        let (_, policy, errors) = read("-P FORWARD DROP", Family::V4);
        assert_eq!((policy.as_str(), errors.len()), ("DROP", 0));
    }

    #[test]
    fn rules_of_one_family() {
        let text = "-4 -A FORWARD -p icmp\n-6 -A FORWARD -m rt --rt-type 0 -j DROP\n-A FORWARD --ipv6 -p 58\n\
                    -A FORWARD --ipv4 -p tcp\n-A FORWARD -m comment --comment \"-6\"\n-6 -P FORWARD DROP";
        let (four, policy, errors) = read(text, Family::V4);
        assert_eq!(
            four,
            [
                "3: -p icmp",
                "6: --ipv4 -p tcp",
                "7: -m comment --comment \"-6\""
            ]
        );
        assert_eq!((policy.as_str(), errors.len()), ("ACCEPT", 0));
        let (six, policy, errors) = read(text, Family::V6);
        assert_eq!(
            six,
            [
                "4: -m rt --rt-type 0 -j DROP",
                "5: --ipv6 -p 58",
                "7: -m comment --comment \"-6\""
            ]
        );
        assert_eq!((policy.as_str(), errors.len()), ("DROP", 0));
    }

    #[test]
    fn what_no_file_can_say() {
        assert_eq!(
            wrong("-I FORWARD 2 -p tcp"),
            "3: chain 'FORWARD' has 0 rules: no number 2"
        );
        assert_eq!(
            wrong("-D FORWARD 1"),
            "3: chain 'FORWARD' has 0 rules: no number 1"
        );
        assert_eq!(
            wrong("-R FORWARD 1 -p tcp"),
            "3: chain 'FORWARD' has 0 rules: no number 1"
        );
        assert!(wrong("-I FORWARD 0 -p tcp").starts_with("3: expected a rule's number"));
        assert!(wrong("-D FORWARD -p tcp").contains("say the rule's number"));
        assert!(wrong("-A FORWARD\n-F").starts_with("4: '-F' behind rules"));
        assert_eq!(wrong("-F own"), "3: there is no chain 'own'");
        assert_eq!(wrong("-X own"), "3: there is no chain 'own'");
        assert!(wrong("-X FORWARD").contains("built in"));
        assert_eq!(
            wrong("-N own\n-A own\n-X"),
            "5: chain 'own' has rules: it cannot be deleted"
        );
        assert_eq!(wrong("-N FORWARD"), "3: there is a chain 'FORWARD' already");
        assert!(wrong("-N own\n-P own DROP").contains("not built in"));
        assert!(wrong("-P FORWARD REJECT").contains("found 'REJECT'"));
        assert!(wrong("-E a b").starts_with("3: command '-E' is not supported"));
        assert_eq!(wrong("-A"), "3: expected a chain behind '-A'");
        assert_eq!(wrong("foo"), "3: expected '-A CHAIN ...', found 'foo'");
        assert!(wrong("COMMIT\n*filter").contains("twice"));
    }

    /// Rules in front of others, as many as a file can hold.
    #[test]
    fn moves_are_bounded() {
        let text = "-I FORWARD\n".repeat(20_000);
        assert!(wrong(&text).contains("write them in their order"));
    }
}
