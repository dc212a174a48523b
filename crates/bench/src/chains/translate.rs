//! Random address translators and load balancers.

use super::line::{Line, Made};
use super::words::{HOSTS, PORTS, SERVERS, VIRTUAL, one_in, pick, port};
use std::collections::BTreeSet;

/// Port ranges of NAPT, tiny ones among them.
const RANGES: &[&str] = &[
    "1024-65535",
    "2000-2999",
    "2000-2003",
    "2000-2001",
    "40000-40007",
    "80-90",
];

/// A translator; NAPT or one-to-one.
pub(super) fn nat(l: &mut Line) -> Made {
    let turned = one_in(&mut l.rng, 8);
    // who is inside: what is on the left, or on the right of one that is turned
    let inside: Vec<String> = match turned {
        true => SERVERS.iter().map(|s| s.to_string()).collect(),
        false => l.hosts.clone(),
    };
    let (mut y, outside) = match one_in(&mut l.rng, 3) {
        true => pairs(l, &inside),
        false => napt(l, &inside),
    };
    if one_in(&mut l.rng, 4) {
        y.push_str("  decrement-ttl: true\n");
    }
    if one_in(&mut l.rng, 3) {
        y.push_str(&encap(l, "encap-inside", turned));
    }
    if one_in(&mut l.rng, 3) {
        y.push_str(&encap(l, "encap-outside", !turned));
    }
    if !turned {
        l.left_nets.push("203.0.113.0/24".into());
        l.hosts = outside;
    }
    Made::two("nat", y, turned)
}

fn napt(l: &mut Line, inside: &[String]) -> (String, Vec<String>) {
    let options = l.options;
    let base = if options.shared_pools {
        0
    } else {
        16 * u64::from(l.made)
    };
    let rng = &mut l.rng;
    let first = base + rng.between(1, 6);
    let n = match rng.below(3) {
        0 => rng.between(2, 4),
        _ => 1,
    };
    let pool: Vec<String> = (first..first + n)
        .map(|i| format!("203.0.113.{i}"))
        .collect();
    let own = pool.first().cloned().unwrap_or_default();
    let shown = match n {
        1 if l.pool.is_none() && l.parameters && one_in(rng, 2) => {
            l.pool = Some(own.clone());
            "$(pool)".to_string()
        }
        1 => own.clone(),
        _ => format!("{own}-203.0.113.{}", first + n - 1),
    };
    let mut y = format!("nat:\n  pool: {shown}\n");
    let mut range = None;
    if one_in(rng, 2) {
        let r = match options.one_port && one_in(rng, 8) {
            true => "5000",
            false => pick(rng, RANGES),
        };
        range = Some(r);
        y.push_str(&format!("  port-range: \"{r}\"\n"));
    }
    if one_in(rng, 3) {
        y.push_str("  forward:\n");
        let mut places = BTreeSet::new();
        let mut fronts = BTreeSet::new();
        for _ in 0..rng.between(1, 3) {
            let host = rng.pick(inside).cloned().unwrap_or_default();
            let proto = pick(rng, &["tcp", "udp"]);
            let (a, b) = (rng.pick(PORTS).copied().unwrap_or(80), port(rng));
            // two of the same are one
            let outside = rng.pick(&pool).cloned().unwrap_or(own.clone());
            if !fronts.insert((proto, outside.clone(), a)) {
                continue;
            }
            if !places.insert((host.clone(), b)) && !options.shared_forwards {
                continue;
            }
            y.push_str(&format!("    - {proto} {outside}:{a} -> {host}:{b}\n"));
        }
    }
    if one_in(rng, 5) && options.hairpin {
        y.push_str("  hairpin: true\n");
    }
    for (name, values) in [
        ("tcp-timeout", [1u64, 20, 3600]),
        ("udp-timeout", [1, 20, 300]),
        // as many as the ports of a tiny range, fewer, and many
        (
            "capacity",
            [if range == Some("2000-2003") { 4 } else { 1 }, 7, 1000],
        ),
    ] {
        if one_in(rng, 5) {
            y.push_str(&format!(
                "  {name}: {}\n",
                rng.pick(&values).copied().unwrap_or(20)
            ));
        }
    }
    (y, pool)
}

fn pairs(l: &mut Line, inside: &[String]) -> (String, Vec<String>) {
    let rng = &mut l.rng;
    let mut y = String::from("nat:\n  one-to-one:\n");
    let mut all = inside.to_vec();
    rng.shuffle(&mut all);
    all.truncate(rng.between(1, 3) as usize);
    let mut out = Vec::new();
    for (i, host) in all.iter().enumerate() {
        let outside = format!("203.0.113.{}", 5 + 16 * l.made + i as u32);
        y.push_str(&format!("    - \"{host} = {outside}\"\n"));
        out.push(outside);
    }
    (y, out)
}

/// A new Ethernet header on what leaves to one side.
fn encap(l: &mut Line, name: &str, to_right: bool) -> String {
    let own = Line::mac(0xe0 + l.made, usize::from(to_right));
    let next = match to_right {
        true => l.mac_on_the_right(l.routers),
        false => l.mac_on_the_left(),
    };
    format!("  {name}: {{ mac: \"{own}\", next-hop: \"{next}\" }}\n")
}

/// A balancer: clients on the left, or on the right of one that is turned.
pub(super) fn balancer(l: &mut Line) -> Made {
    let turned = one_in(&mut l.rng, 3);
    let rng = &mut l.rng;
    let own = pick(rng, VIRTUAL).to_string();
    let mut y = format!("load-balancer:\n  address: {own}\n");
    if one_in(rng, 3) {
        let p = match one_in(rng, 2) {
            true => "[80, 443]".to_string(),
            false => format!("[{}]", port(rng)),
        };
        y.push_str(&format!("  ports: {p}\n"));
    }
    let hashed = one_in(rng, 3);
    if hashed || one_in(rng, 3) {
        let policy = match hashed {
            true => pick(rng, &["source-hash", "maglev"]),
            false => "round-robin",
        };
        y.push_str(&format!("  policy: {policy}\n"));
    }
    y.push_str("  servers:\n");
    let from = if turned { HOSTS } else { SERVERS };
    let n = rng.between(1, 3) as usize;
    let start = rng.below(2) as usize;
    for s in from.iter().skip(start).take(n) {
        match !hashed && one_in(rng, 3) {
            true => y.push_str(&format!(
                "    - {{ address: {s}, weight: {} }}\n",
                rng.between(1, 4)
            )),
            false => y.push_str(&format!("    - {{ address: {s} }}\n")),
        }
    }
    if one_in(rng, 3) {
        y.push_str(&format!(
            "  pass-other: {}\n",
            pick(rng, &["true", "false"])
        ));
    }
    if one_in(rng, 4) {
        y.push_str("  decrement-ttl: true\n");
    }
    if one_in(&mut l.rng, 3) {
        y.push_str(&encap(l, "encap-clients", turned));
    }
    if one_in(&mut l.rng, 3) {
        y.push_str(&encap(l, "encap-servers", !turned));
    }
    if turned {
        l.left_nets.push("198.18.0.0/24".into());
        l.hosts.push(own);
    }
    Made::two("load-balancer", y, turned)
}
