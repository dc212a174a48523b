//! TCP and UDP.

use super::ip::Ends;
use super::{be16, be32, hex};
use std::fmt::Write;

const FLAGS: [(u8, char); 8] = [
    (0x01, 'F'),
    (0x02, 'S'),
    (0x04, 'R'),
    (0x08, 'P'),
    (0x10, '.'),
    (0x20, 'U'),
    (0x40, 'E'),
    (0x80, 'W'),
];

/// TCP flags in tcpdump's letters: `S.` is SYN and ACK.
pub fn flags(set: u8) -> String {
    let all = FLAGS.iter().filter(|(bit, _)| set & bit != 0);
    let all: String = all.map(|(_, c)| *c).collect();
    if all.is_empty() { "none".into() } else { all }
}

/// TCP: `length` bytes from its header on, of which `b` are there.
pub(super) fn tcp(ends: &Ends<'_>, b: &[u8], length: usize) -> String {
    let (Some(from), Some(to)) = (be16(b, 0), be16(b, 2)) else {
        return format!("{} > {}: [|tcp]", ends.src, ends.dst);
    };
    let mut text = ends.ports(from, to);
    let (Some(offset), Some(set), Some(seq), Some(ack), Some(win), Some(urgent)) = (
        b.get(12),
        b.get(13).copied(),
        be32(b, 4),
        be32(b, 8),
        be16(b, 14),
        be16(b, 18),
    ) else {
        text.push_str(" [|tcp]");
        return text;
    };
    let header = usize::from(offset >> 4) * 4;
    if header < 20 {
        let _ = write!(
            text,
            " tcp {} [bad hdr length {header} - too short, < 20]",
            length - header.min(length)
        );
        return text;
    }
    let _ = write!(text, "Flags [{}]", flags(set));
    if header > length {
        let _ = write!(text, " [bad hdr length {header} - too long, > {length}]");
        return text;
    }
    let data = length - header;
    if data > 0 || set & 0x07 != 0 {
        let _ = write!(text, ", seq {seq}");
        if data > 0 {
            let _ = write!(text, ":{}", seq.wrapping_add(data as u32));
        }
    }
    if set & 0x10 != 0 {
        let _ = write!(text, ", ack {ack}");
    }
    let _ = write!(text, ", win {win}");
    if set & 0x20 != 0 {
        let _ = write!(text, ", urg {urgent}");
    }
    if header > 20 {
        match b.get(20..header) {
            Some(o) if options(&mut text, o) => {}
            Some(_) => return text,
            None => {
                text.push_str(", options [|tcp]");
                return text;
            }
        }
    }
    let _ = write!(text, ", length {data}");
    text
}

fn option_name(kind: u8) -> Option<&'static str> {
    Some(match kind {
        2 => "mss",
        3 => "wscale",
        4 => "sackOK",
        5 => "sack",
        8 => "TS",
        19 => "md5",
        28 => "uto",
        29 => "tcp-ao",
        30 => "mptcp",
        34 => "tfo",
        253 | 254 => "exp",
        _ => return None,
    })
}

/// `, options [mss 1460,nop,wscale 7]`; false: they are wrong, and nothing is said behind them.
fn options(text: &mut String, mut o: &[u8]) -> bool {
    text.push_str(", options [");
    let mut first = true;
    // each turn takes a byte at least
    while let Some((kind, rest)) = o.split_first() {
        if !first {
            text.push(',');
        }
        first = false;
        if let 0 | 1 = kind {
            text.push_str(if *kind == 0 { "eol" } else { "nop" });
            if *kind == 0 {
                break;
            }
            o = rest;
            continue;
        }
        let len = rest.first().map_or(0, |l| usize::from(*l));
        let Some(value) = o.get(2..len) else {
            text.push_str(if rest.is_empty() {
                " [|tcp]"
            } else {
                "[bad opt]"
            });
            return false;
        };
        match option_name(*kind) {
            Some(n) => text.push_str(n),
            None => {
                let _ = write!(text, "unknown-{kind}");
            }
        }
        option_value(text, *kind, value, len);
        o = o.get(len..).unwrap_or(&[]);
    }
    text.push(']');
    true
}

fn option_value(text: &mut String, kind: u8, value: &[u8], len: usize) {
    let used = match (kind, value) {
        (2, [a, b, ..]) => {
            let _ = write!(text, " {}", u16::from_be_bytes([*a, *b]));
            2
        }
        (3, [shift, ..]) => {
            let _ = write!(text, " {shift}");
            1
        }
        (4, _) => 0,
        (5, all) if !all.len().is_multiple_of(8) => {
            text.push_str(" invalid sack");
            all.len()
        }
        (5, all) => {
            let _ = write!(text, " {} ", all.len() / 8);
            for c in all.chunks_exact(8) {
                let (from, to) = (be32(c, 0).unwrap_or(0), be32(c, 4).unwrap_or(0));
                let _ = write!(text, "{{{from}:{to}}}");
            }
            all.len()
        }
        (8, all) if all.len() >= 8 => {
            let (val, ecr) = (be32(all, 0).unwrap_or(0), be32(all, 4).unwrap_or(0));
            let _ = write!(text, " val {val} ecr {ecr}");
            8
        }
        (253 | 254, all) => {
            let _ = write!(text, "-{}", hex(all));
            all.len()
        }
        (_, all) => {
            if !all.is_empty() {
                let _ = write!(text, " 0x{}", hex(all));
            }
            all.len()
        }
    };
    if used + 2 != len {
        let _ = write!(text, "[len {len}]");
    }
}

/// UDP: `length` bytes from its header on, of which `b` are there.
pub(super) fn udp(ends: &Ends<'_>, b: &[u8], length: usize) -> String {
    let (Some(from), Some(to)) = (be16(b, 0), be16(b, 2)) else {
        return format!("{} > {}: [|udp]", ends.src, ends.dst);
    };
    let mut text = ends.ports(from, to);
    if length < 8 {
        let _ = write!(text, "truncated-udp {length}");
        return text;
    }
    let Some(told) = be16(b, 4).map(usize::from).filter(|_| b.len() >= 8) else {
        text.push_str(" [|udp]");
        return text;
    };
    match told {
        0..8 => {
            let _ = write!(text, "truncated-udplength {told}");
        }
        n if n > length && !ends.fragment => {
            let _ = write!(
                text,
                "UDP, bad length {} > {}",
                n - 8,
                length.saturating_sub(8)
            );
        }
        n => {
            let _ = write!(text, "UDP, length {}", n - 8);
        }
    }
    text
}
