//! IPFragmenter: splits IP packets that are longer than a link allows (RFC 791).

use super::options::{kind, store_checksum};
use crate::ip4;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx, Read, ValueSet};
use onefold_element::{
    Batching, Clock, ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port,
    element_any, pass_while,
};
use onefold_packet::wire::ipv4::{DF, LEN, MF};
use onefold_packet::{MAX_PACKET_LEN, Pkt, Timestamp};
use std::net::Ipv4Addr;

/// `IPFragmenter`.
pub const IP_FRAGMENTER: ElementClass = ElementClass {
    name: "IPFragmenter",
    ports: "1/1-2",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Originating,
    usage: "MTU [, HONOR_DF, VERBOSE, keyword HEADROOM]",
    summary: "splits IP packets longer than MTU into fragments",
    new: || Box::new(IpFragmenter::default()),
};

/// As Click. Packets longer than MTU without a whole IP header, or whose total length is beyond the packet's end, are
/// dropped; Click copies what lies behind them. HEADROOM is accepted and has no effect: headroom grows when needed.
#[derive(Debug, Clone, Default)]
struct IpFragmenter {
    mtu: u32,
    ignore_df: bool,
    verbose: bool,
    drops: u32,
    fragments: u32,
    /// Fragments of one packet while they are made; empty between packets.
    rest: Vec<Pkt>,
}

/// The options that every fragment carries, padded to a multiple of four. Malformed options end the copy.
fn copied_options(options: &[u8], out: &mut [u8; 40]) -> usize {
    let (mut i, mut n) = (0, 0);
    while let Some(&kind) = options.get(i) {
        if kind == kind::NOP {
            i += 1;
            continue;
        }
        let len = match options.get(i + 1) {
            Some(l) if kind != kind::END => usize::from(*l),
            _ => break,
        };
        let Some(option) = options.get(i..i + len).filter(|o| o.len() >= 2) else {
            break;
        };
        if kind & 0x80 != 0 {
            // at most as long as the input's options, which are at most 40 bytes
            if let Some(to) = out.get_mut(n..n + len) {
                to.copy_from_slice(option);
            }
            n += len;
        }
        i += len;
    }
    while n % 4 != 0 {
        if let Some(b) = out.get_mut(n) {
            *b = kind::END;
        }
        n += 1;
    }
    n
}

const NO_HEADER: DropReason = "IPFragmenter: no IP header";

impl IpFragmenter {
    fn refuse(&mut self, p: Pkt, src: [u8; 4], dst: [u8; 4], cx: &mut Cx<'_>) {
        if self.verbose || self.drops < 5 {
            cx.chatter(&format!(
                "IPFragmenter({}) DF {} {} len={}\n",
                self.mtu,
                Ipv4Addr::from(src),
                Ipv4Addr::from(dst),
                p.len()
            ));
        }
        self.drops = self.drops.wrapping_add(1);
        cx.decide(None, || "too long and not to be fragmented".into());
        cx.emit_or_drop(1, p, "IPFragmenter: too long and not to be fragmented");
    }

    fn fragment(&mut self, mut p: Pkt, cx: &mut Cx<'_>) {
        let Some(hlen) = ip4::whole_header_len(&p) else {
            return cx.drop(p, NO_HEADER);
        };
        let Some(mut h) = ip4::header_mut(&mut p) else {
            return cx.drop(p, NO_HEADER);
        };
        let first_len = self.mtu.saturating_sub(hlen as u32) as usize & !7;
        let total = usize::from(h.total_len());
        let data_len = total.saturating_sub(hlen);
        if h.frag_word() & DF != 0 && !self.ignore_df || first_len < 8 {
            let (src, dst) = (h.src(), h.dst());
            return self.refuse(p, src, dst, cx);
        }
        if total > h.bytes().len() {
            return cx.drop(p, "IPFragmenter: packet shorter than its header says");
        }
        let mut word = h.frag_word();
        if word & DF != 0 {
            // an identification is not to be trusted to be unique when DF was set
            word &= !DF;
            h.set_id(cx.random() as u16);
        }
        let had_more = word & MF != 0;
        word |= MF;
        h.set_frag_word(word);
        h.set_total_len((hlen + first_len) as u16);
        let mut header = [0u8; LEN + 40];
        header[..LEN].copy_from_slice(&h.bytes()[..LEN]);
        let mut options = [0u8; 40];
        let options_len = copied_options(h.options(), &mut options);
        header[LEN..].copy_from_slice(&options);
        let out_hlen = LEN + options_len;
        header[0] = header[0] & 0xf0 | (out_hlen / 4) as u8;
        // Bound: a total length is below 64 KiB and every fragment carries at least 8 bytes.
        let mut off = first_len;
        while off < data_len {
            let len = ((self.mtu as usize - out_hlen) & !7).min(data_len - off);
            let mut w = word.wrapping_add((off >> 3) as u16);
            if off + len >= data_len && !had_more {
                w &= !MF;
            }
            header[6..8].copy_from_slice(&w.to_be_bytes());
            header[2..4].copy_from_slice(&((out_hlen + len) as u16).to_be_bytes());
            store_checksum(&mut header, out_hlen);
            let mut q = cx.make(&header[..out_hlen]);
            q.put(len);
            let from = hlen + off;
            let data = p.network().and_then(|b| b.get(from..from + len));
            if let (Some(data), Some(to)) = (data, q.data_mut().get_mut(out_hlen..)) {
                to.copy_from_slice(data);
            }
            q.set_network_header(0, out_hlen);
            q.anno = p.anno;
            self.rest.push(q);
            off += len;
        }
        if let Some(b) = p.network_mut() {
            store_checksum(b, hlen);
        }
        let keep = hlen + first_len;
        let there = p.network().map_or(0, <[u8]>::len);
        p.take(there.saturating_sub(keep));
        self.fragments = self.fragments.wrapping_add(1 + self.rest.len() as u32);
        cx.decide(None, || format!("{} fragments", 1 + self.rest.len()));
        cx.emit(0, p);
        for q in self.rest.drain(..) {
            cx.emit(0, q);
        }
    }
}

impl Element for IpFragmenter {
    /// Where it may ignore DF it draws identifications.
    fn batching(&self, _: Batching) -> Batching {
        match self.ignore_df {
            true => Batching::InOrder,
            false => Batching::AnyOrder,
        }
    }
    fn clock(&self, _: Clock) -> Clock {
        Clock::Unread
    }
    fn multiplies(&self) -> bool {
        true
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.mtu = args.mandatory("MTU").unwrap_or(8);
        self.ignore_df = !args.optional("HONOR_DF").unwrap_or(true);
        self.verbose = args.optional("VERBOSE").unwrap_or(false);
        let _: Option<u32> = args.keyword("HEADROOM");
        if self.mtu < 8 && args.ok() {
            args.error("MTU: must be at least 8");
        }
        // longer packets do not exist
        self.mtu = self.mtu.min(MAX_PACKET_LEN as u32);
        args.finish()
    }

    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        match p.network() {
            Some(b) if b.len() <= self.mtu as usize => cx.emit(0, p),
            Some(_) => self.fragment(p, cx),
            None => cx.drop(p, NO_HEADER),
        }
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        // A header marked behind the packet's end counts as none, one marked at its end as an empty packet: both rare.
        let none = Cond::In(Read::HasNet, ValueSet::one(0));
        let fits = ValueSet::range(1, self.mtu.into());
        let empty = Cond::In(Read::NetLen, ValueSet::one(0));
        Model::Cases(vec![
            Case::new(none, Exit::Drop(NO_HEADER)),
            Case::new(empty, Exit::Punt("an empty IP packet")),
            Case::new(Cond::In(Read::NetLen, fits), Exit::Port(0)),
            Case::new(Cond::Always, Exit::Punt("longer than the MTU")),
        ])
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        let e = &*self;
        pass_while(batch, |p| {
            p.network().is_some_and(|b| b.len() <= e.mtu as usize)
        })
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::r("drops"), HandlerInfo::r("fragments")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "drops" => Ok(self.drops.to_string()),
            "fragments" => Ok(self.fragments.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::routing::testpkt::*;
    use crate::testing::Bench;

    fn payload(n: usize) -> Vec<u8> {
        (0..n).map(|i| i as u8).collect()
    }

    #[test]
    fn splits_as_documented() {
        let mut b = Bench::new("IPFragmenter", "100", 1, 2).unwrap();
        let d = ip(A, B, 17, &[], &payload(200));
        let mut p = marked(&d);
        p.anno.set_paint(7);
        let out = b.push_packet(0, p);
        let seen: Vec<_> = out
            .iter()
            .map(|(port, q)| {
                (
                    *port,
                    q.len(),
                    u16::from_be_bytes([q.data()[6], q.data()[7]]),
                )
            })
            .collect();
        assert_eq!(seen, [(0, 100, 0x2000), (0, 100, 0x2000 | 10), (0, 60, 20)]);
        let mut all = Vec::new();
        for (_, q) in &out {
            assert!(sound(q.data()));
            assert_eq!(q.data()[2..4], (q.len() as u16).to_be_bytes());
            assert_eq!((q.anno.paint(), q.anno.dst_ip()), (7, B));
            assert_eq!(q.network_header_offset(), Some(0));
            assert_eq!(q.data()[4..6], [0x12, 0x34]);
            all.extend_from_slice(&q.data()[20..]);
        }
        assert_eq!(all, payload(200));
        assert_eq!(b.read("fragments").unwrap(), "3");
        assert_eq!(b.out.created, 2);
        assert_eq!(b.push_packet(0, marked(&d[..100])).len(), 1);
    }

    #[test]
    fn only_copied_options_go_into_later_fragments() {
        let o = [
            7, 7, 4, 0, 0, 0, 0, 1, 131, 7, 4, 1, 2, 3, 4, 1, 148, 4, 0, 0,
        ];
        let mut b = Bench::new("IPFragmenter", "68", 1, 1).unwrap();
        let out = b.push_packet(0, marked(&ip(A, B, 17, &o, &payload(60))));
        let first = out[0].1.data();
        assert_eq!((first[0], first.len()), (0x4a, 40 + 24));
        let second = out[1].1.data();
        assert_eq!(second[0], 0x48);
        assert_eq!(second[20..32], [131, 7, 4, 1, 2, 3, 4, 148, 4, 0, 0, 0]);
        assert_eq!(second[32..], payload(60)[24..56]);
        assert_eq!(out[2].1.data()[32..], payload(60)[56..]);
        assert!(out.iter().all(|(_, q)| sound(q.data())));
    }

    #[test]
    fn df_and_no_room_go_to_output_1() {
        let mut d = ip(A, B, 17, &[], &payload(200));
        d[6] = 0x40;
        fix(&mut d);
        let mut b = Bench::new("IPFragmenter", "100", 1, 2).unwrap();
        for _ in 0..7 {
            let out = b.push_packet(0, marked(&d));
            assert_eq!((out.len(), out[0].0, out[0].1.data()), (1, 1, &d[..]));
        }
        let line = "IPFragmenter(100) DF 10.0.0.1 10.0.0.2 len=220\n";
        assert_eq!(b.host.log, line.repeat(5));
        assert_eq!(b.read("drops").unwrap(), "7");
        let mut b = Bench::new("IPFragmenter", "100, false", 1, 2).unwrap();
        let out = b.push_packet(0, marked(&d));
        assert_eq!(out.len(), 3);
        let id = &out[0].1.data()[4..6];
        assert!(
            out.iter()
                .all(|(p, q)| *p == 0 && &q.data()[4..6] == id && q.data()[6] & 0x40 == 0)
        );
        assert_ne!(id, [0x12, 0x34]);
        let mut b = Bench::new("IPFragmenter", "27", 1, 2).unwrap();
        let out = b.push_packet(0, marked(&ip(A, B, 17, &[], &payload(20))));
        assert_eq!(out[0].0, 1, "no room for 8 bytes");
        let e = Bench::new("IPFragmenter", "7", 1, 1).err().unwrap();
        assert_eq!(e, ["MTU: must be at least 8"]);
    }

    #[test]
    fn a_middle_fragment_stays_one() {
        let mut d = ip(A, B, 17, &[], &payload(48));
        d[6..8].copy_from_slice(&[0x20, 5]);
        fix(&mut d);
        let mut b = Bench::new("IPFragmenter", "44", 1, 1).unwrap();
        let out = b.push_packet(0, marked(&d));
        let words: Vec<_> = out
            .iter()
            .map(|(_, q)| [q.data()[6], q.data()[7]])
            .collect();
        assert_eq!(words, [[0x20, 5], [0x20, 8]]);
    }

    #[test]
    fn lying_lengths_do_not_panic() {
        let mut b = Bench::new("IPFragmenter", "50", 1, 2).unwrap();
        for first in 0..=255u8 {
            for total in [0u16, 3, 19, 20, 28, 60, 119, 120, 121, 65535] {
                let mut d = ip(A, B, 17, &[], &payload(100));
                d[0] = first;
                d[2..4].copy_from_slice(&total.to_be_bytes());
                b.push_packet(0, marked(&d));
                b.push_packet(0, marked(&d[..usize::from(first) % 60]));
            }
        }
        assert!(b.drops()["IPFragmenter: packet shorter than its header says"] > 0);
    }
}
