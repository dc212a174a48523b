//! ICMP and ICMPv6.

use super::ip::text6;
use super::{be16, be32, ip4};
use std::net::Ipv4Addr;

/// ICMP: `length` bytes from its header on, of which `b` are there.
pub(super) fn v4(b: &[u8], length: usize) -> String {
    match v4_kind(b) {
        Some(what) => format!("ICMP {what}, length {length}"),
        None => "ICMP [|icmp]".to_string(),
    }
}

fn v4_kind(b: &[u8]) -> Option<String> {
    let (kind, code) = (*b.first()?, *b.get(1)?);
    let numbers = || Some((be16(b, 4)?, be16(b, 6)?));
    Some(match kind {
        0 | 8 => {
            let (id, seq) = numbers()?;
            let way = if kind == 8 { "request" } else { "reply" };
            format!("echo {way}, id {id}, seq {seq}")
        }
        3 => unreachable(b, code)?,
        4 => "source quench".to_string(),
        5 => {
            let (to, of) = (ip4(b, 4)?, ip4(b, 24)?);
            match code {
                0 => format!("redirect {of} to net {to}"),
                1 => format!("redirect {of} to host {to}"),
                2 => format!("redirect-tos {of} to net {to}"),
                3 => format!("redirect-tos {of} to host {to}"),
                n => format!("redirect-#{n} {of} to {to}"),
            }
        }
        9 => "router advertisement".to_string(),
        10 => "router solicitation".to_string(),
        11 => match code {
            0 => "time exceeded in-transit".to_string(),
            1 => "ip reassembly time exceeded".to_string(),
            n => format!("time exceeded-#{n}"),
        },
        12 => match code {
            0 => format!("parameter problem - octet {}", b.get(4)?),
            n => format!("parameter problem - code {n}"),
        },
        13 => {
            let (id, seq) = numbers()?;
            format!("time stamp query id {id} seq {seq}")
        }
        14 => {
            let (id, seq) = numbers()?;
            format!("time stamp reply id {id} seq {seq}")
        }
        17 => "address mask request".to_string(),
        18 => format!("address mask is 0x{:08x}", be32(b, 8)?),
        n => format!("type-#{n}"),
    })
}

fn unreachable(b: &[u8], code: u8) -> Option<String> {
    // the packet that it is about
    let inner = b.get(8..)?;
    let to: Ipv4Addr = ip4(inner, 16)?;
    Some(match code {
        0 => format!("net {to} unreachable"),
        1 => format!("host {to} unreachable"),
        2 => format!("{to} protocol {} unreachable", inner.get(9)?),
        3 => {
            let header = usize::from(inner.first()? & 15) * 4;
            let port = be16(inner, header + 2)?;
            match inner.get(9)? {
                6 => format!("{to} tcp port {port} unreachable"),
                17 => format!("{to} udp port {port} unreachable"),
                p => format!("{to} protocol {p} port {port} unreachable"),
            }
        }
        4 => match be16(b, 6)? {
            0 => format!("{to} unreachable - need to frag"),
            mtu => format!("{to} unreachable - need to frag (mtu {mtu})"),
        },
        5 => format!("{to} unreachable - source route failed"),
        6 => format!("net {to} unreachable - unknown"),
        7 => format!("host {to} unreachable - unknown"),
        8 => format!("{to} unreachable - source host isolated"),
        9 => format!("net {to} unreachable - admin prohibited"),
        10 => format!("host {to} unreachable - admin prohibited"),
        11 => format!("net {to} unreachable - tos prohibited"),
        12 => format!("host {to} unreachable - tos prohibited"),
        13 => format!("host {to} unreachable - admin prohibited filter"),
        14 => format!("host {to} unreachable - host precedence violation"),
        15 => format!("host {to} unreachable - precedence cutoff"),
        n => format!("{to} unreachable - #{n}"),
    })
}

/// ICMPv6: `length` bytes from its header on, of which `b` are there.
pub(super) fn v6(b: &[u8], length: usize) -> String {
    match v6_kind(b) {
        Some(what) => format!("ICMP6, {what}, length {length}"),
        None => "ICMP6, [|icmp6]".to_string(),
    }
}

fn address(b: &[u8], at: usize) -> Option<String> {
    b.get(at..)?.first_chunk().map(|a| text6(*a))
}

fn v6_kind(b: &[u8]) -> Option<String> {
    let (kind, code) = (*b.first()?, *b.get(1)?);
    // the destination of the packet that an error is about
    let inner = || address(b, 8 + 24);
    Some(match kind {
        1 => {
            let to = inner()?;
            match code {
                0 => format!("destination unreachable, unreachable route {to}"),
                1 => format!("destination unreachable,  unreachable prohibited {to}"),
                2 => format!(
                    "destination unreachable, beyond scope {to}, source address {}",
                    address(b, 16)?
                ),
                3 => format!("destination unreachable, unreachable address {to}"),
                4 => {
                    let (next, port) = (*b.get(8 + 6)?, be16(b, 8 + 40 + 2)?);
                    let what = match next {
                        6 => format!("{to} tcp port {port}"),
                        17 => format!("{to} udp port {port}"),
                        p => format!("{to} protocol {p} port {port} unreachable"),
                    };
                    format!("destination unreachable, unreachable port, {what}")
                }
                n => format!("destination unreachable, unknown unreach code ({n})"),
            }
        }
        2 => format!("packet too big, mtu {}", be32(b, 4)?),
        3 => match code {
            0 => format!("time exceeded in-transit for {}", inner()?),
            1 => "time exceeded in-transit (reassembly)".to_string(),
            n => format!("time exceeded in-transit, unknown code ({n})"),
        },
        4 => {
            let at = be32(b, 4)?;
            match code {
                0 => format!("parameter problem, erroneous - octet {at}"),
                1 => format!("parameter problem, next header - octet {at}"),
                2 => format!("parameter problem, option - octet {at}"),
                3 => format!("parameter problem, incomplete header chain - octet {at}"),
                n => format!("parameter problem, code-#{n}"),
            }
        }
        128 => format!("echo request, id {}, seq {}", be16(b, 4)?, be16(b, 6)?),
        129 => format!("echo reply, id {}, seq {}", be16(b, 4)?, be16(b, 6)?),
        130 => "multicast listener query".to_string(),
        131 => "multicast listener report".to_string(),
        132 => "multicast listener done".to_string(),
        133 => "router solicitation".to_string(),
        134 => "router advertisement".to_string(),
        135 => format!("neighbor solicitation, who has {}", address(b, 8)?),
        136 => format!("neighbor advertisement, tgt is {}", address(b, 8)?),
        137 => format!("redirect, {} to {}", address(b, 24)?, address(b, 8)?),
        143 => "multicast listener report v2".to_string(),
        n => format!("unknown icmp6 type ({n})"),
    })
}
