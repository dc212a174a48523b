//! Random routers.

use super::line::{Line, Made};
use super::words::{one_in, pick};

/// MTUs; the first two are for IPv6, too, which has none below 1280.
const MTUS: &[&str] = &["1500", "1280", "576", "300", "68"];

/// A router between what is on the left and on the right; with further interfaces where the chain may have more ports.
pub(super) fn make(l: &mut Line) -> Made {
    let k = l.routers;
    let more = match one_in(&mut l.rng, 4) {
        true => l.ports_left.min(l.rng.between(1, 2) as u32) as usize,
        false => 0,
    };
    let six = one_in(&mut l.rng, 3);
    // the networks of the links on both sides: between routers, /30
    let left = match k {
        0 => pick(&mut l.rng, &["10.0.0.1/8", "10.0.0.1/24", "10.0.0.254/16"]).to_string(),
        k => format!("192.0.2.{}/30", 4 * (k - 1) + 2),
    };
    let right = match one_in(&mut l.rng, 4) {
        true => "203.0.113.254/24".to_string(),
        false => format!("192.0.2.{}/30", 4 * k + 1),
    };
    let mut y = String::from("router:\n  interfaces:\n");
    let mut only6 = Vec::new();
    for n in 0..2 + more {
        // one that has no IPv4 address at all is rare
        let six_alone = six && one_in(&mut l.rng, 12);
        let address = match n {
            0 => left.clone(),
            1 => right.clone(),
            2 => "172.16.0.1/16".to_string(),
            n => format!("172.17.{n}.1/24"),
        };
        y.push_str(&interface(l, k, n, (!six_alone).then_some(&address), six));
        only6.push(six_alone);
    }
    let mut routes = routes(l, [&left, &right], &only6);
    if six {
        routes.push("default via 2001:db8:ffff::2".into());
        if one_in(&mut l.rng, 3) {
            routes.push("2001:db8:dead::/48 blackhole".into());
        }
    }
    if one_in(&mut l.rng, 5) {
        let file = format!("routes-{}.txt", l.made);
        y.push_str(&format!("  routes-file: {file}\n"));
        l.files.push((file, routes.join("\n") + "\n"));
    } else {
        y.push_str("  routes:\n");
        for r in &routes {
            y.push_str(&format!("    - {r}\n"));
        }
    }
    if one_in(&mut l.rng, 3) {
        y.push_str(&format!(
            "  redirects: {}\n",
            pick(&mut l.rng, &["true", "false"])
        ));
    }
    l.ports_left -= more as u32;
    let mut m = Made::two("router", y, false);
    m.more = (2..2 + more).collect();
    m
}

/// Interface `n` of router `k`.
fn interface(l: &mut Line, k: u32, n: usize, address: Option<&String>, six: bool) -> String {
    let mut parts = Vec::new();
    if one_in(&mut l.rng, 2) {
        parts.push(format!("name: if{n}"));
    }
    parts.extend(address.map(|a| format!("address: {a}")));
    if six {
        let a = match n {
            0 => "2001:db8::1/48",
            1 => "2001:db8:ffff::1/64",
            2 => "2001:db8:1::1/64",
            _ => "2001:db8:2::1/64",
        };
        parts.push(format!("address6: \"{a}\""));
    }
    parts.push(format!("mac: \"{}\"", Line::mac(k, n)));
    if six || !one_in(&mut l.rng, 4) {
        let next = match n {
            0 => l.mac_on_the_left(),
            1 => l.mac_on_the_right(k + 1),
            _ => "02:00:00:00:ee:00".to_string(),
        };
        parts.push(format!("gateway-mac: \"{next}\""));
    }
    if one_in(&mut l.rng, 4) {
        parts.push(format!(
            "mtu: {}",
            pick(&mut l.rng, if six { &MTUS[..2] } else { MTUS })
        ));
    }
    format!("    - {{ {} }}\n", parts.join(", "))
}

/// Where packets go: to the left what is known to be there, to the right everything else.
fn routes(l: &mut Line, [left, right]: [&str; 2], only6: &[bool]) -> Vec<String> {
    let mut out = Vec::new();
    // a next hop is on a network of an interface
    let by_device = |l: &mut Line, n: usize| one_in(&mut l.rng, 3) || only6.get(n) == Some(&true);
    // the other end of a /30, a host of a larger network
    let beyond = |own: &str| {
        let (a, _) = own.split_once('/').unwrap_or((own, ""));
        let (net, host) = a.rsplit_once('.').unwrap_or((a, "1"));
        let host: u32 = host.parse().unwrap_or(1);
        let other = match own.ends_with("/30") {
            true => (host & !3) | (3 - (host & 3)),
            false => 253,
        };
        format!("{net}.{other}")
    };
    match by_device(l, 1) {
        true => out.push("default dev 1".to_string()),
        false => out.push(format!("default via {}", beyond(right))),
    }
    for net in l.left_nets.clone() {
        match by_device(l, 0) {
            true => out.push(format!("{net} dev 0")),
            false => out.push(format!("{net} via {}", beyond(left))),
        }
    }
    if one_in(&mut l.rng, 4) {
        let hole = [
            "192.168.0.0/16 blackhole",
            "10.66.0.0/16 blackhole",
            "blackhole 198.51.100.64/26",
        ];
        out.push(pick(&mut l.rng, &hole).to_string());
    }
    if one_in(&mut l.rng, 4) {
        let n = l.rng.below(only6.len() as u64);
        out.push(format!(
            "{} dev {n}",
            pick(&mut l.rng, &["198.18.0.0/15", "8.8.8.0/24", "10.0.1.0/25"])
        ));
    }
    out
}
