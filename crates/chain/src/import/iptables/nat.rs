//! Table nat: targets of `iptables-extensions(8)` that translate, as ranges of ConnDstNat and ConnSrcNat.

use super::options::Rules;
use super::{Errors, Request, Table, read_chains};
use crate::import::chains::Target;
use crate::import::host::redirected_to;
use crate::import::nat::NatTarget;
use crate::import::parts::Part;
use crate::import::rule::Devices;
use std::net::IpAddr;

/// The chains of a table nat that packets pass, of which one translates destinations, the other sources; `None` if it
/// has no rules for any packets. What is wrong is added to `errors`.
pub(super) fn read(
    t: &Table<'_>,
    [dst, src]: [(&str, Devices); 2],
    request: &Request<'_>,
    errors: &mut Errors,
) -> Option<[Option<Part>; 2]> {
    t.passed(request.host)?;
    let mut reader = Rules {
        family: request.family,
        interfaces: request.interfaces,
        rejects: 0,
        logs: 0,
        ipsec: 0,
        nat: true,
        redirects: redirects(request),
        errors: Errors::new(),
    };
    let mut read = |(chain, devices): (&str, Devices)| {
        let chains = read_chains(&mut reader, t, "nat", chain);
        chains.contains_key(chain).then(|| Part {
            chains,
            start: chain.to_string(),
            devices: request.traffic.devices(devices),
            ..Part::default()
        })
    };
    let out = [read(dst), read(src)];
    if let Some((policy, line)) = (t.policies.values()).find(|(p, _)| *p == "DROP") {
        errors.push((
            *line,
            format!("a chain of table nat with policy {policy}: nothing can be dropped there"),
        ));
    }
    errors.append(&mut reader.errors);
    Some(out)
}

/// Where packets are sent to programs of the host itself: to the address of the port that they arrived at, or to this
/// one. Or why they cannot be.
pub(super) fn redirects(request: &Request<'_>) -> Result<Option<IpAddr>, &'static str> {
    match request.host {
        true => Ok(redirected_to(request)),
        false => Err(
            "target 'REDIRECT' sends packets to programs of the router itself: wire port 2, which is the host \
             (ports: { local: \"NAME[2]\" }), or translate to the address of a server with DNAT",
        ),
    }
}

/// Reads a target that translates, with its options; `None` if it is none. `nat`: the rule is in table nat.
pub(super) fn target<'b>(
    name: &str,
    nat: bool,
    redirects: Result<Option<IpAddr>, &'static str>,
    it: &mut impl Iterator<Item = &'b str>,
) -> Option<Result<Target, String>> {
    if !matches!(name, "SNAT" | "DNAT" | "MASQUERADE" | "NETMAP" | "REDIRECT") {
        return None;
    }
    if !nat {
        return Some(Err(format!("target '{name}' is for table nat")));
    }
    let target = options(name, it).and_then(|t| t.redirected(redirects));
    Some(target.map(Target::Nat))
}

fn options<'b>(name: &str, it: &mut impl Iterator<Item = &'b str>) -> Result<NatTarget, String> {
    let (mut to, mut ports, mut words) = (None, None, String::new());
    while let Some(w) = it.next() {
        let mut value = || {
            it.next()
                .ok_or_else(|| format!("expected a value behind '{w}'"))
        };
        match (name, w) {
            // an option may be cut short where no other begins so
            ("SNAT", "--to-source" | "--to") | ("DNAT", "--to-destination" | "--to") => {
                to = Some(place(value()?)?);
            }
            ("NETMAP", "--to") => to = Some((prefix(value()?)?, None)),
            ("MASQUERADE" | "REDIRECT", "--to-ports" | "--to") => {
                ports = Some(value()?.to_string())
            }
            ("SNAT" | "DNAT" | "MASQUERADE" | "REDIRECT", "--random")
            | ("SNAT" | "MASQUERADE", "--random-fully") => {
                words.push_str(" random");
            }
            ("SNAT" | "DNAT", "--persistent") => words.push_str(" persistent"),
            _ => return Err(format!("option '{w}' of target '{name}' is not supported")),
        }
    }
    if name == "MASQUERADE" || name == "REDIRECT" {
        let text = format!("{}{words}", ports.unwrap_or_default());
        let text = text.trim().to_string();
        return Ok(match name {
            "REDIRECT" => NatTarget::Redirect(text),
            _ => NatTarget::Masquerade(text),
        });
    }
    let (addresses, ports) = to.ok_or_else(|| format!("target '{name}' without an address"))?;
    let ports = ports.map_or(String::new(), |p| format!(" {p}"));
    Ok(NatTarget::Range(format!("{addresses}{ports}{words}")))
}

/// A network, with the length of its prefix or a mask in the place of it; an address is a network of its own.
fn prefix(v: &str) -> Result<String, String> {
    let Some((a, len)) = v.split_once('/') else {
        let bits = if v.contains(':') { 128 } else { 32 };
        return Ok(format!("{v}/{bits}"));
    };
    let ones = match len.parse::<IpAddr>() {
        Ok(IpAddr::V4(mask)) => (u32::from(mask).leading_ones(), u32::from(mask).count_ones()),
        Ok(IpAddr::V6(mask)) => (
            u128::from(mask).leading_ones(),
            u128::from(mask).count_ones(),
        ),
        Err(_) => return Ok(format!("{a}/{len}")),
    };
    match ones {
        (first, all) if first == all => Ok(format!("{a}/{first}")),
        _ => Err(format!("'{v}': the mask is no prefix")),
    }
}

/// `ADDRESS[-ADDRESS][:PORT[-PORT[/BASE]]]`, IPv6 addresses in brackets where ports follow: addresses and ports as
/// ranges have them.
fn place(v: &str) -> Result<(String, Option<String>), String> {
    let (addresses, ports) = match v.strip_prefix('[') {
        Some(rest) => {
            let (a, after) = (rest.split_once(']')).ok_or_else(|| format!("'{v}': no ']'"))?;
            (a, after.strip_prefix(':'))
        }
        None if v.matches(':').count() > 1 => (v, None),
        None => match v.split_once(':') {
            Some((a, p)) => (a, Some(p)),
            None => (v, None),
        },
    };
    let addresses = match addresses.is_empty() {
        true => "-".to_string(),
        false => addresses.replace(['[', ']'], ""),
    };
    let ports = ports.map(|p| match p.split_once('/') {
        Some((ports, base)) => format!("{ports} offset {base}"),
        None => p.to_string(),
    });
    Ok((addresses, ports))
}
