//! Answers to a capture: what the other side would send back to packets that have been seen.
//!
//! This is how traffic for the far side of a NAT is made: run one direction through the chain, capture what leaves,
//! answer that. Each TCP or UDP packet and each ICMP echo request gets one answer: addresses and ports exchanged, a TCP
//! SYN is accepted, data is acknowledged. Everything else gets none.

use std::path::Path;

use onefold_capture::CaptureReader;
use onefold_packet::checksum;
use onefold_packet::wire::{ethernet, icmp, ipv4, ipv6, tcp};

use crate::error::GenError;
use crate::run::{Progress, WrittenFile};

/// The answer comes this much later than the packet, in nanoseconds.
const DELAY_NS: i64 = 100_000;
/// TTL and hop limit of answers.
const TTL: u8 = 64;

/// Turns a frame into its answer, in place. `false`: there is none.
pub fn answer(frame: &mut [u8]) -> bool {
    let Some(mut eth) = ethernet::Header::parse(&mut *frame) else {
        return false;
    };
    let (src, dst, kind) = (eth.src(), eth.dst(), eth.ethertype());
    eth.set_src(dst);
    eth.set_dst(src);
    let Some(body) = frame.get_mut(ethernet::LEN..) else {
        return false;
    };
    match kind {
        ethernet::ethertype::IPV4 => answer4(body),
        ethernet::ethertype::IPV6 => answer6(body),
        _ => false,
    }
}

fn answer4(body: &mut [u8]) -> bool {
    let Some(mut ip) = ipv4::Header::parse(&mut *body) else {
        return false;
    };
    if ip.version() != 4 || ip.header_len() < ipv4::LEN || !ip.is_first_fragment() {
        return false;
    }
    let (src, dst, proto, at) = (ip.src(), ip.dst(), ip.protocol(), ip.header_len());
    let payload = usize::from(ip.total_len()).saturating_sub(at);
    ip.set_src(dst);
    ip.set_dst(src);
    ip.set_ttl(TTL);
    ip.fill_checksum();
    body.get_mut(at..)
        .is_some_and(|t| transport(t, proto, payload, ipv4::proto::ICMP))
}

fn answer6(body: &mut [u8]) -> bool {
    let Some(mut ip) = ipv6::Header::parse(&mut *body) else {
        return false;
    };
    let Some((proto, at, false)) = ip.upper_layer() else {
        return false;
    };
    let (src, dst) = (ip.src(), ip.dst());
    let payload = (ipv6::LEN + usize::from(ip.payload_len())).saturating_sub(at);
    ip.set_src(dst);
    ip.set_dst(src);
    ip.set_hop_limit(TTL);
    body.get_mut(at..)
        .is_some_and(|t| transport(t, proto, payload, ipv4::proto::ICMP6))
}

/// Ports, flags, types. The checksum changes by what was written, so one that was wrong stays wrong.
fn transport(t: &mut [u8], proto: u8, len: usize, icmp_proto: u8) -> bool {
    match proto {
        ipv4::proto::UDP if t.len() >= 8 => {
            exchange_ports(t);
            true
        }
        ipv4::proto::TCP => {
            exchange_ports(t);
            let Some(mut h) = tcp::Header::parse(t) else {
                return false;
            };
            let (seq, ack, flags) = (h.sequence(), h.ack(), h.flags());
            if flags & tcp::flag::RST != 0 {
                return false;
            }
            let phantom =
                u32::from(flags & tcp::flag::SYN != 0) + u32::from(flags & tcp::flag::FIN != 0);
            let got = (len.saturating_sub(h.header_len()) as u32).wrapping_add(phantom);
            let back = (flags & (tcp::flag::SYN | tcp::flag::FIN)) | tcp::flag::ACK;
            let mut sum = checksum::update32(h.checksum(), seq, ack);
            sum = checksum::update32(sum, ack, seq.wrapping_add(got));
            sum = checksum::update(sum, u16::from(flags), u16::from(back));
            h.set_sequence(ack);
            h.set_ack(seq.wrapping_add(got));
            h.set_flags(back);
            h.set_checksum(sum);
            true
        }
        p if p == icmp_proto => {
            let (ask, reply) = if p == ipv4::proto::ICMP {
                (8, 0)
            } else {
                (128, 129)
            };
            let Some(mut h) = icmp::Header::parse(t) else {
                return false;
            };
            if h.kind() != ask {
                return false;
            }
            let sum = checksum::update(h.checksum(), u16::from(ask) << 8, u16::from(reply) << 8);
            h.set_kind_code(reply, 0);
            h.set_checksum(sum);
            true
        }
        _ => false,
    }
}

fn exchange_ports(t: &mut [u8]) {
    if let Some([a, b, c, d]) = t.first_chunk_mut::<4>() {
        std::mem::swap(a, c);
        std::mem::swap(b, d);
    }
}

/// Answers the first `limit` packets of `from` that have an answer, into `to`. Gives the file and its mean frame
/// length, and whether it was stopped.
///
/// # Errors
/// A capture cannot be read or written.
pub fn answers(
    from: &Path,
    to: &Path,
    limit: u64,
    progress: &mut dyn Progress,
) -> Result<(WrittenFile, f64, bool), GenError> {
    let mut reader = match crate::output::is_standard(from) {
        true => CaptureReader::from_reader(std::io::stdin())?,
        false => CaptureReader::open(from)?,
    };
    let mut writer = crate::output::capture(to)?;
    let mut frame = Vec::new();
    let (mut n, mut bytes, mut stopped) = (0u64, 0u64, false);
    while n < limit {
        let Some(next) = reader.next_into(&mut frame) else {
            break;
        };
        let meta = next?;
        if !answer(&mut frame) {
            continue;
        }
        writer.write(
            meta.ts_ns.saturating_add(DELAY_NS),
            &frame,
            frame.len() as u32,
        )?;
        n += 1;
        bytes += frame.len() as u64;
        if n.is_multiple_of(4096) && !progress.packets(n, limit) {
            stopped = true;
            break;
        }
    }
    writer.finish()?;
    if !stopped {
        progress.packets(n, n);
    }
    let file = WrittenFile {
        path: to.to_path_buf(),
        what: "capture",
        items: n,
    };
    Ok((file, bytes as f64 / n.max(1) as f64, stopped))
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::{NetSlice, PacketBuilder, SlicedPacket, TransportSlice};

    fn checked(frame: &[u8]) -> SlicedPacket<'_> {
        let p = SlicedPacket::from_ethernet(frame).unwrap();
        let Some(NetSlice::Ipv4(ip)) = &p.net else {
            panic!("no IPv4")
        };
        assert_eq!(
            ip.header().to_header().calc_header_checksum(),
            ip.header().header_checksum()
        );
        p
    }

    #[test]
    fn a_syn_is_accepted_and_data_acknowledged() {
        let b = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9);
        let mut f = Vec::new();
        b.tcp(1000, 80, 7, 512).syn().write(&mut f, &[]).unwrap();
        assert!(answer(&mut f));
        let p = checked(&f);
        let Some(TransportSlice::Tcp(t)) = &p.transport else {
            panic!()
        };
        assert_eq!((t.source_port(), t.destination_port()), (80, 1000));
        assert!(t.syn() && t.ack());
        assert_eq!(t.acknowledgment_number(), 8);
        let Some(NetSlice::Ipv4(ip)) = &p.net else {
            panic!()
        };
        assert_eq!(
            (ip.header().source(), ip.header().ttl()),
            ([10, 0, 0, 2], 64)
        );
        assert_eq!(
            t.to_header()
                .calc_checksum_ipv4(&ip.header().to_header(), t.payload())
                .unwrap(),
            t.checksum()
        );
        assert_eq!(&f[..6], &[1; 6]);

        let b = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9);
        let mut f = Vec::new();
        b.tcp(1000, 80, 100, 512)
            .ack(55)
            .write(&mut f, b"hello")
            .unwrap();
        assert!(answer(&mut f));
        let p = checked(&f);
        let Some(TransportSlice::Tcp(t)) = &p.transport else {
            panic!()
        };
        assert_eq!(
            (t.sequence_number(), t.acknowledgment_number(), t.ack()),
            (55, 105, true)
        );
    }

    #[test]
    fn echo_requests_are_answered_replies_are_not() {
        let b = PacketBuilder::ethernet2([1; 6], [2; 6]).ipv4([10, 0, 0, 1], [10, 0, 0, 2], 9);
        let mut f = Vec::new();
        b.icmpv4_echo_request(3, 4).write(&mut f, b"abc").unwrap();
        assert!(answer(&mut f));
        let p = checked(&f);
        let Some(TransportSlice::Icmpv4(i)) = &p.transport else {
            panic!()
        };
        assert_eq!(i.type_u8(), 0);
        assert_eq!(checksum::internet(i.slice()), 0);
        drop(p);
        assert!(!answer(&mut f), "a reply gets no answer");
        assert!(!answer(&mut [0; 20]));
        assert!(!answer(&mut []));
    }
}
