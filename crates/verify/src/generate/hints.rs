//! Values that a configuration names: addresses, prefixes, ports, MAC addresses, strings. Random packets made of them
//! meet the rules far more often than random bits would.

use onefold_element::GraphSpec;
use std::collections::BTreeSet;

/// Most values of a kind.
const MAX_VALUES: usize = 20_000;

/// Values of a configuration.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Hints {
    /// IPv4 addresses with prefix lengths.
    pub v4: Vec<(u32, u8)>,
    /// IPv6 addresses with prefix lengths.
    pub v6: Vec<(u128, u8)>,
    /// Ports.
    pub ports: Vec<u16>,
    /// MAC addresses.
    pub macs: Vec<[u8; 6]>,
    /// VLAN ids.
    pub vlans: Vec<u16>,
    /// Strings.
    pub texts: Vec<Vec<u8>>,
}

impl Hints {
    /// Reads a graph's configurations.
    pub fn of(graph: &GraphSpec) -> Hints {
        let mut all = Sets::default();
        for e in &graph.elements {
            for a in &e.args {
                all.read(a, e.class.to_ascii_lowercase().contains("vlan"));
            }
        }
        Hints {
            v4: all.v4.into_iter().collect(),
            v6: all.v6.into_iter().collect(),
            ports: all.ports.into_iter().collect(),
            macs: all.macs.into_iter().collect(),
            vlans: all.vlans.into_iter().collect(),
            texts: all.texts.into_iter().collect(),
        }
    }
}

#[derive(Default)]
struct Sets {
    v4: BTreeSet<(u32, u8)>,
    v6: BTreeSet<(u128, u8)>,
    ports: BTreeSet<u16>,
    macs: BTreeSet<[u8; 6]>,
    vlans: BTreeSet<u16>,
    texts: BTreeSet<Vec<u8>>,
}

impl Sets {
    fn read(&mut self, arg: &str, vlan: bool) {
        self.literals(arg);
        for (i, text) in arg.split('"').enumerate() {
            if i % 2 == 1 && (1..=64).contains(&text.len()) && self.texts.len() < MAX_VALUES {
                self.texts.insert(text.as_bytes().to_vec());
            }
        }
        let is_part = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | ':' | '/' | '-');
        for part in arg.split(|c| !is_part(c)).filter(|w| !w.is_empty()) {
            // Ethernet addresses are written with dashes, too
            match part.split('-').count() {
                6 => self.word(&part.replace('-', ":"), vlan),
                _ => part.split('-').for_each(|w| self.word(w, vlan)),
            }
        }
    }

    /// Bytes written as `\\<4d 5a>`, and several strings in a row, as they might follow each other.
    fn literals(&mut self, arg: &str) {
        let hex = arg.split("\\<").skip(1).filter_map(|s| s.split_once('>'));
        let bytes = |s: &str| -> Option<Vec<u8>> {
            let words = s.split_whitespace();
            words.map(|w| u8::from_str_radix(w, 16).ok()).collect()
        };
        let mut found: Vec<Vec<u8>> = hex.filter_map(|(s, _)| bytes(s)).collect();
        let strings: Vec<&str> = arg.split('"').skip(1).step_by(2).collect();
        for from in 0..strings.len().min(3) {
            if let Some(row @ [_, _, ..]) = strings.get(from..) {
                found.push(row.join(" ").into_bytes());
            }
        }
        for f in found {
            if (1..=64).contains(&f.len()) && self.texts.len() < MAX_VALUES {
                self.texts.insert(f);
            }
        }
    }

    fn word(&mut self, word: &str, vlan: bool) {
        if let Ok(n) = word.parse::<u16>() {
            if vlan && n > 0 && n < 4095 {
                self.vlans.insert(n);
            }
            if self.ports.len() < MAX_VALUES {
                self.ports.insert(n);
            }
            return;
        }
        let octets: Vec<&str> = word.split(':').collect();
        if octets.len() == 6 && octets.iter().all(|o| (1..=2).contains(&o.len())) {
            let parsed: Option<Vec<u8>> = octets
                .iter()
                .map(|o| u8::from_str_radix(o, 16).ok())
                .collect();
            if let Some(Ok(mac)) = parsed.map(<[u8; 6]>::try_from) {
                if self.macs.len() < MAX_VALUES {
                    self.macs.insert(mac);
                }
                return;
            }
        }
        let (address, len) = match word.split_once('/') {
            Some((a, l)) => (a, l.parse::<u8>().ok()),
            None => (word, None),
        };
        if let Ok(a) = address.parse::<std::net::Ipv4Addr>() {
            if self.v4.len() < MAX_VALUES {
                self.v4.insert((u32::from(a), len.unwrap_or(32).min(32)));
            }
        } else if let Ok(a) = address.parse::<std::net::Ipv6Addr>()
            && self.v6.len() < MAX_VALUES
        {
            self.v6.insert((u128::from(a), len.unwrap_or(128).min(128)));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_element::ElementSpec;

    #[test]
    fn finds_what_is_there() {
        let e = ElementSpec {
            name: "x".into(),
            class: "VLANEncap".into(),
            args: vec![
                "allow src net 10.1.0.0/16 && dst port 80 or 443".into(),
                "02:00:00:00:00:0a, 02-00-00-00-0b-00, 2001:db8::/32, 192.0.2.7, 42, \"EVIL stuff\"".into(),
                r#"alert NAME "x" LITERAL "USER" LITERAL "root" LITERAL \<4d 5a>"#.into(),
            ],
            ..Default::default()
        };
        let h = Hints::of(&GraphSpec {
            elements: vec![e],
            connections: vec![],
        });
        assert_eq!(h.v4, [(0x0a01_0000, 16), (0xc000_0207, 32)]);
        assert_eq!(h.v6, [(0x2001_0db8u128 << 96, 32)]);
        assert_eq!(h.ports, [42, 80, 443]);
        assert_eq!(h.macs, [[2, 0, 0, 0, 0, 10], [2, 0, 0, 0, 11, 0]]);
        for text in [&b"EVIL stuff"[..], b"USER root", b"root", &[0x4d, 0x5a]] {
            assert!(h.texts.iter().any(|t| t == text), "{text:?}");
        }
    }
}
