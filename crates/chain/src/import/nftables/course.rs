//! Which base chains packets pass, and where: by hooks and priorities.

use super::{Base, Objects};
use crate::import::iptables::Request;
use crate::import::rule::{Devices, Hook, Traffic, Verdict};

/// Priorities of netfilter_ipv4.h: behind tracking, destinations, sources.
const TRACKED: i64 = -200;
const DESTINATIONS: i64 = -100;
const SOURCES: i64 = 100;

/// The hook whose chains filter packets.
pub(super) fn hook_of(traffic: Traffic) -> &'static str {
    match traffic.course() {
        Traffic::ToHost => "input",
        Traffic::FromHost => "output",
        _ => "forward",
    }
}

/// Where destinations are translated, and where sources are.
pub(super) fn nat_hooks(traffic: Traffic) -> [&'static str; 2] {
    match traffic.course() {
        Traffic::ToHost => ["prerouting", "input"],
        Traffic::FromHost => ["output", "postrouting"],
        _ => ["prerouting", "postrouting"],
    }
}

/// Which interfaces are known at a hook, for these packets.
pub(super) fn devices(hook: &str, traffic: Traffic) -> Devices {
    traffic.devices(match (hook, traffic) {
        ("prerouting" | "input", _) => Devices::In,
        ("postrouting", Traffic::Forwarded) | ("forward", _) => Devices::Both,
        _ => Devices::Out,
    })
}

/// In which order hooks are passed.
pub(super) fn position(hook: &str) -> usize {
    match hook {
        "prerouting" => 0,
        "forward" | "input" | "output" => 1,
        _ => 2,
    }
}

/// The chain to start from and its policy; without a name, where none filters these packets.
pub(super) fn choose(
    request: &Request<'_>,
    found: &Objects<'_>,
) -> Result<(String, Verdict), String> {
    let bases = &found.bases;
    let names = |list: &[&Base]| {
        let v: Vec<&str> = list.iter().map(|b| b.key.as_str()).collect();
        v.join(", ")
    };
    let named = |b: &Base| Ok((b.key.clone(), b.policy));
    let all: Vec<_> = bases.iter().collect();
    if let Some(chain) = request.chain {
        let is = |b: &&Base| b.key == chain || b.key.split_once('/').is_some_and(|x| x.1 == chain);
        let fits: Vec<_> = bases.iter().filter(is).collect();
        return match fits.as_slice() {
            [b] => named(b),
            [] => Err(format!(
                "no base chain '{chain}' of type filter; there is {}",
                names(&all)
            )),
            many => Err(format!(
                "several chains '{chain}': {}; give TABLE/CHAIN",
                names(many)
            )),
        };
    }
    let hook = hook_of(request.traffic);
    // in front of it are chains that are asked before destinations are translated
    let filters = |b: &&Base| b.hook == hook && (hook != "output" || b.priority >= DESTINATIONS);
    let here: Vec<_> = bases.iter().filter(filters).collect();
    let does: Vec<_> = here.iter().filter(|b| b.does(&found.rules)).collect();
    // of several, the one of priority `filter`, or the last one; the others are asked before it, or behind it
    let usual = does.iter().find(|b| b.priority == 0);
    let last = does.iter().rev().max_by_key(|b| b.priority);
    match (usual.or(last), here.as_slice()) {
        (Some(b), _) => named(b),
        (None, [b, ..]) => named(b),
        (None, []) if request.traffic != Traffic::Forwarded || request.host => nothing(),
        (None, []) => {
            let of_host = |b: &&Base| matches!(b.hook.as_str(), "input" | "output");
            let own: Vec<_> = bases.iter().filter(of_host).collect();
            // all of it is about other hooks that forwarded packets pass
            let passed = bases.len() + found.nat.len() > 0;
            match own.is_empty() {
                true if passed => nothing(),
                true => Err("no base chain: packets pass none of its chains".into()),
                false => Err(format!(
                    "no base chain of type filter at hook forward, but of the host itself: {}; wire port 2, which is \
                     the host (ports: {{ local: \"NAME[2]\" }}), or say which one is taken with 'chain'",
                    names(&own)
                )),
            }
        }
    }
}

fn nothing() -> Result<(String, Verdict), String> {
    Ok((String::new(), Verdict::Allow))
}

/// Where a chain beside the one that packets are filtered by (`main`) is asked. `None`: packets do not come there.
///
/// # Errors
/// It cannot be asked there.
pub(super) fn place_of(
    b: &Base,
    main: Option<&Base>,
    traffic: Traffic,
) -> Result<Option<Hook>, String> {
    // of one priority, the first one in the file is asked first
    let beside = || match main.is_none_or(|m| b.priority <= m.priority) {
        true => Hook::Before,
        false => Hook::Behind,
    };
    let early = || match b.priority {
        p if p < TRACKED => Hook::Raw,
        p if p < DESTINATIONS => Hook::Prerouting,
        _ => Hook::Before,
    };
    Ok(Some(match (b.hook.as_str(), traffic.course()) {
        ("prerouting", Traffic::Forwarded | Traffic::ToHost) => early(),
        ("forward", Traffic::Forwarded) => beside(),
        ("input", Traffic::ToHost) if b.priority < SOURCES => beside(),
        ("output", Traffic::FromHost) if b.priority < DESTINATIONS => early(),
        ("output", Traffic::FromHost) => beside(),
        ("postrouting", Traffic::Forwarded | Traffic::FromHost) if b.priority < SOURCES => {
            Hook::Behind
        }
        ("prerouting", Traffic::FromHost) | ("postrouting", Traffic::ToHost) => return Ok(None),
        ("input" | "output" | "forward", t) if b.hook != hook_of(t) => return Ok(None),
        (hook, _) => {
            return Err(format!(
                "chain '{}' at hook {hook} with priority {} has rules: it is not supported there",
                b.key, b.priority
            ));
        }
    }))
}
