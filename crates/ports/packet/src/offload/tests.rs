//! What is cut and finished has the lengths, numbers, flags and checksums that a receiver expects.

use super::*;
use etherparse::{PacketBuilder, SlicedPacket, TransportSlice};
use onefold_packet::Packet;

const MACS: ([u8; 6], [u8; 6]) = ([2, 0, 0, 0, 0, 1], [2, 0, 0, 0, 0, 2]);

fn payload(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i * 7 + i / 251) as u8).collect()
}

/// A TCP frame with FIN, PSH and CWR, and where its TCP header begins.
fn tcp(v6: bool, tag: bool, n: usize) -> (Vec<u8>, usize) {
    let e = PacketBuilder::ethernet2(MACS.0, MACS.1);
    let data = payload(n);
    let mut f = Vec::new();
    macro_rules! build {
        ($b:expr) => {{
            let b = match v6 {
                true => $b.ipv6([1; 16], [2; 16], 64),
                false => $b.ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64),
            };
            let b = b.tcp(1000, 80, 0xffff_f000, 500).psh().fin().ack(7).cwr();
            b.write(&mut f, &data).unwrap();
        }};
    }
    match tag {
        true => build!(e.single_vlan(7u16.try_into().unwrap())),
        false => build!(e),
    }
    let ip = if tag { 18 } else { 14 };
    let l4 = ip + if v6 { 40 } else { 20 };
    (f, l4)
}

fn offload(kind: u8, size: usize, start: usize, offset: u16) -> Offload {
    let mut h = [0u8; HEADER];
    h[0] = NEEDS_CHECKSUM;
    h[1] = kind;
    h[4..6].copy_from_slice(&(size as u16).to_ne_bytes());
    h[6..8].copy_from_slice(&(start as u16).to_ne_bytes());
    h[8..10].copy_from_slice(&offset.to_ne_bytes());
    Offload::read(&h)
}

fn cut(frame: &[u8], o: &Offload) -> Vec<Vec<u8>> {
    let mut s = Segments::default();
    assert!(s.begin(frame, o));
    let mut all = Vec::new();
    let mut p = Box::new(Packet::from_slice(&[]));
    while s.next(&mut p) {
        all.push(p.data().to_vec());
    }
    assert!(s.is_empty());
    all
}

/// Checks every checksum of a frame with another implementation.
fn check(f: &[u8]) {
    let p = SlicedPacket::from_ethernet(f).unwrap();
    let net = p.net.unwrap();
    let transport = p.transport.unwrap();
    use etherparse::NetSlice;
    let (sum, want) = match (&net, &transport) {
        (NetSlice::Ipv4(ip), TransportSlice::Tcp(t)) => {
            assert_eq!(
                ip.header().to_header().calc_header_checksum(),
                ip.header().header_checksum()
            );
            (
                t.checksum(),
                t.calc_checksum_ipv4(ip.header().source(), ip.header().destination())
                    .unwrap(),
            )
        }
        (NetSlice::Ipv6(ip), TransportSlice::Tcp(t)) => (
            t.checksum(),
            t.calc_checksum_ipv6(ip.header().source(), ip.header().destination())
                .unwrap(),
        ),
        (NetSlice::Ipv4(ip), TransportSlice::Udp(u)) => {
            let h = u.to_header();
            let header = ip.header().to_header();
            (
                h.checksum,
                h.calc_checksum_ipv4(&header, u.payload()).unwrap(),
            )
        }
        other => panic!("{other:?}"),
    };
    assert_eq!(sum, want);
}

#[test]
fn tcp_is_cut_as_the_kernel_does() {
    for (v6, tag) in [(false, false), (true, false), (false, true), (true, true)] {
        let (frame, l4) = tcp(v6, tag, 5000);
        let kind = if v6 { TCP6 } else { TCP4 };
        let all = cut(&frame, &offload(kind | WITH_ECN, 1400, l4, 16));
        assert_eq!(all.len(), 4);
        let mut data = Vec::new();
        for (i, f) in all.iter().enumerate() {
            check(f);
            let p = SlicedPacket::from_ethernet(f).unwrap();
            let Some(TransportSlice::Tcp(t)) = &p.transport else {
                panic!()
            };
            assert_eq!(
                t.sequence_number(),
                0xffff_f000u32.wrapping_add(i as u32 * 1400)
            );
            assert_eq!((t.psh(), t.fin(), t.cwr()), (i == 3, i == 3, i == 0));
            assert_eq!(t.payload().len(), if i < 3 { 1400 } else { 800 });
            data.extend_from_slice(t.payload());
            if let Some(etherparse::NetSlice::Ipv4(ip)) = &p.net {
                assert_eq!(ip.header().identification(), i as u16);
                assert_eq!(
                    usize::from(ip.header().total_len()),
                    f.len() - if tag { 18 } else { 14 }
                );
            }
        }
        assert_eq!(data, payload(5000));
    }
}

#[test]
fn udp_is_cut_into_datagrams() {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2(MACS.0, MACS.1)
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(1000, 53)
        .write(&mut frame, &payload(2500))
        .unwrap();
    let all = cut(&frame, &offload(UDP, 1000, 34, 6));
    let lengths: Vec<usize> = all.iter().map(|f| f.len() - 42).collect();
    assert_eq!(lengths, [1000, 1000, 500]);
    all.iter().for_each(|f| check(f));
}

#[test]
fn a_checksum_that_is_not_finished_is_finished() {
    let (right, l4) = tcp(false, false, 333);
    let mut frame = right.clone();
    // what the kernel leaves: the sum of the pseudo header, not complemented
    let pseudo = pseudo_v4([10, 0, 0, 1], [10, 0, 0, 2], 6, (frame.len() - l4) as u16);
    put(&mut frame, l4 + 16, fold(pseudo));
    let mut o = offload(WHOLE, 0, l4, 16);
    assert!(!o.is_none() && !o.is_large());
    assert!(complete(&mut frame, &o));
    assert_eq!(frame, right);
    o.flags = 0;
    assert!(o.is_none());
}

#[test]
fn headers_that_lie_are_refused() {
    let (frame, l4) = tcp(false, false, 3000);
    let mut s = Segments::default();
    for o in [
        offload(TCP4, 0, l4, 16),
        offload(TCP4, 1400, l4 + 4, 16),
        offload(TCP4, 1400, 9, 16),
        offload(TCP4, 1400, 60_000, 16),
        offload(TCP6, 1400, l4, 16),
        offload(UDP, 1400, l4, 6),
        offload(3, 1400, l4, 6),
    ] {
        assert!(!s.begin(&frame, &o), "{o:?}");
        assert!(s.is_empty());
    }
    for cut in 0..l4 + 20 {
        assert!(
            !s.begin(&frame[..cut], &offload(TCP4, 1400, l4, 16)),
            "{cut}"
        );
    }
    let mut short = frame.clone();
    assert!(!complete(
        &mut short,
        &offload(WHOLE, 0, frame.len() - 4, 16)
    ));
    assert!(!complete(&mut short, &offload(WHOLE, 0, 65_000, 65_000)));
}
