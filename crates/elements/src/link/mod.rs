//! The link between two network functions: what replaces an output device and the next function's input device when
//! functions are stitched into one graph.

use crate::standard::{MARK_ANNO, ROUNDS_ANNOS};
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{AnnoKey, Case, Cond, Exit, Model, ModelCx, Op, Read, TypeOf, Value};
use onefold_element::{
    Accounts, ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, TaskStatus,
    element_any,
};
use onefold_packet::{EtherAddr, Packet, Pkt, Timestamp, wire::ethernet};

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[NF_LINK];

/// `NFLink`.
pub const NF_LINK: ElementClass = ElementClass {
    name: "NFLink",
    ports: "1/1",
    processing: "a/h",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "[keywords ETHER, BURST, KEEP_ROUNDS, MARK]",
    summary: "hands packets from one network function to the next as a wire would",
    new: || {
        Box::new(NfLink {
            ether: None,
            burst: 32,
            keep_rounds: false,
            mark: 0,
            count: 0,
        })
    },
};

/// What a wire between two devices does to a packet: the bytes stay, every annotation but the time stamp is forgotten,
/// the packet type is what a device with address ETHER (any, if not given) would say, and the MAC header is set to the
/// start of the frame. With a pull input (a queue in front of an output device) it pulls, BURST packets a turn.
///
/// Where packets can go round between functions, LoopGuards stand behind their turns: with KEEP_ROUNDS, a packet keeps
/// what it has of them (how often it has turned, and its time to live then); with MARK, it is marked as one that has
/// come over this link (LoopGuard's FROM looks at that).
#[derive(Debug, Clone)]
struct NfLink {
    ether: Option<EtherAddr>,
    burst: u32,
    keep_rounds: bool,
    /// 0: no mark.
    mark: u8,
    count: u64,
}

/// One packet crosses the wire.
#[inline]
fn cross(p: &mut Packet, ether: Option<EtherAddr>) {
    let (timestamp, ingress) = (p.anno.timestamp, p.anno.ingress);
    p.clear_annotations();
    p.anno.timestamp = timestamp;
    p.anno.ingress = ingress;
    p.set_mac_header(0);
    if let Some(h) = ethernet::Header::parse(p.data()) {
        p.anno.packet_type = h.packet_type(ether);
    }
}

const fn key(at: u8) -> AnnoKey {
    AnnoKey {
        offset: at,
        size: 1,
    }
}

impl NfLink {
    /// One packet crosses this wire.
    #[inline]
    fn take(&self, p: &mut Packet) {
        if !self.keep_rounds && self.mark == 0 {
            return cross(p, self.ether);
        }
        let rounds = ROUNDS_ANNOS.map(|at| p.anno.u8(usize::from(at)));
        cross(p, self.ether);
        // zero it is already
        if self.keep_rounds && rounds != [0, 0] {
            for (at, v) in ROUNDS_ANNOS.into_iter().zip(rounds) {
                p.anno.set_u8(usize::from(at), v);
            }
        }
        if self.mark != 0 {
            p.anno.set_u8(usize::from(MARK_ANNO), self.mark);
        }
    }
}

impl Element for NfLink {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.ether = args.keyword("ETHER");
        self.burst = args.keyword("BURST").unwrap_or(32).max(1);
        self.keep_rounds = args.keyword("KEEP_ROUNDS").unwrap_or(false);
        self.mark = args.keyword("MARK").unwrap_or(0);
        args.finish()
    }

    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        self.count += 1;
        self.take(&mut p);
        cx.emit(0, p);
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let mut wire = vec![Op::Count(0), Op::ClearAnnos, Op::SetMac { at: 0 }];
        if self.keep_rounds {
            let kept = |at| Op::SetAnno(key(at), Value::Of(Read::Anno(key(at))));
            wire.extend(ROUNDS_ANNOS.map(kept));
        }
        if self.mark != 0 {
            wire.push(Op::SetAnno(key(MARK_ANNO), Value::Const(self.mark.into())));
        }
        let whole = Cond::at_least(Read::Len, ethernet::LEN as u128);
        Model::Cases(vec![
            Case::new(whole, Exit::Port(0))
                .with(wire.clone())
                .with([Op::SetPacketType(TypeOf::Destination(self.ether))]),
            Case::new(Cond::Always, Exit::Port(0)).with(wire),
        ])
    }
    /// Tag 0: passed.
    fn account(&mut self, _: u16, packets: u64, _: u64, _: &mut Cx<'_>) {
        self.count += packets;
    }
    fn accounts(&self, _: u16) -> Accounts {
        Accounts::Later
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        self.count += batch.len() as u64;
        for p in batch.iter_mut() {
            self.take(p);
        }
        (0, batch.len())
    }

    /// The engine runs it only where input 0 is pull.
    fn has_task(&self) -> bool {
        true
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        for _ in 0..self.burst {
            match cx.pull(0) {
                Some(p) => self.push(0, p, cx),
                None => return TaskStatus::Sleep,
            }
        }
        TaskStatus::Reschedule
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("count"),
            HandlerInfo::button("reset_counts").counts(),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "count" => Ok(self.count.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::{Packet, PacketType, Timestamp};

    #[test]
    fn forgets_annotations_but_the_time_stamp() {
        let mut b = Bench::new("NFLink", "ETHER 02:00:00:00:00:01", 1, 1).unwrap();
        let mut frame = [0u8; 60];
        for (dst, want) in [
            ([2, 0, 0, 0, 0, 1], PacketType::Host),
            ([2, 0, 0, 0, 0, 2], PacketType::OtherHost),
            ([0xff; 6], PacketType::Broadcast),
            ([1, 0, 0x5e, 0, 0, 1], PacketType::Multicast),
        ] {
            frame[..6].copy_from_slice(&dst);
            let mut p = Box::new(Packet::from_slice(&frame));
            p.anno.timestamp = Timestamp(77);
            p.anno.set_paint(3);
            p.set_network_header(14, 20);
            let out = b.push_packet(0, p);
            let p = &out[0].1;
            assert_eq!(p.anno.timestamp, Timestamp(77));
            assert_eq!((p.anno.paint(), p.network_header_offset()), (0, None));
            assert_eq!(p.anno.packet_type, want);
            assert_eq!(p.mac_header_offset(), Some(0));
        }
        assert_eq!(b.push(0, b"short").len(), 1);
    }

    #[test]
    fn what_loop_guards_know_crosses_where_it_is_told_to() {
        for (config, rounds, mark) in [
            ("", [0, 0], 0),
            ("KEEP_ROUNDS true", [5, 64], 0),
            ("MARK 9", [0, 0], 9),
            ("KEEP_ROUNDS true, MARK 255", [5, 64], 255),
        ] {
            let mut b = Bench::new("NFLink", config, 1, 1).unwrap();
            let mut p = Box::new(Packet::from_slice(&[0u8; 60]));
            for (at, v) in [(16, 3), (40, 5), (41, 64), (42, 77), (43, 1)] {
                p.anno.set_u8(at, v);
            }
            let p = b.push_packet(0, p).remove(0).1;
            let mut want = [0u8; 48];
            (want[40], want[41], want[42]) = (rounds[0], rounds[1], mark);
            assert_eq!(p.anno.bytes(), &want, "{config}");
        }
        assert!(Bench::new("NFLink", "MARK 256", 1, 1).is_err());
    }

    #[test]
    fn pulls_from_a_queue() {
        let mut b = Bench::new("NFLink", "BURST 2", 1, 1).unwrap();
        let q = b.host.upstream.entry(0).or_default();
        for _ in 0..3 {
            q.push_back(Box::new(Packet::from_slice(&[0; 20])));
        }
        assert_eq!(b.run_task().len(), 2);
        assert_eq!(b.run_task().len(), 1);
        assert!(Bench::new("NFLink", "ETHER x", 1, 1).is_err());
    }
}
