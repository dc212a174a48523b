//! One function's namespace: what is set there, and the operator's rules and routes.

use crate::KernelError;
use crate::commands::{self, own_ip, settings};
use onefold_chain::import::{Family, RouteKind, RuleFormat};
use onefold_chain::kernel::{KERNEL_SECONDS, KernelNat, KernelRoute};
use onefold_chain::kernel::{KernelFirewall, KernelForm, KernelFunction, KernelRouter};
use onefold_nf::NetSpace;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Settings before there are interfaces. The kernel forwards, says nothing of its own accord, and answers as often as
/// there is a reason to.
const BEFORE: &[(&str, &str)] = &[
    ("net/ipv4/ip_forward", "1"),
    ("net/ipv4/conf/all/rp_filter", "0"),
    ("net/ipv4/conf/default/rp_filter", "0"),
    ("net/ipv4/conf/all/send_redirects", "0"),
    ("net/ipv4/conf/default/send_redirects", "0"),
    // what comes in a frame for all is for no host of its own (RFC 1122 3.3.6), as Onefold's router has it
    ("net/ipv4/conf/all/drop_unicast_in_l2_multicast", "1"),
    ("net/ipv6/conf/default/drop_unicast_in_l2_multicast", "1"),
    ("net/ipv4/icmp_ratelimit", "0"),
    // or each error takes the source's budget for those about packets that have no way, too
    ("net/ipv4/icmp_ratemask", "0"),
    ("net/ipv4/icmp_msgs_per_sec", "1000000"),
    ("net/ipv4/icmp_msgs_burst", "1000000"),
    ("net/ipv6/icmp/ratelimit", "0"),
    ("net/ipv6/icmp/error_anycast_as_unicast", "1"),
    ("net/ipv6/conf/all/forwarding", "1"),
    ("net/ipv6/conf/default/forwarding", "1"),
    ("net/ipv6/conf/default/accept_ra", "0"),
    ("net/ipv6/conf/default/autoconf", "0"),
    ("net/ipv6/conf/default/router_solicitations", "0"),
    ("net/ipv6/conf/default/dad_transmits", "0"),
    ("net/ipv6/conf/default/accept_dad", "0"),
    // as Onefold's router answers
    ("net/ipv6/conf/default/hop_limit", "254"),
    ("net/ipv6/auto_flowlabels", "0"),
    // no address of the link: then there are no reports of groups, and no redirects
    ("net/ipv6/conf/default/addr_gen_mode", "1"),
];

/// Of a firewall, too: what comes in at one interface goes out at the other, whatever its addresses, and what the
/// kernel answers goes back to where the packet came from.
const PASSING: &[(&str, &str)] = &[
    ("net/ipv4/conf/all/route_localnet", "1"),
    ("net/ipv4/conf/default/route_localnet", "1"),
    ("net/ipv4/conf/all/accept_local", "1"),
    ("net/ipv4/conf/default/accept_local", "1"),
    ("net/ipv4/fwmark_reflect", "1"),
    ("net/ipv6/fwmark_reflect", "1"),
];

/// Of a firewall that tracks connections. They stay as long as in the chain; sequence numbers are not held against
/// windows, as Onefold does not.
const TRACKING: &[&str] = &[
    "tcp_timeout_syn_sent",
    "tcp_timeout_syn_recv",
    "tcp_timeout_established",
    "tcp_timeout_fin_wait",
    "tcp_timeout_close_wait",
    "tcp_timeout_last_ack",
    "tcp_timeout_time_wait",
    "tcp_timeout_close",
    "tcp_timeout_max_retrans",
    "tcp_timeout_unacknowledged",
    "udp_timeout",
    "udp_timeout_stream",
    "icmp_timeout",
    "icmpv6_timeout",
    "generic_timeout",
    "gre_timeout",
    "gre_timeout_stream",
];
/// Its habits.
const TRACKS: &[(&str, &str)] = &[
    ("net/netfilter/nf_conntrack_tcp_be_liberal", "1"),
    ("net/netfilter/nf_conntrack_tcp_ignore_invalid_rst", "1"),
    ("net/netfilter/nf_conntrack_tcp_loose", "1"),
    ("net/netfilter/nf_conntrack_checksum", "1"),
];

/// Marks of packets by the interface that they came in at. High, out of the way of those that rules use.
const MARKS: [u32; 2] = [0x4f00_0000, 0x4f00_0001];
/// Addresses that a firewall's answers come from: of the range for benchmarks, and for documentation.
const ANSWERS: [&str; 2] = ["198.18.255.1/32", "2001:db8:ffff::1/128"];

/// Names of a function's interfaces, by port.
///
/// # Errors
/// One of them cannot be an interface's.
pub(crate) fn names(f: &KernelFunction) -> Result<Vec<String>, KernelError> {
    let names: Vec<String> = match &f.form {
        KernelForm::Firewall(w) => {
            let usual = ["in0", "out0"];
            let name = |(n, u): (&Option<String>, &str)| n.clone().unwrap_or_else(|| u.to_string());
            w.interfaces.iter().zip(usual).map(name).collect()
        }
        KernelForm::Router(r) => {
            let name = |(n, i): (usize, &onefold_chain::kernel::KernelInterface)| {
                i.name.clone().unwrap_or_else(|| format!("port{n}"))
            };
            r.interfaces.iter().enumerate().map(name).collect()
        }
    };
    let bad = |n: &&String| {
        n.is_empty() || n.len() > 15 || n.contains(['/', ' ', ':', '"']) || *n == "." || *n == ".."
    };
    match names.iter().find(bad) {
        Some(name) => Err(KernelError::Name {
            function: f.name.clone(),
            name: name.clone(),
        }),
        None => Ok(names),
    }
}

/// Before there are interfaces.
///
/// # Errors
/// The system refuses it.
pub(crate) fn before(f: &KernelFunction, space: &Arc<NetSpace>) -> Result<(), KernelError> {
    settings(space, BEFORE)?;
    if matches!(f.form, KernelForm::Firewall(_)) {
        settings(space, PASSING)?;
    }
    own_ip(&f.name, space, false, &["link set lo up".to_string()])
}

/// When its interfaces are there and up.
///
/// # Errors
/// The kernel, or one of its tools, refuses something: what, and why.
pub(crate) fn configure(
    f: &KernelFunction,
    space: &Arc<NetSpace>,
    names: &[String],
) -> Result<(), KernelError> {
    match &f.form {
        KernelForm::Firewall(w) => {
            let [inside, outside] = names else {
                return Ok(());
            };
            match &w.translates {
                None => passing(f, space, [inside, outside])?,
                Some(nat) => routing(f, space, [inside, outside], nat)?,
            }
            let groups = [(inside, w.groups[0]), (outside, w.groups[1])];
            let groups = groups.into_iter().filter(|(_, g)| *g > 0);
            let lines = groups.map(|(name, g)| format!("link set dev {name} group {g}"));
            own_ip(&f.name, space, false, &lines.collect::<Vec<_>>())?;
            sets(f, w, space)?;
            rules(f, w, space)?;
            if w.tracks {
                let seconds = KERNEL_SECONDS.to_string();
                let names = TRACKING.iter();
                let names = names.map(|n| format!("net/netfilter/nf_conntrack_{n}"));
                let names: Vec<String> = names.collect();
                let all: Vec<(&str, &str)> = (names.iter())
                    .map(|n| (n.as_str(), seconds.as_str()))
                    .collect();
                settings(space, &all)?;
                settings(space, TRACKS)?;
            }
            own_table(f, space, [inside, outside], w)
        }
        KernelForm::Router(r) => routes(f, r, space, names),
    }
}

/// In at one interface, out at the other.
fn passing(
    f: &KernelFunction,
    space: &Arc<NetSpace>,
    [inside, outside]: [&str; 2],
) -> Result<(), KernelError> {
    for (v6, answers) in [(false, ANSWERS[0]), (true, ANSWERS[1])] {
        if v6 && !has_ipv6() {
            continue;
        }
        let lines = [
            format!("addr add {answers} dev lo"),
            format!("rule add pref 10 iif {inside} lookup 100"),
            format!("rule add pref 11 iif {outside} lookup 101"),
            format!("rule add pref 12 fwmark {} lookup 101", MARKS[0]),
            format!("rule add pref 13 fwmark {} lookup 100", MARKS[1]),
            "rule del pref 0".to_string(),
            "rule add pref 100 lookup local".to_string(),
            format!("route add default dev {outside} table 100"),
            format!("route add default dev {inside} table 101"),
        ];
        own_ip(&f.name, space, v6, &lines)?;
    }
    Ok(())
}

/// The same where addresses are translated: the router's own are there, and what goes to them is its own. What would go
/// back to where it came from goes nowhere, as in a chain.
fn routing(
    f: &KernelFunction,
    space: &Arc<NetSpace>,
    [inside, outside]: [&str; 2],
    nat: &KernelNat,
) -> Result<(), KernelError> {
    for v6 in [false, true] {
        if v6 && !has_ipv6() {
            continue;
        }
        let mut lines = vec![
            format!("rule add pref 10 iif {inside} lookup 100"),
            format!("rule add pref 11 iif {outside} lookup 101"),
            format!("route add default dev {outside} table 100"),
            format!("route add default dev {inside} table 101"),
        ];
        for (port, name, table) in [(0, inside, 100), (1, outside, 101)] {
            let mine = nat.addresses[port]
                .iter()
                .filter(|(a, _)| a.is_ipv6() == v6);
            let mut networks = Vec::new();
            for (a, len) in mine {
                // alone, so that no broadcast address comes with it
                let (all, quiet) = if v6 { (128, " nodad") } else { (32, "") };
                lines.push(format!("addr add {a}/{all} dev {name}{quiet}"));
                networks.push(format!("{}/{len}", network(*a, *len)));
            }
            networks.sort();
            networks.dedup();
            let back = |n: String| format!("route add blackhole {n} table {table}");
            lines.extend(networks.into_iter().map(back));
        }
        own_ip(&f.name, space, v6, &lines)?;
    }
    Ok(())
}

/// The network of an address.
fn network(a: IpAddr, len: u8) -> IpAddr {
    match a {
        IpAddr::V4(a) => {
            let hosts = u32::MAX.checked_shr(len.into()).unwrap_or(0);
            Ipv4Addr::from(u32::from(a) & !hosts).into()
        }
        IpAddr::V6(a) => {
            let hosts = u128::MAX.checked_shr(len.into()).unwrap_or(0);
            Ipv6Addr::from(u128::from(a) & !hosts).into()
        }
    }
}

/// Does this kernel have IPv6?
pub(crate) fn has_ipv6() -> bool {
    std::path::Path::new("/proc/sys/net/ipv6").exists()
}

/// Loads a firewall's rules anew, so that they have counted nothing.
///
/// # Errors
/// The kernel, or one of its tools, refuses them: what, and why.
pub(crate) fn anew(
    f: &KernelFunction,
    space: &Arc<NetSpace>,
    names: &[String],
) -> Result<(), KernelError> {
    let (KernelForm::Firewall(w), [inside, outside]) = (&f.form, names) else {
        return Ok(());
    };
    commands::tool(space, "nft", &["flush", "ruleset"], "")?.map_err(|said| {
        KernelError::Refused {
            function: f.name.clone(),
            tool: "nft".into(),
            what: "'flush ruleset'".into(),
            said,
        }
    })?;
    rules(f, w, space)?;
    own_table(f, space, [inside, outside], w)
}

/// The operator's sets, which rules name.
fn sets(f: &KernelFunction, w: &KernelFirewall, space: &Arc<NetSpace>) -> Result<(), KernelError> {
    let Some(sets) = &w.sets else {
        return Ok(());
    };
    let done = commands::tool(space, "ipset", &["restore"], sets)?;
    done.map_err(|said| KernelError::Refused {
        function: f.name.clone(),
        tool: "ipset".into(),
        what: "the sets".into(),
        said,
    })
}

/// The operator's rulesets.
fn rules(f: &KernelFunction, w: &KernelFirewall, space: &Arc<NetSpace>) -> Result<(), KernelError> {
    for r in &w.rules {
        let (tool, args): (&str, &[&str]) = match (r.format, r.family) {
            (RuleFormat::Nftables, _) if json(&r.text) => ("nft", &["-j", "-f", "-"]),
            (RuleFormat::Nftables, _) => ("nft", &["-f", "-"]),
            (_, Family::V4) => ("iptables-restore", &[]),
            (_, Family::V6) => ("ip6tables-restore", &[]),
        };
        commands::tool(space, tool, args, &r.text)?.map_err(|said| KernelError::Refused {
            function: f.name.clone(),
            tool: tool.into(),
            what: format!("'{}'", r.file),
            said,
        })?;
    }
    Ok(())
}

/// Is a ruleset of nftables in JSON, and not in nft's language?
fn json(text: &str) -> bool {
    text.trim_start().starts_with('{')
}

/// Behind any rule of an operator's at a hook.
const LAST: u32 = 1_000_000_000;

/// A table of our own around all others. Onefold's firewall is no router: what it passes has the TTL that it came with.
/// So the kernel's gets one more behind all rules at hook prerouting; forwarding takes it away before the hook forward.
/// Where addresses are translated, the kernel answers nothing itself: neither what is for it, nor a REJECT. Its answers
/// find their way by marks; where rules ask for marks, packets come without, and answers get lost.
fn own_table(
    f: &KernelFunction,
    space: &Arc<NetSpace>,
    [inside, outside]: [&str; 2],
    w: &KernelFirewall,
) -> Result<(), KernelError> {
    let silent = match w.translates.is_some() {
        true => {
            " chain input {\n  type filter hook input priority -450; policy drop;\n }\n \
             chain output {\n  type filter hook output priority -450; policy drop;\n }\n"
        }
        false => "",
    };
    let mut t = String::new();
    let marked = (w.rules.iter()).any(|r| r.text.to_ascii_lowercase().contains("mark"));
    let marks = match marked {
        true => String::new(),
        false => format!(
            "  iifname \"{inside}\" meta mark set {}\n  iifname \"{outside}\" meta mark set {}\n",
            MARKS[0], MARKS[1]
        ),
    };
    let begin = format!(
        " chain first {{\n  type filter hook prerouting priority -450; policy accept;\n{marks} }}\n \
         chain last {{\n  type filter hook prerouting priority {LAST}; policy accept;\n"
    );
    // of IPv4 no map can be asked for it: nft 1.0.6 refuses that
    t.push_str("table ip onefold {\n");
    for ttl in 0..255 {
        // writing to a String cannot fail
        let _ = writeln!(t, " chain ttl{ttl} {{ ip ttl set {}; }}", ttl + 1);
    }
    let cases = |make: fn(u32) -> String| (0..255).map(make).collect::<Vec<_>>().join(", ");
    let _ = writeln!(
        t,
        "{begin}  ip ttl vmap {{ {} }}\n }}\n{silent}}}",
        cases(|n| format!("{n} : jump ttl{n}"))
    );
    if has_ipv6() {
        let _ = writeln!(
            t,
            "table ip6 onefold {{\n map up {{\n  typeof ip6 hoplimit : ip6 hoplimit\n  elements = {{ {} }}\n }}\n\
             {begin}  ip6 hoplimit set ip6 hoplimit map @up\n }}\n{silent}}}",
            cases(|n| format!("{n} : {}", n + 1))
        );
    }
    commands::tool(space, "nft", &["-f", "-"], &t)?.map_err(|said| KernelError::Refused {
        function: f.name.clone(),
        tool: "nft".into(),
        what: "the table that keeps the TTL".into(),
        said,
    })
}

/// Addresses and routes.
fn routes(
    f: &KernelFunction,
    r: &KernelRouter,
    space: &Arc<NetSpace>,
    names: &[String],
) -> Result<(), KernelError> {
    for v6 in [false, true] {
        let addresses = r.interfaces.iter().zip(names).filter_map(|(i, name)| {
            let a = if v6 { &i.address6 } else { &i.address };
            let quiet = if v6 { " nodad" } else { "" };
            Some(format!("addr add {} dev {name}{quiet}", a.as_ref()?))
        });
        own_ip(&f.name, space, v6, &addresses.collect::<Vec<_>>())?;
    }
    for v6 in [false, true] {
        let mine =
            |route: &&KernelRoute| route.route.net.is_ipv6() == v6 && !is_own(&route.route, r);
        let mine: Vec<&KernelRoute> = r.routes.iter().filter(mine).collect();
        let lines: Vec<String> = mine.iter().map(|x| line(x, names)).collect();
        if let Err((at, said)) = commands::ip(space, v6, &lines)? {
            let what = match at.and_then(|n| Some((mine.get(n)?, lines.get(n)?))) {
                Some((route, line)) => format!("'{line}' ({}:{})", route.file, route.line),
                None => "the routes".to_string(),
            };
            return Err(KernelError::Refused {
                function: f.name.clone(),
                tool: "ip".into(),
                what,
                said,
            });
        }
    }
    Ok(())
}

/// What `ip route` prints of an interface's own network is there with the address.
fn is_own(route: &onefold_chain::import::Route, r: &KernelRouter) -> bool {
    if route.hop.via.is_some() || !route.more.is_empty() || route.kind != RouteKind::Unicast {
        return false;
    }
    let here = |address: &Option<String>| {
        let (a, l) = address.as_ref()?.split_once('/')?;
        Some((a.parse::<IpAddr>().ok()?, l.parse::<u8>().ok()?))
    };
    let interfaces = r.interfaces.iter();
    let mut all = interfaces.flat_map(|i| [here(&i.address), here(&i.address6)]);
    all.any(|x| x.is_some_and(|(a, l)| l == route.len && same_network(a, route.net, l)))
}

fn same_network(a: IpAddr, b: IpAddr, len: u8) -> bool {
    let bits = |a: IpAddr| match a {
        IpAddr::V4(a) => (u128::from(u32::from(a)) << 96, true),
        IpAddr::V6(a) => (u128::from(a), false),
    };
    let ((a, av4), (b, bv4)) = (bits(a), bits(b));
    let mask = u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0);
    av4 == bv4 && (a ^ b) & mask == 0
}

/// A line of `ip` for a route: what it does, its next hop, with an interface's name where its number was given, and
/// its metric, as the kernel is to choose among routes by itself.
fn line(r: &KernelRoute, names: &[String]) -> String {
    let route = &r.route;
    let kind = match route.kind {
        RouteKind::Unicast => "",
        RouteKind::Blackhole => "blackhole ",
        RouteKind::Unreachable => "unreachable ",
        RouteKind::Prohibit => "prohibit ",
        RouteKind::Throw => "throw ",
        RouteKind::Local => "local ",
        RouteKind::Broadcast => "broadcast ",
    };
    let mut line = format!("route add {kind}{}", route.prefix_text());
    let hop = Some(&route.hop).filter(|_| route.kind == RouteKind::Unicast);
    // writing to a String cannot fail
    if let Some(via) = hop.and_then(|h| h.via) {
        let _ = write!(line, " via {via}");
    }
    if let Some(given) = hop.and_then(|h| h.dev.as_ref()) {
        let by_number = given.parse::<usize>().ok().and_then(|n| names.get(n));
        let known = names.iter().any(|n| n == given);
        let name = by_number.filter(|_| !known).unwrap_or(given);
        let _ = write!(line, " dev {name}");
    }
    if hop.is_some_and(|h| h.via.is_some() && h.dev.is_some()) {
        // the neighbour is there, whatever network it is in
        line.push_str(" onlink");
    }
    if route.metric != 0 {
        let _ = write!(line, " metric {}", route.metric);
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_chain::import::parse_route;

    #[test]
    fn routes_as_ip_reads_them() {
        let names = ["eth0".to_string(), "eth1".to_string()];
        let of = |text: &str| {
            let route = KernelRoute {
                route: parse_route(text).unwrap(),
                file: String::new(),
                line: 1,
            };
            line(&route, &names)
        };
        assert_eq!(
            of("10.0.0.0/8 via 192.0.2.1 dev 1"),
            "route add 10.0.0.0/8 via 192.0.2.1 dev eth1 onlink"
        );
        assert_eq!(
            of("192.0.2.0/24 blackhole"),
            "route add blackhole 192.0.2.0/24"
        );
        assert_eq!(
            of("default via 10.0.2.2 dev eth0 proto dhcp src 10.0.2.15 metric 100 onlink linkdown"),
            "route add 0.0.0.0/0 via 10.0.2.2 dev eth0 onlink metric 100"
        );
        assert_eq!(
            of("prohibit 10.3.0.0/16 dev lo"),
            "route add prohibit 10.3.0.0/16"
        );
        assert_eq!(
            of("10.1.0.0/16 via 192.0.2.1"),
            "route add 10.1.0.0/16 via 192.0.2.1"
        );
    }

    #[test]
    fn networks_of_interfaces() {
        let a = |t: &str| t.parse::<IpAddr>().unwrap();
        assert!(same_network(a("10.0.0.1"), a("10.0.0.0"), 24));
        assert!(!same_network(a("10.0.1.1"), a("10.0.0.0"), 24));
        assert!(!same_network(a("10.0.0.1"), a("::"), 0));
        assert_eq!(network(a("10.0.1.7"), 23), a("10.0.0.0"));
        assert_eq!(network(a("10.0.1.7"), 0), a("0.0.0.0"));
        assert_eq!(network(a("2001:db8::7"), 128), a("2001:db8::7"));
        assert!(same_network(a("2001:db8::1"), a("2001:db8::"), 64));
    }
}
