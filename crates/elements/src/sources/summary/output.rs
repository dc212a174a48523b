//! Fields as text and as bytes.

use super::field::{Binary, Field, Info};
use super::tcp_options::{self, Which};
use super::view::{Value, View};
use super::{ip_options, view};
use crate::icmp_names;
use onefold_packet::{EtherAddr, Timestamp};
use std::fmt::Write as _;

/// Letters of TCP flags, lowest bit first.
pub const TCP_FLAGS: &[u8] = b"FSRPAUECN";

/// Which options a field shows.
pub fn which(field: Field) -> Which {
    match field {
        Field::TcpSack => Which::Sack,
        Field::TcpNtOpt => Which::NoTimestamps,
        _ => Which::All,
    }
}

/// Appends a value's text.
pub fn text(field: Field, v: Value<'_>, view: &View<'_>, out: &mut Vec<u8>) {
    let mut s = String::new();
    match v {
        Value::Time(t) => {
            let _ = write!(s, "{t}");
        }
        Value::Number(n) => number(field, n, view, &mut s),
        Value::Bytes(b) => match (field, b) {
            (Field::IpSrc | Field::IpDst, [a, b, c, d]) => {
                let _ = write!(s, "{a}.{b}.{c}.{d}");
            }
            (Field::EthSrc | Field::EthDst, _) => {
                let _ = write!(s, "{}", EtherAddr::from_slice(b).unwrap_or_default());
            }
            (Field::IpOpt, _) => s = ip_options::text(b),
            (Field::Payload, _) => s = onefold_click::conf::quote(b),
            (Field::PayloadMd5, _) => s = digest_text(&md5::compute(b).0),
            (Field::PayloadMd5Hex, _) => {
                for byte in md5::compute(b).0 {
                    let _ = write!(s, "{byte:02x}");
                }
            }
            _ => s = tcp_options::text(b, which(field)),
        },
    }
    out.extend_from_slice(s.as_bytes());
}

fn number(field: Field, n: u64, view: &View<'_>, s: &mut String) {
    // the values below come from fields of at most 16 bits
    let byte = n as u8;
    let _ = match (field, n) {
        (Field::Direction, 0) => write!(s, ">"),
        (Field::Direction, 1) => write!(s, "<"),
        (Field::EthType, _) => write!(s, "{n:04X}"),
        (Field::IpFrag, _) => write!(s, "{}", char::from(byte)),
        (Field::IpFragOff, _) => {
            let more = if n & 0x2000 != 0 { "+" } else { "" };
            let whole = if n & 0x4000 != 0 { "!" } else { "" };
            write!(s, "{}{more}{whole}", (n & 0x1fff) << 3)
        }
        (Field::IpProto, 6) => write!(s, "T"),
        (Field::IpProto, 17) => write!(s, "U"),
        (Field::IpProto, 1) => write!(s, "I"),
        (Field::IpEcn, _) => {
            let names = ["no", "ect1", "ect2", "ce"];
            write!(s, "{}", names[usize::from(byte & 3)])
        }
        (Field::TcpFlags, 0) => write!(s, "."),
        (Field::TcpFlags, 0x18) => write!(s, "PA"),
        (Field::TcpFlags, _) => {
            let set = TCP_FLAGS
                .iter()
                .enumerate()
                .filter(|(i, _)| n & (1 << i) != 0);
            s.extend(set.map(|(_, c)| char::from(*c)));
            Ok(())
        }
        (Field::IcmpTypeName, _) => match icmp_names::type_name(byte) {
            Some(name) => write!(s, "{name}"),
            None => write!(s, "{n}"),
        },
        (Field::IcmpCodeName, _) => match icmp_names::code_name(view.icmp_type(), byte) {
            Some(name) => write!(s, "{name}"),
            None => write!(s, "{n}"),
        },
        _ => write!(s, "{n}"),
    };
}

/// A digest in 22 characters, six bits each, lowest first.
fn digest_text(d: &[u8; 16]) -> String {
    const CHARS: &[u8; 64] = b"abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@";
    let all = u128::from_le_bytes(*d);
    (0..128)
        .step_by(6)
        .map(|bit| char::from(CHARS[(all >> bit) as usize & 63]))
        .collect()
}

/// Appends a value's bytes; zeros where the packet has no such field.
pub fn binary(info: &Info, v: Option<Value<'_>>, out: &mut Vec<u8>) {
    let number = match v {
        Some(Value::Number(n)) => n,
        _ => 0,
    };
    let time = match v {
        Some(Value::Time(t)) => t,
        _ => Timestamp::ZERO,
    };
    let bytes = match v {
        Some(Value::Bytes(b)) => b,
        _ => &[],
    };
    // times end in 2106, as the format's 32 bits do
    let sec = (time.sec() as u32).to_be_bytes();
    match info.binary {
        Binary::Never => {}
        Binary::Number(n) => {
            let all = number.to_be_bytes();
            out.extend_from_slice(all.get(8 - n.min(8)..).unwrap_or(&all));
        }
        Binary::Address(n) => {
            let start = out.len();
            out.extend(bytes.iter().take(n));
            out.resize(start + n, 0);
        }
        Binary::Micros => {
            out.extend(sec);
            out.extend((time.subsec_nanos() / 1000).to_be_bytes());
        }
        Binary::Nanos => {
            out.extend(time.subsec_nanos().to_be_bytes());
            out.extend(sec);
        }
        // of nothing where there is no payload
        Binary::Digest => out.extend(md5::compute(bytes).0),
        Binary::Counted => {
            let chosen = match info.field {
                Field::IpOpt => bytes.to_vec(),
                f => tcp_options::select(bytes, which(f)),
            };
            // headers have room for 40 bytes of options
            out.push(chosen.len().min(255) as u8);
            out.extend(chosen.iter().take(255));
        }
    }
}

/// One packet's line or record.
pub struct Summary<'a> {
    /// The fields, in order.
    pub fields: &'a [&'static Info],
    /// Records instead of lines.
    pub binary: bool,
    /// Truncated IP packets are bad.
    pub careful: bool,
    /// Lengths include the extra length annotation.
    pub extra_counts: bool,
}

impl Summary<'_> {
    /// Appends the summary of `p`; adjusts its extra length annotation where the IP header is looked at.
    pub fn of(&self, p: &mut onefold_packet::Packet, bad: &mut view::Bad, out: &mut Vec<u8>) {
        let prepared = match self.fields.iter().any(|i| i.field.needs_ip()) {
            true => view::prepare(p, self.careful, bad),
            false => view::Prepared::default(),
        };
        let view = View::new(p, prepared, self.extra_counts);
        if self.binary {
            let start = out.len();
            out.extend([0; 4]);
            for info in self.fields {
                let v = view.value(info.field, bad);
                binary(info, v, out);
            }
            let len = ((out.len() - start) as u32).to_be_bytes();
            if let Some(b) = out.get_mut(start..start + 4) {
                b.copy_from_slice(&len);
            }
            return;
        }
        for (i, info) in self.fields.iter().enumerate() {
            if i > 0 {
                out.push(b' ');
            }
            match view.value(info.field, bad) {
                Some(v) => text(info.field, v, &view, out),
                None => out.push(b'-'),
            }
        }
        out.push(b'\n');
    }
}
