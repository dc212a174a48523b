//! Pieces of filter expressions that importers have in common: addresses, protocols, ICMP types, TCP flags.

use std::net::IpAddr;

/// IPFilter's language, or IP6Filter's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

/// A range of addresses as numbers, both ends included.
pub type Range = (u128, u128);

impl Family {
    /// Address bits.
    pub fn bits(self) -> u32 {
        match self {
            Family::V4 => 32,
            Family::V6 => 128,
        }
    }

    /// The largest address.
    pub fn max(self) -> u128 {
        match self {
            Family::V4 => u128::from(u32::MAX),
            Family::V6 => u128::MAX,
        }
    }

    /// Reads an address of this family.
    pub fn address(self, s: &str) -> Result<u128, String> {
        match (self, s.trim().parse::<IpAddr>()) {
            (Family::V4, Ok(IpAddr::V4(a))) => Ok(u128::from(u32::from(a))),
            (Family::V6, Ok(IpAddr::V6(a))) => Ok(u128::from(a)),
            _ => Err(format!("'{s}' is no {} address", self.name())),
        }
    }

    /// `IPv4`
    pub fn name(self) -> &'static str {
        match self {
            Family::V4 => "IPv4",
            Family::V6 => "IPv6",
        }
    }

    /// Reads `ADDRESS`, `ADDRESS/LENGTH` or `ADDRESS/MASK`.
    pub fn prefix(self, s: &str) -> Result<Range, String> {
        let (a, l) = match s.split_once('/') {
            Some((a, l)) => (a, Some(l)),
            None => (s, None),
        };
        let address = self.address(a)?;
        let len = match l {
            None => self.bits(),
            Some(l) => match l.parse::<u32>() {
                Ok(n) if n <= self.bits() => n,
                Ok(_) => {
                    let bits = self.bits();
                    return Err(format!("`{s}`: a prefix is at most {bits} bits long"));
                }
                Err(_) => {
                    let mask = self.address(l).map_err(|_| format!("mask '{l}'"))?;
                    let inverse = !mask & self.max();
                    // ones, then zeros: the inverse plus one is a power of two
                    if inverse & inverse.wrapping_add(1) != 0 {
                        return Err(format!("mask '{l}' with holes"));
                    }
                    self.bits() - inverse.count_ones()
                }
            },
        };
        Ok(self.range(address, len))
    }

    /// The addresses of a prefix.
    pub fn range(self, address: u128, len: u32) -> Range {
        let host = match self.bits() - len.min(self.bits()) {
            0 => 0,
            n => u128::MAX >> (128 - n),
        };
        (address & !host & self.max(), (address | host) & self.max())
    }

    /// A test for an address in one of these ranges; `way` is `src` or `dst`. `None`: any address.
    pub fn address_test(self, way: &str, ranges: &[Range]) -> Option<String> {
        let mut all = Vec::new();
        for (lo, hi) in ranges {
            for (a, len) in self.prefixes(*lo, *hi) {
                match len {
                    0 => return None,
                    l if l == self.bits() => all.push(format!("{way} host {}", self.text(a))),
                    l => all.push(format!("{way} net {}/{l}", self.text(a))),
                }
            }
        }
        match all.len() {
            0 => Some("false".into()),
            1 => all.into_iter().next(),
            _ => Some(format!("({})", all.join(" or "))),
        }
    }

    fn text(self, a: u128) -> String {
        match self {
            Family::V4 => std::net::Ipv4Addr::from(a as u32).to_string(),
            Family::V6 => std::net::Ipv6Addr::from(a).to_string(),
        }
    }

    /// The fewest prefixes that are a range: at most two per bit.
    fn prefixes(self, lo: u128, hi: u128) -> Vec<(u128, u32)> {
        let mut out = Vec::new();
        let mut at = lo;
        while at <= hi {
            // the largest block that begins at `at` and does not go beyond `hi`
            let mut host = if at == 0 {
                self.bits()
            } else {
                at.trailing_zeros().min(self.bits())
            };
            while host > 0 && self.range(at, self.bits() - host).1 > hi {
                host -= 1;
            }
            let (_, end) = self.range(at, self.bits() - host);
            out.push((at, self.bits() - host));
            match end.checked_add(1) {
                Some(next) if end < hi => at = next,
                _ => break,
            }
        }
        out
    }

    /// A test for a protocol.
    pub fn protocol_test(self, number: u8) -> String {
        match (self, number) {
            (_, 6) => "tcp".into(),
            (_, 17) => "udp".into(),
            (Family::V4, 1) => "icmp".into(),
            (Family::V6, 58) => "icmp6".into(),
            (_, n) => format!("ip proto {n}"),
        }
    }

    /// The number of this family's ICMP.
    pub fn icmp(self) -> u8 {
        match self {
            Family::V4 => 1,
            Family::V6 => 58,
        }
    }

    /// The expressions' name for this family's ICMP.
    pub fn icmp_word(self) -> &'static str {
        match self {
            Family::V4 => "icmp",
            Family::V6 => "icmp6",
        }
    }
}

/// Protocols that are often named.
const PROTOCOLS: &[&str] = &[
    "tcp", "udp", "icmp", "icmpv6", "sctp", "gre", "esp", "ah", "all",
];
/// The flags of TCP.
const TCP_FLAGS: &[&str] = &["FIN", "SYN", "RST", "PSH", "ACK", "URG", "ALL", "NONE"];

/// What is said of a name that is none of these.
pub fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a str>) -> String {
    let text = format!("`{name}` is no {what}");
    match onefold_click::suggest::did_you_mean(name, known) {
        Some(hint) => format!("{text}; {hint}"),
        None => text,
    }
}

/// The number of a protocol, by name or number; `all` and `0` are no protocol in particular.
pub fn protocol(s: &str) -> Result<Option<u8>, String> {
    if let Ok(n) = s.parse::<u8>() {
        return Ok((n != 0).then_some(n));
    }
    let n = match s.to_ascii_lowercase().as_str() {
        "all" => return Ok(None),
        "icmp" => 1,
        "igmp" => 2,
        "ipencap" | "ipip" | "ipv4" => 4,
        "tcp" => 6,
        "egp" => 8,
        "udp" => 17,
        "dccp" => 33,
        "ipv6" => 41,
        "rsvp" => 46,
        "gre" => 47,
        "esp" => 50,
        "ah" => 51,
        "icmpv6" | "ipv6-icmp" => 58,
        "eigrp" => 88,
        "ospf" | "ospfigp" => 89,
        "pim" => 103,
        "ipcomp" | "comp" => 108,
        "vrrp" => 112,
        "l2tp" => 115,
        "sctp" => 132,
        "udplite" => 136,
        _ => return Err(unknown("protocol", s, PROTOCOLS.iter().copied())),
    };
    Ok(Some(n))
}

/// Services that are often named.
const SERVICES: &[&str] = &[
    "ssh",
    "telnet",
    "smtp",
    "domain",
    "http",
    "www",
    "pop3",
    "ntp",
    "imap",
    "snmp",
    "https",
    "syslog",
    "submission",
];

/// The number of a service that rule files give by name.
pub fn service(s: &str) -> Result<u16, String> {
    if let Ok(n) = s.parse::<u16>() {
        return Ok(n);
    }
    Ok(match s {
        "ftp-data" => 20,
        "ftp" => 21,
        "ssh" => 22,
        "telnet" => 23,
        "smtp" => 25,
        "domain" => 53,
        "bootps" => 67,
        "bootpc" => 68,
        "tftp" => 69,
        "http" | "www" => 80,
        "kerberos" => 88,
        "pop3" => 110,
        "sunrpc" => 111,
        "auth" => 113,
        "nntp" => 119,
        "ntp" => 123,
        "netbios-ns" => 137,
        "netbios-dgm" => 138,
        "netbios-ssn" => 139,
        "imap" | "imap2" => 143,
        "snmp" => 161,
        "snmp-trap" | "snmptrap" => 162,
        "bgp" => 179,
        "ldap" => 389,
        "https" => 443,
        "microsoft-ds" => 445,
        "isakmp" => 500,
        "syslog" => 514,
        "smtps" | "submissions" => 465,
        "login" => 513,
        "dhcpv6-client" => 546,
        "dhcpv6-server" => 547,
        "rtsp" => 554,
        "submission" => 587,
        "ipp" => 631,
        "ldaps" => 636,
        "domain-s" => 853,
        "rsync" => 873,
        "ftps" => 990,
        "imaps" => 993,
        "pop3s" => 995,
        "openvpn" => 1194,
        "ms-sql-s" => 1433,
        "radius" => 1812,
        "nfs" => 2049,
        "mysql" => 3306,
        "sip" => 5060,
        "mdns" => 5353,
        "llmnr" => 5355,
        "postgresql" => 5432,
        "ircd" => 6667,
        "http-alt" => 8080,
        _ if s.bytes().all(|b| b.is_ascii_digit()) && !s.is_empty() => {
            return Err(format!("`{s}`: a port is at most 65535"));
        }
        _ => return Err(unknown("port or service", s, SERVICES.iter().copied())),
    })
}

/// ICMP types by the names that iptables and nftables have in common: type, and the code if the name stands for one.
const ICMP4: &[(&str, u8, Option<u8>)] = &[
    ("echo-reply", 0, None),
    ("pong", 0, None),
    ("destination-unreachable", 3, None),
    ("network-unreachable", 3, Some(0)),
    ("host-unreachable", 3, Some(1)),
    ("protocol-unreachable", 3, Some(2)),
    ("port-unreachable", 3, Some(3)),
    ("fragmentation-needed", 3, Some(4)),
    ("source-route-failed", 3, Some(5)),
    ("communication-prohibited", 3, Some(13)),
    ("source-quench", 4, None),
    ("redirect", 5, None),
    ("network-redirect", 5, Some(0)),
    ("host-redirect", 5, Some(1)),
    ("echo-request", 8, None),
    ("ping", 8, None),
    ("router-advertisement", 9, None),
    ("router-solicitation", 10, None),
    ("time-exceeded", 11, None),
    ("ttl-exceeded", 11, None),
    ("ttl-zero-during-transit", 11, Some(0)),
    ("ttl-zero-during-reassembly", 11, Some(1)),
    ("parameter-problem", 12, None),
    ("timestamp-request", 13, None),
    ("timestamp-reply", 14, None),
    ("info-request", 15, None),
    ("info-reply", 16, None),
    ("address-mask-request", 17, None),
    ("address-mask-reply", 18, None),
];
const ICMP6: &[(&str, u8, Option<u8>)] = &[
    ("destination-unreachable", 1, None),
    ("no-route", 1, Some(0)),
    ("communication-prohibited", 1, Some(1)),
    ("address-unreachable", 1, Some(3)),
    ("port-unreachable", 1, Some(4)),
    ("packet-too-big", 2, None),
    ("time-exceeded", 3, None),
    ("ttl-exceeded", 3, None),
    ("parameter-problem", 4, None),
    ("echo-request", 128, None),
    ("ping", 128, None),
    ("echo-reply", 129, None),
    ("pong", 129, None),
    ("mld-listener-query", 130, None),
    ("mld-listener-report", 131, None),
    ("mld-listener-done", 132, None),
    ("mld-listener-reduction", 132, None),
    ("nd-router-solicit", 133, None),
    ("router-solicitation", 133, None),
    ("nd-router-advert", 134, None),
    ("router-advertisement", 134, None),
    ("nd-neighbor-solicit", 135, None),
    ("neighbour-solicitation", 135, None),
    ("neighbor-solicitation", 135, None),
    ("nd-neighbor-advert", 136, None),
    ("neighbour-advertisement", 136, None),
    ("neighbor-advertisement", 136, None),
    ("nd-redirect", 137, None),
    ("redirect", 137, None),
    ("mld2-listener-report", 143, None),
];

/// An ICMP type, by name or number, and the code that a name may stand for.
pub fn icmp_type(family: Family, s: &str) -> Result<(u8, Option<u8>), String> {
    if let Ok(n) = s.parse::<u8>() {
        return Ok((n, None));
    }
    let names = match family {
        Family::V4 => ICMP4,
        Family::V6 => ICMP6,
    };
    names
        .iter()
        .find(|x| x.0 == s)
        .map(|x| (x.1, x.2))
        .ok_or_else(|| unknown("ICMP type", s, names.iter().map(|x| x.0)))
}

/// Codes of messages about what is unreachable, by the names that nftables has for them.
pub fn icmp_code(family: Family, s: &str) -> Result<u32, String> {
    Ok(match (family, s) {
        (Family::V4, "net-unreachable") => 0,
        (Family::V4, "host-unreachable") => 1,
        (Family::V4, "prot-unreachable") => 2,
        (Family::V4, "port-unreachable") => 3,
        (Family::V4, "frag-needed") => 4,
        (Family::V4, "net-prohibited") => 9,
        (Family::V4, "host-prohibited") => 10,
        (Family::V4, "admin-prohibited") => 13,
        (Family::V6, "no-route") => 0,
        (Family::V6, "admin-prohibited") => 1,
        (Family::V6, "addr-unreachable") => 3,
        (Family::V6, "port-unreachable") => 4,
        (Family::V6, "policy-fail") => 5,
        (Family::V6, "reject-route") => 6,
        (_, s) => s
            .parse::<u8>()
            .map_err(|_| format!("ICMP code '{s}'"))?
            .into(),
    })
}

/// TCP flags by name: their bits.
pub fn tcp_flag(s: &str) -> Result<u32, String> {
    Ok(match s.to_ascii_lowercase().as_str() {
        "fin" => 0x01,
        "syn" => 0x02,
        "rst" => 0x04,
        "psh" => 0x08,
        "ack" => 0x10,
        "urg" => 0x20,
        "ecn" | "ece" => 0x40,
        "cwr" => 0x80,
        "all" => 0x3f,
        "none" => 0,
        _ => return Err(unknown("TCP flag", s, TCP_FLAGS.iter().copied())),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prefixes_and_ranges() {
        let f = Family::V4;
        let t = |lo: &str, hi: &str| {
            f.address_test("src", &[(f.address(lo).unwrap(), f.address(hi).unwrap())])
        };
        assert_eq!(t("10.0.0.0", "10.0.0.255").unwrap(), "src net 10.0.0.0/24");
        assert_eq!(
            t("10.0.0.1", "10.0.0.6").unwrap(),
            "(src host 10.0.0.1 or src net 10.0.0.2/31 or src net 10.0.0.4/31 or src host 10.0.0.6)"
        );
        assert_eq!(t("0.0.0.0", "255.255.255.255"), None);
        assert_eq!(
            t("255.255.255.254", "255.255.255.255").unwrap(),
            "src net 255.255.255.254/31"
        );
        let r = |s: &str| f.address_test("dst", &[f.prefix(s).unwrap()]);
        assert_eq!(r("10.1.2.3/8").unwrap(), "dst net 10.0.0.0/8");
        assert_eq!(r("10.1.2.3/255.255.0.0").unwrap(), "dst net 10.1.0.0/16");
        assert_eq!(r("10.1.2.3").unwrap(), "dst host 10.1.2.3");
        assert_eq!(r("10.1.2.3/0"), None);
        assert!(
            f.prefix("10.0.0.0/255.0.255.0")
                .unwrap_err()
                .contains("holes")
        );
        assert!(f.prefix("10.0.0.0/33").is_err() && f.prefix("::1").is_err());
        let six = Family::V6;
        assert_eq!(
            six.address_test("src", &[six.prefix("2001:db8::/32").unwrap()])
                .unwrap(),
            "src net 2001:db8::/32"
        );
        assert_eq!(six.address_test("src", &[(0, u128::MAX)]), None);
        assert_eq!(
            six.address_test("src", &[(0, 1)]).unwrap(),
            "src net ::/127"
        );
    }

    #[test]
    fn names() {
        assert_eq!(icmp_type(Family::V4, "port-unreachable"), Ok((3, Some(3))));
        assert_eq!(icmp_type(Family::V6, "echo-request"), Ok((128, None)));
        assert!(icmp_type(Family::V6, "source-quench").is_err());
        let code = |f| icmp_code(f, "port-unreachable");
        assert_eq!((code(Family::V4), code(Family::V6)), (Ok(3), Ok(4)));
        assert_eq!(icmp_code(Family::V6, "no-route"), Ok(0));
        assert_eq!(icmp_code(Family::V4, "17"), Ok(17));
        assert!(icmp_code(Family::V4, "no-route").is_err());
        assert_eq!(
            (protocol("ospf"), protocol("0"), protocol("all")),
            (Ok(Some(89)), Ok(None), Ok(None))
        );
        assert!(protocol("x").is_err() && service("x").is_err() && tcp_flag("x").is_err());
        assert_eq!(service("https"), Ok(443));
    }
}
