//! Neighbours: who has the address of a next hop is asked (ARP, RFC 826; neighbour discovery, RFC 4861), and whoever
//! asks the generator is answered. It stands for all hosts behind its ports, so it answers for every address.

use onefold_packet::wire::{arp, ipv6};
use onefold_packet::{EtherAddr, checksum};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

const BROADCAST: EtherAddr = EtherAddr([0xff; 6]);
const ARP: [u8; 2] = [8, 6];
const IPV6: [u8; 2] = [0x86, 0xdd];
const SOLICITATION: u8 = 135;
const ADVERTISEMENT: u8 = 136;
/// Bytes of the message with one option.
const MESSAGE: usize = 32;

fn ethernet(to: EtherAddr, from: EtherAddr, kind: [u8; 2]) -> Vec<u8> {
    [&to.0[..], &from.0, &kind].concat()
}

/// A neighbour discovery message in a frame; `flags` of an advertisement.
fn discovery(
    link: (EtherAddr, EtherAddr),
    (src, dst): (Ipv6Addr, Ipv6Addr),
    (kind, flags, target): (u8, u8, Ipv6Addr),
) -> Vec<u8> {
    let mut f = ethernet(link.0, link.1, IPV6);
    f.extend([0x60, 0, 0, 0, 0, MESSAGE as u8, 58, 255]);
    f.extend(src.octets());
    f.extend(dst.octets());
    let at = f.len();
    f.extend([kind, 0, 0, 0, flags, 0, 0, 0]);
    f.extend(target.octets());
    // source or target link-layer address
    f.extend([if kind == SOLICITATION { 1 } else { 2 }, 1]);
    f.extend(link.1.0);
    let pseudo = checksum::pseudo_v6(&src.octets(), &dst.octets(), 58, MESSAGE as u32);
    let sum = !checksum::fold(checksum::sum(f.get(at..).unwrap_or_default(), pseudo));
    if let Some(to) = f.get_mut(at + 2..at + 4) {
        to.copy_from_slice(&sum.to_be_bytes());
    }
    f
}

/// The frame that asks who has an address. `own`: the MAC address, and IP address of the same family, of who asks.
/// `None`: the families are different.
pub fn question((mac, ip): (EtherAddr, IpAddr), target: IpAddr) -> Option<Vec<u8>> {
    match (ip, target) {
        (IpAddr::V4(ip), IpAddr::V4(target)) => {
            let mut f = ethernet(BROADCAST, mac, ARP);
            let nobody = EtherAddr([0; 6]);
            f.extend(arp::build(
                arp::REQUEST,
                (mac, ip.octets()),
                (nobody, target.octets()),
            ));
            f.resize(60, 0);
            Some(f)
        }
        (IpAddr::V6(ip), IpAddr::V6(target)) => {
            let [.., a, b, c] = target.octets();
            // the solicited-node multicast address
            let group = Ipv6Addr::new(
                0xff02,
                0,
                0,
                0,
                0,
                1,
                0xff00 | u16::from(a),
                u16::from_be_bytes([b, c]),
            );
            let to = EtherAddr([0x33, 0x33, 0xff, a, b, c]);
            Some(discovery((to, mac), (ip, group), (SOLICITATION, 0, target)))
        }
        _ => None,
    }
}

/// A frame's neighbour discovery message: source, message.
fn message(frame: &[u8], kind: u8) -> Option<(ipv6::Header<&[u8]>, &[u8])> {
    if frame.get(12..14)? != IPV6 {
        return None;
    }
    let h = ipv6::Header::parse(frame.get(14..)?)?;
    let m = frame.get(14 + ipv6::LEN..)?;
    let is = h.next_header() == 58 && h.hop_limit() == 255 && *m.first()? == kind && m.len() >= 24;
    is.then_some((h, m))
}

fn target(message: &[u8]) -> Option<Ipv6Addr> {
    let octets = message.get(8..)?.first_chunk::<16>()?;
    Some(Ipv6Addr::from(*octets))
}

fn arp_of(frame: &[u8], operation: u16) -> Option<arp::Header<&[u8]>> {
    if frame.get(12..14)? != ARP {
        return None;
    }
    let h = arp::Header::parse(frame.get(14..)?)?;
    (h.is_ether_ipv4() && h.operation() == operation).then_some(h)
}

/// The MAC address that a frame tells of an IP address, if it does.
pub fn learn(frame: &[u8], of: IpAddr) -> Option<EtherAddr> {
    match of {
        IpAddr::V4(ip) => {
            let h = arp_of(frame, arp::REPLY)?;
            (h.sender_ip() == ip.octets()).then(|| h.sender_ether())
        }
        IpAddr::V6(ip) => {
            let (_, m) = message(frame, ADVERTISEMENT)?;
            if target(m)? != ip {
                return None;
            }
            match m.get(24..32) {
                Some([2, 1, mac @ ..]) => EtherAddr::from_slice(mac),
                _ => EtherAddr::from_slice(frame.get(6..12)?),
            }
        }
    }
}

/// The answer of `mac` to a frame that asks for a neighbour; `None`: it asks for none, or only wants to know whether
/// somebody else has its own address. `except`: an address that is somebody else's.
pub fn answer(frame: &[u8], mac: EtherAddr, except: Option<IpAddr>) -> Option<Vec<u8>> {
    if let Some(h) = arp_of(frame, arp::REQUEST) {
        let (from, to) = (h.sender_ip(), h.target_ip());
        let probe = from == to || from == [0; 4];
        if probe || except == Some(Ipv4Addr::from(to).into()) {
            return None;
        }
        let mut f = ethernet(h.sender_ether(), mac, ARP);
        f.extend(arp::build(arp::REPLY, (mac, to), (h.sender_ether(), from)));
        f.resize(60, 0);
        return Some(f);
    }
    let (h, m) = message(frame, SOLICITATION)?;
    let (src, of) = (Ipv6Addr::from(h.src()), target(m)?);
    if src.is_unspecified() || src == of || except == Some(of.into()) {
        return None;
    }
    let to = EtherAddr::from_slice(frame.get(6..12)?)?;
    // solicited, override
    Some(discovery((to, mac), (of, src), (ADVERTISEMENT, 0x60, of)))
}

/// The source address of a frame's IP packet.
pub fn source(frame: &[u8]) -> Option<IpAddr> {
    use onefold_packet::wire::ipv4;
    let ip = frame.get(14..)?;
    match *frame.get(12..14)?.first_chunk::<2>()? {
        [8, 0] => Some(Ipv4Addr::from(ipv4::Header::parse(ip)?.src()).into()),
        IPV6 => Some(Ipv6Addr::from(ipv6::Header::parse(ip)?.src()).into()),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 1]);
    const YOU: EtherAddr = EtherAddr([2, 0, 0, 0, 0, 2]);

    #[test]
    fn what_one_asks_the_other_answers_and_the_first_one_learns() {
        for (own, other) in [("10.0.0.1", "10.0.0.254"), ("2001:db8::1", "2001:db8::fe")] {
            let (own, other): (IpAddr, IpAddr) = (own.parse().unwrap(), other.parse().unwrap());
            let q = question((ME, own), other).unwrap();
            assert_eq!(learn(&q, other), None);
            let a = answer(&q, YOU, None).unwrap();
            assert_eq!(learn(&a, other), Some(YOU));
            assert_eq!(learn(&a, own), None);
            assert_eq!(a[..6], ME.0);
            assert_eq!(answer(&a, ME, None), None, "an answer is no question");
            assert_eq!(answer(&q, YOU, Some(other)), None);
            let probe = question((ME, other), other).unwrap();
            assert_eq!(
                answer(&probe, YOU, None),
                None,
                "who asks for its own address"
            );
        }
        let mixed = question((ME, "10.0.0.1".parse().unwrap()), "::1".parse().unwrap());
        assert_eq!(mixed, None);
    }

    #[test]
    fn checksums_are_right() {
        let own = "2001:db8::1".parse().unwrap();
        let q = question((ME, own), "2001:db8::7:8".parse().unwrap()).unwrap();
        assert_eq!(q[..6], [0x33, 0x33, 0xff, 7, 0, 8]);
        for f in [&q, &answer(&q, YOU, None).unwrap()] {
            let h = ipv6::Header::parse(&f[14..]).unwrap();
            let pseudo = checksum::pseudo_v6(&h.src(), &h.dst(), 58, 32);
            assert_eq!(checksum::fold(checksum::sum(&f[54..], pseudo)), 0xffff);
            assert_eq!(source(f), Some(IpAddr::V6(h.src().into())));
        }
    }

    #[test]
    fn other_frames_are_no_questions() {
        for n in 0..64 {
            let f = vec![0; n];
            assert_eq!((answer(&f, ME, None), source(&f)), (None, None));
        }
    }
}
