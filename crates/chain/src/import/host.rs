//! Rules of the host itself beside those that forwarded packets pass: a file is read once for each.

use super::iptables::Request;
use super::parts::{Parts, rule_sets};
use super::rule::{RuleSet, Traffic};
use super::terms::Family;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

type Errors = Vec<(u32, String)>;

/// Where REDIRECT sends packets of this request: the host's own to its loopback address (nf_nat_redirect.c), others to
/// that of the port that they arrived at.
pub(super) fn redirected_to(request: &Request<'_>) -> Option<IpAddr> {
    match (request.traffic.course(), request.family) {
        (Traffic::FromHost, Family::V4) => Some(Ipv4Addr::LOCALHOST.into()),
        (Traffic::FromHost, Family::V6) => Some(Ipv6Addr::LOCALHOST.into()),
        _ => None,
    }
}

/// Reads a file, for the host's packets, too, if the request says so. What is wrong with a line is told once.
pub(super) fn read(
    request: &Request<'_>,
    parse: impl Fn(&Request<'_>) -> Result<Parts, Errors>,
) -> Result<RuleSet, Errors> {
    if !request.host {
        let [set] = rule_sets([parse(request)?], request.interfaces)?;
        return Ok(set);
    }
    let mut errors = Errors::new();
    if request.chain.is_some() {
        let text = "port 2 is the host itself: its packets pass several chains, leave 'chain' out";
        errors.push((1, text.into()));
    }
    let mut one = |traffic| {
        let request = Request {
            traffic,
            ..request.clone()
        };
        match parse(&request) {
            Ok(set) => set,
            Err(e) => {
                errors.extend(e);
                Parts::default()
            }
        }
    };
    let mut all = [
        one(Traffic::Forwarded),
        one(Traffic::ToHost),
        one(Traffic::FromHost),
        one(Traffic::LoopOut),
        one(Traffic::LoopIn),
    ];
    // where packets come in again, table nat is not asked again
    all[4].nat = all[4].nat.take().map(|_| [None, None]);
    if !errors.is_empty() {
        errors.sort();
        errors.dedup();
        return Err(errors);
    }
    let [mut set, input, output, loop_out, loop_in] = rule_sets(all, request.interfaces)?;
    let mut host = [input, output, loop_out, loop_in];
    // of what the host sends to itself, nothing is said that is not said of its other packets
    let whose = ["packets for the host", "the host's own"];
    for (of, whose) in host.iter_mut().zip(whose) {
        let all = std::mem::take(&mut of.warnings);
        let said = all.into_iter().map(|w| format!("{whose}: {w}"));
        set.warnings.extend(said);
    }
    set.host = Some(Box::new(host));
    Ok(set)
}
