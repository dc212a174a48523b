//! Named addresses and numbers: what AddressInfo defines, and the built-in tables (annotations, services).
//!
//! Names are scoped as in Click: a definition made inside compound `a/b` is seen by elements inside `a/b` and below;
//! inner definitions hide outer ones.

use onefold_packet::{AnnoField, EtherAddr, anno_field};
use std::collections::HashMap;
use std::sync::OnceLock;

/// One scope's definition of a name; AddressInfo may give a name several kinds of address at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Named {
    /// IPv4 address.
    pub ip4: Option<[u8; 4]>,
    /// IPv4 prefix: address and mask.
    pub ip4_prefix: Option<([u8; 4], [u8; 4])>,
    /// IPv6 address.
    pub ip6: Option<[u8; 16]>,
    /// IPv6 prefix: address and length.
    pub ip6_prefix: Option<([u8; 16], u8)>,
    /// Ethernet address.
    pub ether: Option<EtherAddr>,
}

/// All names that configurations of one graph may use.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NameDb {
    /// (scope prefix without trailing slash, name) -> definition.
    defs: HashMap<(String, String), Named>,
    /// (scope prefix, name) -> port.
    ports: HashMap<(String, String), u16>,
    /// Annotations defined by AnnotationInfo; their names are not scoped.
    annotations: HashMap<String, AnnoField>,
}

impl NameDb {
    /// Only the built-in names.
    pub fn builtin() -> &'static NameDb {
        static EMPTY: OnceLock<NameDb> = OnceLock::new();
        EMPTY.get_or_init(NameDb::default)
    }

    /// The definition of `name` made by an element that stands in compound `scope` ("" for the top), to be filled in.
    pub fn define(&mut self, scope: &str, name: &str) -> &mut Named {
        self.defs
            .entry((scope.to_string(), name.to_string()))
            .or_default()
    }

    /// Looks a name up for element `element` (full name), innermost scope first.
    fn find<T>(&self, name: &str, element: &str, get: impl Fn(&Named) -> Option<T>) -> Option<T> {
        let mut scope = element.rsplit_once('/').map_or("", |(p, _)| p);
        loop {
            let key = (scope.to_string(), name.to_string());
            if let Some(v) = self.defs.get(&key).and_then(&get) {
                return Some(v);
            }
            if scope.is_empty() {
                return None;
            }
            scope = scope.rsplit_once('/').map_or("", |(p, _)| p);
        }
    }

    /// An IPv4 address: `name`, `name:ip`, `name:bcast` (of its prefix), `name:gw`.
    pub fn ip4(&self, name: &str, element: &str) -> Option<[u8; 4]> {
        let (base, suffix) = name.rsplit_once(':').unwrap_or((name, ""));
        match suffix.to_ascii_lowercase().as_str() {
            "" if !name.contains(':') => self.find(name, element, |d| d.ip4),
            "ip" | "ip4" => self.find(base, element, |d| d.ip4),
            "bcast" => {
                let (a, m) = self.find(base, element, |d| d.ip4_prefix)?;
                Some((u32::from_be_bytes(a) | !u32::from_be_bytes(m)).to_be_bytes())
            }
            "gw" => self.find(name, element, |d| d.ip4).or_else(|| {
                let (a, m) = self.find(base, element, |d| d.ip4_prefix)?;
                Some((u32::from_be_bytes(a) & u32::from_be_bytes(m) | 1).to_be_bytes())
            }),
            _ => None,
        }
    }
    /// An IPv4 prefix: `name`, `name:ipnet`, `name:ip4net`.
    pub fn ip4_prefix(&self, name: &str, element: &str) -> Option<([u8; 4], [u8; 4])> {
        let base = strip_suffix(name, &["ipnet", "ip4net"])?;
        self.find(base, element, |d| d.ip4_prefix)
    }
    /// An IPv6 address: `name`, `name:ip6`.
    pub fn ip6(&self, name: &str, element: &str) -> Option<[u8; 16]> {
        let base = strip_suffix(name, &["ip6"])?;
        self.find(base, element, |d| d.ip6)
    }
    /// An IPv6 prefix: `name`, `name:ip6net`.
    pub fn ip6_prefix(&self, name: &str, element: &str) -> Option<([u8; 16], u8)> {
        let base = strip_suffix(name, &["ip6net"])?;
        self.find(base, element, |d| d.ip6_prefix)
    }
    /// An Ethernet address: `name`, `name:eth`, `name:ethernet`.
    pub fn ether(&self, name: &str, element: &str) -> Option<EtherAddr> {
        let base = strip_suffix(name, &["eth", "ethernet"])?;
        self.find(base, element, |d| d.ether)
    }

    /// A TCP or UDP service name's port. A fixed table: configurations mean the same on every machine.
    pub fn service(&self, name: &str) -> Option<u16> {
        SERVICES.iter().find(|(n, _)| *n == name).map(|(_, p)| *p)
    }

    /// Defines a TCP or UDP port's name for compound `scope` (PortInfo).
    pub fn define_port(&mut self, scope: &str, name: &str, port: u16) {
        self.ports
            .insert((scope.to_string(), name.to_string()), port);
    }
    /// A port's name for element `element`: what PortInfo defined, innermost scope first, else a service.
    pub fn port(&self, name: &str, element: &str) -> Option<u16> {
        let mut scope = element.rsplit_once('/').map_or("", |(p, _)| p);
        while !self.ports.is_empty() {
            let key = (scope.to_string(), name.to_string());
            if let Some(p) = self.ports.get(&key) {
                return Some(*p);
            }
            if scope.is_empty() {
                break;
            }
            scope = scope.rsplit_once('/').map_or("", |(p, _)| p);
        }
        self.service(name)
    }

    /// Defines an annotation's name from the words behind it: an offset or another annotation, and perhaps a size.
    ///
    /// # Errors
    /// A text that says what is wrong.
    pub fn define_annotation(&mut self, name: &str, words: &[&str]) -> Result<(), String> {
        if self.annotation(name).is_some() || name.parse::<u32>().is_ok() {
            return Err(format!("bad NAME '{name}'"));
        }
        let bad = || format!("bad entry for '{name}', expected 'NAME OFFSET [SIZE]'");
        let (base, size) = match words {
            [offset] => (*offset, None),
            [offset, size] => (*offset, Some(size.parse::<u8>().map_err(|_| bad())?)),
            _ => return Err(bad()),
        };
        let field = match (self.annotation(base), base.parse::<u8>()) {
            (Some(f), _) if size.is_none_or(|s| s == 0 || s == f.size) => f,
            (None, Ok(offset)) => AnnoField {
                offset,
                size: size.unwrap_or(0),
            },
            _ => return Err(bad()),
        };
        if usize::from(field.offset) + usize::from(field.size) > 48 {
            return Err(bad());
        }
        self.annotations.insert(name.to_string(), field);
        Ok(())
    }

    /// An IP protocol's number. A fixed table, as for [`NameDb::service`].
    pub fn ip_protocol(&self, name: &str) -> Option<u8> {
        IP_PROTOCOLS
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, p)| *p)
    }

    /// A named annotation.
    pub fn annotation(&self, name: &str) -> Option<AnnoField> {
        if let Some(f) = self.annotations.get(name) {
            return Some(*f);
        }
        ANNOTATIONS
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, f)| *f)
    }
}

/// The name without one of these `:suffix`es; `None` when it has another one.
fn strip_suffix<'a>(name: &'a str, allowed: &[&str]) -> Option<&'a str> {
    match name.rsplit_once(':') {
        None => Some(name),
        Some((base, s)) => allowed
            .iter()
            .any(|a| a.eq_ignore_ascii_case(s))
            .then_some(base),
    }
}

#[rustfmt::skip]
const ANNOTATIONS: &[(&str, AnnoField)] = &[
    ("AGGREGATE", anno_field::AGGREGATE), ("DST_IP", anno_field::DST_IP), ("DST_IP6", anno_field::DST_IP6),
    ("EXTRA_LENGTH", anno_field::EXTRA_LENGTH), ("EXTRA_PACKETS", anno_field::EXTRA_PACKETS),
    ("FIRST_TIMESTAMP", anno_field::FIRST_TIMESTAMP), ("FIX_IP_SRC", anno_field::FIX_IP_SRC),
    ("FWD_RATE", anno_field::FWD_RATE), ("ICMP_PARAMPROB", anno_field::ICMP_PARAMPROB),
    ("IPSEC_SPI", anno_field::IPSEC_SPI), ("MISC_IP", anno_field::MISC_IP),
    ("PACKET_NUMBER", anno_field::PACKET_NUMBER), ("PAINT", anno_field::PAINT), ("PERFCTR", anno_field::PERFCTR),
    ("REV_RATE", anno_field::REV_RATE), ("SEQUENCE_NUMBER", anno_field::SEQUENCE_NUMBER),
    ("VLAN", anno_field::VLAN_TCI), ("VLAN_TCI", anno_field::VLAN_TCI),
];

#[rustfmt::skip]
const SERVICES: &[(&str, u16)] = &[
    ("echo", 7), ("discard", 9), ("daytime", 13), ("chargen", 19), ("ftp-data", 20), ("ftp", 21), ("ssh", 22),
    ("telnet", 23), ("smtp", 25), ("time", 37), ("whois", 43), ("domain", 53), ("dns", 53), ("bootps", 67),
    ("bootpc", 68), ("tftp", 69), ("gopher", 70), ("finger", 79), ("http", 80), ("www", 80), ("kerberos", 88),
    ("pop2", 109), ("pop3", 110), ("sunrpc", 111), ("portmap", 111), ("auth", 113), ("sftp", 115), ("nntp", 119),
    ("ntp", 123), ("netbios-ns", 137), ("netbios-dgm", 138), ("netbios-ssn", 139), ("imap2", 143), ("imap", 143),
    ("snmp", 161), ("snmp-trap", 162), ("irc", 194), ("bgp", 179), ("ldap", 389), ("https", 443), ("syslog", 514),
    ("rip", 520), ("route", 520), ("imap3", 220), ("pptp", 1723), ("ldaps", 636), ("imaps", 993), ("pop3s", 995), ("nfs", 2049), ("mysql", 3306), ("x11", 6000),
];

#[rustfmt::skip]
const IP_PROTOCOLS: &[(&str, u8)] = &[
    ("ip", 0), ("hopopt", 0), ("icmp", 1), ("igmp", 2), ("ggp", 3), ("ipip", 4), ("ipencap", 4), ("st", 5), ("tcp", 6),
    ("egp", 8), ("igp", 9), ("pup", 12), ("udp", 17), ("hmp", 20), ("xns-idp", 22), ("rdp", 27), ("iso-tp4", 29),
    ("dccp", 33), ("xtp", 36), ("ddp", 37), ("idpr-cmtp", 38), ("ipv6", 41), ("ipv6-route", 43), ("ipv6-frag", 44),
    ("idrp", 45), ("rsvp", 46), ("gre", 47), ("esp", 50), ("ah", 51), ("skip", 57), ("ipv6-icmp", 58), ("icmp6", 58),
    ("ipv6-nonxt", 59), ("ipv6-opts", 60), ("rspf", 73), ("vmtp", 81), ("eigrp", 88), ("ospf", 89), ("ax.25", 93),
    ("etherip", 97), ("encap", 98), ("pim", 103), ("ipcomp", 108), ("vrrp", 112), ("l2tp", 115), ("isis", 124),
    ("sctp", 132), ("fc", 133), ("udplite", 136), ("mpls-in-ip", 137), ("manet", 138), ("hip", 139), ("shim6", 140),
    ("wesp", 141), ("rohc", 142),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scopes_and_suffixes() {
        let mut db = NameDb::default();
        db.define("", "net").ip4_prefix = Some(([10, 1, 2, 0], [255, 255, 255, 0]));
        db.define("", "me").ip4 = Some([1, 1, 1, 1]);
        db.define("a/b", "me").ip4 = Some([2, 2, 2, 2]);
        assert_eq!(db.ip4("me", "a/b/x"), Some([2, 2, 2, 2]));
        assert_eq!(db.ip4("me", "a/x"), Some([1, 1, 1, 1]));
        assert_eq!(db.ip4("net:bcast", "x"), Some([10, 1, 2, 255]));
        assert_eq!(db.ip4("net:gw", "x"), Some([10, 1, 2, 1]));
        assert_eq!(db.ip4("net:eth", "x"), None);
        assert_eq!(db.service("http"), Some(80));
        assert_eq!(db.ip_protocol("ospf"), Some(89));
        assert_eq!(db.ip_protocol("nonsense"), None);
    }
}
