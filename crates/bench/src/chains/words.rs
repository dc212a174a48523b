//! The small pools that the values of random chains come from.

use crate::rng::Rng;

/// Hosts on the inside, at the chain's left end.
pub(super) const HOSTS: &[&str] = &["10.0.0.2", "10.0.0.5", "10.0.0.9", "10.0.1.7", "10.1.2.3"];
/// Servers on the right.
pub(super) const SERVERS: &[&str] = &["172.16.3.1", "172.16.3.2", "172.16.3.3", "172.16.9.9"];
/// Others on the right.
pub(super) const PEERS: &[&str] = &["198.51.100.7", "198.51.100.77", "192.0.2.130", "8.8.8.8"];
/// Addresses that a balancer answers for.
pub(super) const VIRTUAL: &[&str] = &["198.18.0.80", "198.18.0.81"];
/// Networks.
pub(super) const NETS: &[&str] = &[
    "10.0.0.0/8",
    "10.0.0.0/24",
    "10.0.1.0/24",
    "10.0.0.0/30",
    "172.16.0.0/16",
    "172.16.3.0/31",
    "203.0.113.0/24",
    "203.0.113.4/30",
    "198.18.0.0/15",
    "198.51.100.0/24",
    "0.0.0.0/0",
    "192.0.2.0/25",
];
/// Ports.
pub(super) const PORTS: &[u16] = &[22, 53, 80, 443, 5000, 8080];
/// IPv6 hosts.
pub(super) const HOSTS6: &[&str] = &[
    "2001:db8::5",
    "2001:db8::9",
    "2001:db8:1::7",
    "2001:db8:ffff::2",
];
/// IPv6 networks.
pub(super) const NETS6: &[&str] = &[
    "2001:db8::/32",
    "2001:db8::/64",
    "2001:db8:1::/48",
    "2001:db8:ffff::/48",
    "2000::/3",
];

/// One of them.
pub(super) fn pick<'a>(rng: &mut Rng, from: &[&'a str]) -> &'a str {
    rng.pick(from).copied().unwrap_or("")
}

/// True once in `n`.
pub(super) fn one_in(rng: &mut Rng, n: u64) -> bool {
    rng.below(n) == 0
}

/// A port.
pub(super) fn port(rng: &mut Rng) -> u16 {
    match one_in(rng, 8) {
        true => rng.between(1, 65_535) as u16,
        false => rng.pick(PORTS).copied().unwrap_or(80),
    }
}
