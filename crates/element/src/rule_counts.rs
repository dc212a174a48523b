//! Counters of lists of rules: packets and bytes of each rule, and of the list's policy.
//!
//! A rule's counters say of how many packets it was the rule that decided, as `iptables -L -v` does; rules that do not
//! end the search (alerts) count every packet that they match. Bytes are those of the packet as it came to the element:
//! behind `Strip(14)` and `CheckIPHeader`, the IP packet without Ethernet header and padding.

use std::collections::{HashMap, VecDeque};
use std::fmt::Write;

/// Packets and bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RuleCount {
    /// Packets.
    pub packets: u64,
    /// Their bytes as they came to the element.
    pub bytes: u64,
}

impl RuleCount {
    /// So many more. Numbers wrap around.
    #[inline(always)]
    pub fn add(&mut self, packets: u64, bytes: u64) {
        self.packets = self.packets.wrapping_add(packets);
        self.bytes = self.bytes.wrapping_add(bytes);
    }
}

/// The counters of one list of rules, by argument of the element's configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RuleCounters {
    rules: Vec<RuleCount>,
    policy: RuleCount,
}

impl RuleCounters {
    /// All zero, for the arguments up to this number.
    pub fn new(arguments: usize) -> RuleCounters {
        RuleCounters {
            rules: vec![RuleCount::default(); arguments],
            policy: RuleCount::default(),
        }
    }

    /// One packet, decided by this argument, or by none of them.
    #[inline]
    pub fn packet(&mut self, argument: Option<usize>, bytes: usize) {
        self.add(argument, 1, bytes as u64);
    }

    /// So many packets of so many bytes together. An argument that the list has not is not counted.
    #[inline]
    pub fn add(&mut self, argument: Option<usize>, packets: u64, bytes: u64) {
        let count = match argument {
            Some(i) => self.rules.get_mut(i),
            None => Some(&mut self.policy),
        };
        if let Some(c) = count {
            c.add(packets, bytes);
        }
    }

    /// By argument.
    pub fn rules(&self) -> &[RuleCount] {
        &self.rules
    }

    /// Packets that no argument decided.
    pub fn policy(&self) -> RuleCount {
        self.policy
    }

    /// The argument's counters; the policy's for `None`.
    pub fn get(&self, argument: Option<usize>) -> RuleCount {
        match argument {
            Some(i) => self.rules.get(i).copied().unwrap_or_default(),
            None => self.policy,
        }
    }

    /// Goes on with the counters of the list that this one replaces: rules with equal texts, equal ones in their order,
    /// and the policy.
    pub fn take_equal(&mut self, old: &RuleCounters, old_rules: &[String], rules: &[String]) {
        let mut at: HashMap<&str, VecDeque<usize>> = HashMap::new();
        for (i, text) in rules.iter().enumerate() {
            at.entry(text.trim()).or_default().push_back(i);
        }
        for (text, count) in old_rules.iter().zip(&old.rules) {
            if let Some(i) = at.get_mut(text.trim()).and_then(VecDeque::pop_front) {
                self.add(Some(i), count.packets, count.bytes);
            }
        }
        self.add(None, old.policy.packets, old.policy.bytes);
    }

    /// All zero.
    pub fn reset(&mut self) {
        self.rules.fill(RuleCount::default());
        self.policy = RuleCount::default();
    }

    /// What the `rule_counts` handler says: a line for each argument that has decided, `ARGUMENT PACKETS BYTES`, and
    /// `policy PACKETS BYTES`.
    pub fn text(&self) -> String {
        let mut s = String::new();
        for (i, c) in self.rules.iter().enumerate().filter(|(_, c)| c.packets > 0) {
            let _ = writeln!(s, "{i} {} {}", c.packets, c.bytes);
        }
        if self.policy.packets > 0 {
            let _ = writeln!(s, "policy {} {}", self.policy.packets, self.policy.bytes);
        }
        s
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_follow_their_rules_into_another_list() {
        let list = |all: &[&str]| all.iter().map(|s| s.to_string()).collect::<Vec<_>>();
        let (before, after) = (
            list(&["allow a", "deny b", "allow a"]),
            list(&["deny c", "allow a", "allow a", "deny all"]),
        );
        let mut old = RuleCounters::new(3);
        old.add(Some(0), 1, 10);
        old.add(Some(1), 2, 20);
        old.add(Some(2), 4, 40);
        old.add(None, 8, 80);
        let mut new = RuleCounters::new(4);
        new.take_equal(&old, &before, &after);
        assert_eq!(new.text(), "1 1 10\n2 4 40\npolicy 8 80\n");
    }

    #[test]
    fn counts_by_argument_and_policy() {
        let mut c = RuleCounters::new(3);
        c.packet(Some(1), 40);
        c.packet(Some(1), 60);
        c.packet(None, 20);
        c.packet(Some(3), 1);
        c.add(Some(2), 3, 120);
        assert_eq!(c.text(), "1 2 100\n2 3 120\npolicy 1 20\n");
        assert_eq!(c.get(Some(0)), RuleCount::default());
        c.reset();
        assert_eq!(c, RuleCounters::new(3));
    }
}
