//! Targets that change packets, or marks, and let the next rule be asked; matches on marks.

use crate::import::chains::Interfaces;
use crate::import::headers;
use crate::import::mark::{Change, MarkOf, MarkTest, MarkValue};
use crate::import::terms::Family;

/// Whose mark a target is about.
fn whose(name: &str) -> MarkOf {
    match name {
        "CONNMARK" => MarkOf::Connection,
        _ => MarkOf::Packet,
    }
}

/// Reads a target that changes something, with its options; `None` if it is none.
pub(super) fn target<'b>(
    name: &str,
    (family, interfaces): (Family, &Interfaces),
    it: &mut impl Iterator<Item = &'b str>,
) -> Option<Result<Vec<Change>, String>> {
    let header = |element: Result<String, String>| element.map(|e| vec![Change::Header(e)]);
    Some(match name {
        "DSCP" => header(code_point(family, it)),
        "TTL" | "HL" => header(hops(name, family, it)),
        "TCPMSS" => header(segment_size(family, interfaces, it)),
        "SNPT" | "DNPT" => header(prefixes(name, family, it)),
        "MARK" | "CONNMARK" => mark(name, it).map(|c| vec![c]),
        "NOTRACK" => Ok(vec![Change::Untrack]),
        "CT" => untracked(it).map(|()| vec![Change::Untrack]),
        _ => return None,
    })
}

/// `CT --notrack`; what else CT can do is refused.
fn untracked<'b>(it: &mut impl Iterator<Item = &'b str>) -> Result<(), String> {
    let mut found = false;
    for w in it.by_ref() {
        match w {
            "--notrack" => found = true,
            "--helper" => {
                return Err("target 'CT' with '--helper': helpers are not supported, so that connections that they \
                            expect (of FTP, SIP) are new ones"
                    .into());
            }
            w => return Err(format!("option '{w}' of target 'CT' is not supported")),
        }
    }
    match found {
        true => Ok(()),
        false => Err("target 'CT' without '--notrack' is not supported".into()),
    }
}

fn mark<'b>(name: &str, it: &mut impl Iterator<Item = &'b str>) -> Result<Change, String> {
    let of = whose(name);
    let own = MarkValue::of(of);
    let mut found = None;
    let (mut saves, mut restores) = (false, false);
    let (mut of_packet, mut of_connection) = (u32::MAX, u32::MAX);
    while let Some(w) = it.next() {
        let mut value = || {
            let v = it.next();
            v.ok_or_else(|| format!("expected a value behind '{w}'"))
        };
        match (of, w) {
            (_, "--set-mark") => {
                let (v, mask) = pair(value()?)?;
                found = Some(own.and(!(mask | v)).xor(v));
            }
            (_, "--set-xmark") => {
                let (v, mask) = pair(value()?)?;
                found = Some(own.and(!mask).xor(v));
            }
            (_, "--and-mark") => found = Some(own.and(number(value()?)?)),
            (_, "--or-mark") => found = Some(own.or(number(value()?)?)),
            (_, "--xor-mark") => found = Some(own.xor(number(value()?)?)),
            (MarkOf::Connection, "--save-mark") => saves = true,
            (MarkOf::Connection, "--restore-mark") => restores = true,
            (MarkOf::Connection, "--nfmask") => of_packet = number(value()?)?,
            (MarkOf::Connection, "--ctmask") => of_connection = number(value()?)?,
            (MarkOf::Connection, "--mask") => {
                of_packet = number(value()?)?;
                of_connection = of_packet;
            }
            _ => return Err(format!("option '{w}' of target '{name}' is not supported")),
        }
    }
    let packet = MarkValue::of(MarkOf::Packet);
    let connection = MarkValue::of(MarkOf::Connection);
    match (of, found, saves, restores) {
        (MarkOf::Packet, Some(v), ..) => Ok(Change::PacketMark(v)),
        (MarkOf::Connection, Some(v), false, false) => Ok(Change::ConnectionMark(v)),
        (MarkOf::Connection, None, true, false) => {
            let kept = connection.and(!of_connection);
            Ok(Change::ConnectionMark(kept.with(packet.and(of_packet))))
        }
        (MarkOf::Connection, None, false, true) => {
            let kept = packet.and(!of_packet);
            Ok(Change::PacketMark(kept.with(connection.and(of_connection))))
        }
        _ => Err(format!("target '{name}' needs one of its options")),
    }
}

/// An option with its value, which is the only one.
fn only<'b>(
    name: &str,
    it: &mut impl Iterator<Item = &'b str>,
) -> Result<(&'b str, &'b str), String> {
    let option = it.next();
    let option = option.ok_or_else(|| format!("target '{name}' needs one of its options"))?;
    let value = it.next();
    let value = value.ok_or_else(|| format!("expected a value behind '{option}'"))?;
    match it.next() {
        None => Ok((option, value)),
        Some(w) => Err(format!("option '{w}' of target '{name}' is not supported")),
    }
}

/// `DSCP --set-dscp 10`, `--set-dscp-class AF11`.
fn code_point<'b>(
    family: Family,
    it: &mut impl Iterator<Item = &'b str>,
) -> Result<String, String> {
    let n = match only("DSCP", it)? {
        ("--set-dscp", v) => number(v)?,
        ("--set-dscp-class", v) => {
            headers::code_point(v).ok_or_else(|| format!("'{v}' is no code point's name"))?
        }
        (w, _) => return Err(format!("option '{w}' of target 'DSCP' is not supported")),
    };
    headers::dscp(family, n)
}

/// `TTL --ttl-set 64`, `--ttl-inc 1`, `--ttl-dec 1`; HL the same for IPv6.
fn hops<'b>(
    name: &str,
    family: Family,
    it: &mut impl Iterator<Item = &'b str>,
) -> Result<String, String> {
    let (option, v) = only(name, it)?;
    let how = match (family, option) {
        (Family::V4, "--ttl-set") | (Family::V6, "--hl-set") => "",
        (Family::V4, "--ttl-inc") | (Family::V6, "--hl-inc") => "ADD ",
        (Family::V4, "--ttl-dec") | (Family::V6, "--hl-dec") => "SUBTRACT ",
        _ => {
            return Err(format!(
                "option '{option}' of target '{name}' is not supported"
            ));
        }
    };
    let n = number(v)?;
    let n = u8::try_from(n).map_err(|_| format!("{option} {n} is more than 255"))?;
    Ok(headers::hops(family, how, n))
}

/// `SNPT --src-pfx fd00:1::/48 --dst-pfx 2001:db8:1::/48`; DNPT the same of destinations.
fn prefixes<'b>(
    name: &str,
    family: Family,
    it: &mut impl Iterator<Item = &'b str>,
) -> Result<String, String> {
    if family == Family::V4 {
        return Err(format!("target '{name}' is for IPv6"));
    }
    let (mut from, mut to) = (None, None);
    while let Some(w) = it.next() {
        let end = match w {
            "--src-pfx" => &mut from,
            "--dst-pfx" => &mut to,
            _ => return Err(format!("option '{w}' of target '{name}' is not supported")),
        };
        let v = it.next();
        *end = Some(v.ok_or_else(|| format!("expected a value behind '{w}'"))?);
    }
    match (from, to) {
        (Some(from), Some(to)) => headers::prefixes(name == "SNPT", from, to),
        _ => Err(format!("target '{name}' needs '--src-pfx' and '--dst-pfx'")),
    }
}

/// `TCPMSS --set-mss 1400`, `--clamp-mss-to-pmtu`.
fn segment_size<'b>(
    family: Family,
    interfaces: &Interfaces,
    it: &mut impl Iterator<Item = &'b str>,
) -> Result<String, String> {
    let mut it = it.peekable();
    if it.peek() == Some(&"--clamp-mss-to-pmtu") {
        it.next();
        if let Some(w) = it.next() {
            return Err(format!("option '{w}' of target 'TCPMSS' is not supported"));
        }
        let mtu = interfaces.mtu.unwrap_or(headers::USUAL_MTU);
        return Ok(headers::segment_size(headers::fitting(family, mtu), true));
    }
    let (option, v) = only("TCPMSS", &mut it)?;
    if option != "--set-mss" {
        return Err(format!(
            "option '{option}' of target 'TCPMSS' is not supported"
        ));
    }
    let n = number(v)?;
    let n = u16::try_from(n).map_err(|_| format!("--set-mss {n} is more than 65535"))?;
    Ok(headers::segment_size(n, true))
}

/// `VALUE[/MASK]`.
fn pair(v: &str) -> Result<(u32, u32), String> {
    match v.split_once('/') {
        Some((v, mask)) => Ok((number(v)?, number(mask)?)),
        None => Ok((number(v)?, u32::MAX)),
    }
}

/// A number, also in hexadecimal or octal.
pub(super) fn number(v: &str) -> Result<u32, String> {
    let parsed = match (v.strip_prefix("0x").or(v.strip_prefix("0X")), v) {
        (Some(hex), _) => u32::from_str_radix(hex, 16),
        (None, v) if v.len() > 1 && v.starts_with('0') => u32::from_str_radix(v, 8),
        (None, v) => v.parse(),
    };
    parsed.map_err(|_| format!("'{v}' is no number of 32 bits"))
}

/// `--mark VALUE[/MASK]`.
pub(super) fn mark_test(of: MarkOf, v: &str, not: bool) -> Result<MarkTest, String> {
    let (value, mask) = pair(v)?;
    Ok(MarkTest {
        of,
        mask,
        ranges: vec![(value, value)],
        not,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> Result<Vec<Change>, String> {
        let mut words = text.split_whitespace();
        let name = words.next().unwrap();
        let names = Interfaces::default();
        target(name, (Family::V4, &names), &mut words).unwrap()
    }

    #[test]
    fn marks_are_what_the_kernel_makes_of_them() {
        // packet's mark, connection's mark, what becomes of the one that is set
        for (text, packet, connection, becomes) in [
            ("MARK --set-mark 5", 0xff, 0, 5),
            // the bits of the value, too
            ("MARK --set-mark 0x14/0xf", 0xff, 0, 0xf4),
            ("MARK --set-xmark 0x14/0xf", 0xff, 0, 0xe4),
            ("MARK --and-mark 0xf0", 0xff, 0, 0xf0),
            ("MARK --or-mark 0x100", 0xff, 0, 0x1ff),
            ("MARK --xor-mark 0x101", 0xff, 0, 0x1fe),
            ("CONNMARK --set-mark 010", 1, 2, 8),
            ("CONNMARK --set-xmark 1/0", 1, 2, 3),
            ("CONNMARK --save-mark", 7, 2, 7),
            (
                "CONNMARK --save-mark --nfmask 0xf0 --ctmask 0xff",
                0x77,
                0x102,
                0x170,
            ),
            ("CONNMARK --restore-mark", 7, 2, 2),
            ("CONNMARK --restore-mark --mask 0xff", 0x707, 0x302, 0x702),
        ] {
            let changes = of(text).unwrap();
            let [Change::PacketMark(v) | Change::ConnectionMark(v)] = changes.as_slice() else {
                panic!("{changes:?}");
            };
            assert_eq!(v.apply(packet, connection), becomes, "{text}");
        }
        for (text, element) in [
            ("TCPMSS --clamp-mss-to-pmtu", "SetTCPMSS(1460, ADD true)"),
            ("TCPMSS --set-mss 1400", "SetTCPMSS(1400, ADD true)"),
            ("DSCP --set-dscp 0x0a", "SetIPDSCP(10)"),
            ("DSCP --set-dscp-class EF", "SetIPDSCP(46)"),
            ("TTL --ttl-set 64", "SetIPTTL(64)"),
            ("TTL --ttl-dec 2", "SetIPTTL(SUBTRACT 2)"),
        ] {
            assert_eq!(of(text), Ok(vec![Change::Header(element.into())]));
        }
        assert_eq!(of("CT --notrack"), Ok(vec![Change::Untrack]));
        let names = Interfaces::default();
        let six = |text: &str| {
            let mut words = text.split_whitespace();
            target(words.next().unwrap(), (Family::V6, &names), &mut words).unwrap()
        };
        for (text, element) in [
            (
                "SNPT --src-pfx fd00:1::/48 --dst-pfx 2001:db8::/48",
                "IP6PrefixTranslate(SOURCE, fd00:1::/48 2001:db8::/48, NETFILTER true)",
            ),
            (
                "DNPT --dst-pfx fd00:1::/64 --src-pfx 2001:db8::/60",
                "IP6PrefixTranslate(DESTINATION, 2001:db8::/60 fd00:1::/64, NETFILTER true)",
            ),
        ] {
            assert_eq!(six(text), Ok(vec![Change::Header(element.into())]));
        }
        for (bad, why) in [
            ("SNPT --src-pfx fd00::/48", "--dst-pfx"),
            ("SNPT --src-pfx fd00::/48 --dst-pfx 2001:db8::/65", "64"),
            (
                "SNPT --src-pfx fd00::1/48 --dst-pfx 2001:db8::/48",
                "behind",
            ),
            ("DNPT --src-pfx 10.0.0.0/8 --dst-pfx 2001:db8::/48", "IPv6"),
            ("DNPT --to fd00::/48", "--to"),
        ] {
            let e = six(bad).unwrap_err();
            assert!(e.contains(why), "{bad}: {e}");
        }
        for (bad, why) in [
            ("SNPT --src-pfx fd00::/48 --dst-pfx fd01::/48", "for IPv6"),
            ("CT --helper ftp", "helpers"),
            ("CT --zone 1", "--zone"),
            ("CT", "--notrack"),
            ("MARK --save-mark", "--save-mark"),
            ("MARK", "needs one"),
            ("CONNMARK --save-mark --restore-mark", "needs one"),
            ("MARK --set-mark x", "no number"),
            ("DSCP --set-dscp 64", "63"),
            ("TTL --ttl-inc 256", "255"),
            ("TTL --hl-inc 1", "--hl-inc"),
            ("TCPMSS --set-mss 70000", "65535"),
            ("TCPMSS --clamp-mss-to-pmtu --x", "--x"),
        ] {
            let e = of(bad).unwrap_err();
            assert!(e.contains(why), "{bad}: {e}");
        }
    }
}
