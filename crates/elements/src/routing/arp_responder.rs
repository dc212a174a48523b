//! ARPResponder answers ARP requests; ARPFaker sends unasked replies (RFC 826).

use onefold_element::args::{ArgScope, Args, FromArg, Ip4Prefix, split_words};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Base, Case, Cond, Exit, Model, ModelCx, Read, ValueSet, bytes};
use onefold_element::{
    Batching, Clock, ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, Port,
    TimerId, element_any,
};
use onefold_packet::wire::{arp, ethernet};
use onefold_packet::{EtherAddr, Packet, Pkt, Timestamp};
use std::net::Ipv4Addr;

/// `ARPResponder`.
pub const ARP_RESPONDER: ElementClass = ElementClass {
    name: "ARPResponder",
    ports: "1/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Originating,
    usage: "IP/MASK [IP/MASK...] ETH, ...",
    summary: "answers ARP requests",
    new: || {
        Box::new(ArpResponder {
            entries: Vec::new(),
        })
    },
};

#[derive(Debug, Clone, Copy)]
struct Entry {
    dst: u32,
    mask: u32,
    eth: EtherAddr,
    /// Configuration argument; `None` when added later.
    arg: Option<usize>,
}

impl Entry {
    fn covers(&self, other: &Entry) -> bool {
        other.dst & self.mask == self.dst
    }
    fn same(&self, other: &Entry) -> bool {
        (self.dst, self.mask) == (other.dst, other.mask)
    }
    fn show(&self) -> String {
        let (a, m) = (Ipv4Addr::from(self.dst), Ipv4Addr::from(self.mask));
        let p = Ip4Prefix { addr: a, mask: m };
        match p.len() {
            Some(n) => format!("{a}/{n}"),
            None => format!("{a}/{m}"),
        }
    }
}

/// As Click; where entries do not contain each other the `table` handler shows them in the order of the configuration.
#[derive(Debug, Clone)]
struct ArpResponder {
    /// Every entry before those that contain it: the first match is the most specific one.
    entries: Vec<Entry>,
}

/// `IP/MASK [IP/MASK...] ETH`.
fn parse(text: &str, arg: Option<usize>, scope: &ArgScope<'_>) -> Result<Vec<Entry>, String> {
    let words = split_words(text);
    let mut entries = Vec::new();
    let mut eth = None;
    for w in &words {
        if let Ok(p) = Ip4Prefix::from_arg(w, scope) {
            let mask = u32::from(p.mask);
            let dst = u32::from(p.addr) & mask;
            entries.push(Entry {
                dst,
                mask,
                eth: EtherAddr::default(),
                arg,
            });
        } else if let Ok(e) = EtherAddr::from_arg(w, scope) {
            if eth.replace(e).is_some() {
                return Err("more than one ETH".to_string());
            }
        } else {
            return Err(format!("expected 'IP/MASK ETH', found '{w}'"));
        }
    }
    // a name may stand for both addresses
    let named = || {
        words
            .iter()
            .find_map(|w| EtherAddr::from_arg(w, scope).ok())
    };
    if entries.is_empty() {
        return Err("missing IP/MASK".to_string());
    }
    let eth = eth.or_else(named).ok_or("missing ETH")?;
    for e in &mut entries {
        e.eth = eth;
    }
    Ok(entries)
}

impl ArpResponder {
    /// Puts an entry in its place; an entry for the same addresses gives way. False if there was one.
    fn add(&mut self, e: Entry) -> bool {
        if let Some(old) = self.entries.iter_mut().find(|o| o.same(&e)) {
            *old = e;
            return false;
        }
        let at = self.entries.iter().position(|o| o.covers(&e));
        self.entries.insert(at.unwrap_or(self.entries.len()), e);
        true
    }
    fn lookup(&self, a: u32) -> Option<&Entry> {
        self.entries.iter().find(|e| a & e.mask == e.dst)
    }

    /// The answer to a request, with the entry that it comes from.
    fn answer(&self, p: &Packet) -> Option<([u8; 42], &Entry)> {
        let e = ethernet::Header::parse(p.data())?;
        let a = arp::Header::parse(p.data().get(ethernet::LEN..)?)?;
        let asks = e.ethertype() == ethernet::ethertype::ARP
            && a.hardware() == 1
            && a.protocol() == ethernet::ethertype::IPV4
            && a.operation() == arp::REQUEST;
        if !asks {
            return None;
        }
        let entry = self.lookup(u32::from_be_bytes(a.target_ip()))?;
        let to = (a.sender_ether(), a.sender_ip());
        Some((reply_frame(to, (entry.eth, a.target_ip())), entry))
    }
}

/// An ARP reply in an Ethernet frame.
fn reply_frame(to: (EtherAddr, [u8; 4]), from: (EtherAddr, [u8; 4])) -> [u8; 42] {
    let mut f = [0u8; ethernet::LEN + arp::LEN];
    f[..6].copy_from_slice(&to.0.0);
    f[6..12].copy_from_slice(&from.0.0);
    f[12..14].copy_from_slice(&ethernet::ethertype::ARP.to_be_bytes());
    f[14..].copy_from_slice(&arp::build(arp::REPLY, from, to));
    f
}

fn bad(m: impl Into<String>) -> HandlerError {
    HandlerError::BadValue(m.into())
}

const NO_REQUEST: DropReason = "ARPResponder: no ARP request for one of its addresses";

/// Most intervals that a mask which is not contiguous may stand for in the model.
const MAX_INTERVALS: usize = 1024;

impl Element for ArpResponder {
    fn batching(&self, _: Batching) -> Batching {
        Batching::AnyOrder
    }
    fn clock(&self, _: Clock) -> Clock {
        Clock::Unread
    }
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let scope = args.scope();
        self.entries.clear();
        for (i, text) in args.rest() {
            match parse(text, Some(i), &scope) {
                Ok(entries) => {
                    for e in entries {
                        if !self.add(e) {
                            args.warning(format!("multiple entries for {}", e.show()));
                        }
                    }
                }
                Err(m) => args.error_at(i, "IP/MASK ETH", m),
            }
        }
        args.finish()
    }

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let Some((frame, entry)) = self.answer(&p) else {
            return cx.emit_or_drop(1, p, NO_REQUEST);
        };
        let arg = entry.arg;
        cx.decide(arg, || {
            format!("answers with {} for {}", entry.eth, entry.show())
        });
        let mut q = cx.make(&frame);
        q.set_mac_header_len(0, ethernet::LEN);
        q.anno.set_vlan_tci(p.anno.vlan_tci());
        q.anno.ingress = p.anno.ingress;
        cx.drop(p, "ARPResponder: ARP request, answered");
        cx.emit(0, q);
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let other = || Exit::PortOrDrop(1, NO_REQUEST);
        let fixed = [
            (12, ethernet::ethertype::ARP),
            (ethernet::LEN as u16, 1),
            (ethernet::LEN as u16 + 2, ethernet::ethertype::IPV4),
            (ethernet::LEN as u16 + 6, arp::REQUEST),
        ];
        let mut asks: Vec<Cond> = fixed
            .iter()
            .map(|(at, v)| Cond::eq(bytes(Base::Data, *at, 2), u128::from(*v)))
            .collect();
        let set = |e: &Entry| ValueSet::masked(e.mask.into(), e.dst.into(), 32, MAX_INTERVALS);
        let sets: Option<Vec<ValueSet>> = self.entries.iter().map(set).collect();
        let Some(sets) = sets else {
            return Model::None("originates packets");
        };
        let all = sets.iter().flat_map(|s| s.intervals().iter().copied());
        let target = bytes(Base::Data, ethernet::LEN as u16 + 24, 4);
        asks.push(Cond::In(Read::Field(target), ValueSet::from_intervals(all)));
        let short = Cond::less(Read::Len, (ethernet::LEN + arp::LEN) as u128);
        Model::Cases(vec![
            Case::new(short, other()),
            Case::new(Cond::All(asks), Exit::Punt("answers an ARP request")),
            Case::new(Cond::Always, other()),
        ])
    }

    fn can_live_reconfigure(&self) -> bool {
        true
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("table"),
            HandlerInfo::rp("lookup"),
            HandlerInfo::w("add"),
            HandlerInfo::w("remove"),
        ];
        H
    }
    fn read(&mut self, name: &str, param: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "table" => {
                let line = |e: &Entry| format!("{} {}\n", e.show(), e.eth);
                Ok(self.entries.iter().map(line).collect())
            }
            "lookup" => {
                let a: Ipv4Addr = param
                    .trim()
                    .parse()
                    .map_err(|_| bad("expected IP address"))?;
                let found = self.lookup(u32::from(a));
                Ok(found.map_or(String::new(), |e| e.eth.to_string()))
            }
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "add" => {
                for e in parse(value, None, &cx.names().scope()).map_err(bad)? {
                    self.add(e);
                }
                Ok(())
            }
            "remove" => {
                let p = Ip4Prefix::from_arg(value.trim(), &cx.names().scope());
                let p = p.map_err(|_| bad("expected IP/MASK"))?;
                let mask = u32::from(p.mask);
                let e = Entry {
                    dst: u32::from(p.addr) & mask,
                    mask,
                    eth: EtherAddr::default(),
                    arg: None,
                };
                match self.entries.iter().position(|o| o.same(&e)) {
                    Some(i) => {
                        self.entries.remove(i);
                        Ok(())
                    }
                    None => Err(bad(format!("{} not found", e.show()))),
                }
            }
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

/// `ARPFaker`.
pub const ARP_FAKER: ElementClass = ElementClass {
    name: "ARPFaker",
    ports: "0/1",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Originating,
    usage: "DSTIP, DSTETH, SRCIP, SRCETH",
    summary: "sends an ARP reply every ten seconds",
    new: || Box::new(ArpFaker { frame: [0; 42] }),
};

#[derive(Debug, Clone)]
struct ArpFaker {
    frame: [u8; 42],
}

impl Element for ArpFaker {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let dst_ip: Option<Ipv4Addr> = args.mandatory("DSTIP");
        let dst: Option<EtherAddr> = args.mandatory("DSTETH");
        let src_ip: Option<Ipv4Addr> = args.mandatory("SRCIP");
        let src: Option<EtherAddr> = args.mandatory("SRCETH");
        if let (Some(di), Some(de), Some(si), Some(se)) = (dst_ip, dst, src_ip, src) {
            self.frame = reply_frame((de, di.octets()), (se, si.octets()));
        }
        args.finish()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("has no inputs")
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "ARPFaker: has no inputs");
    }
    fn initial_timers(&self) -> Vec<(TimerId, Timestamp)> {
        vec![(0, Timestamp::from_secs(1))]
    }
    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        let mut q = cx.make(&self.frame);
        q.set_mac_header(0);
        cx.emit(0, q);
        cx.set_timer_after(0, Timestamp::from_secs(10));
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;
    use onefold_packet::wire::arp;
    use onefold_packet::{EtherAddr, Packet, Timestamp};

    fn request(target: [u8; 4]) -> Vec<u8> {
        let mut f = vec![0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2, 0, 0, 0, 0, 7, 8, 6];
        let from = (EtherAddr([2, 0, 0, 0, 0, 7]), [18, 26, 4, 99]);
        f.extend_from_slice(&arp::build(arp::REQUEST, from, (EtherAddr([0; 6]), target)));
        f
    }

    /// The example of Click's page: the own address and a proxied network.
    #[test]
    fn answers_for_its_networks() {
        let c = "18.26.4.24 18.26.7.0/24 00-00-C0-AE-67-EF";
        let mut b = Bench::new("ARPResponder", c, 1, 2).unwrap();
        for target in [[18, 26, 4, 24], [18, 26, 7, 200]] {
            let mut p = Box::new(Packet::from_slice(&request(target)));
            p.anno.set_vlan_tci(9);
            let out = b.push_packet(0, p);
            let me = [0, 0, 0xc0, 0xae, 0x67, 0xef];
            let mut want = [
                &[2, 0, 0, 0, 0, 7][..],
                &me,
                &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2],
                &me,
            ]
            .concat();
            want.extend_from_slice(&target);
            want.extend_from_slice(&[2, 0, 0, 0, 0, 7, 18, 26, 4, 99]);
            assert_eq!((out[0].0, out[0].1.data()), (0, &want[..]));
            assert_eq!(out[0].1.anno.vlan_tci(), 9);
        }
        let d = request([18, 26, 8, 1]);
        let out = b.push(0, &d);
        assert_eq!((out[0].0, out[0].1.data()), (1, &d[..]));
        let good = request([18, 26, 4, 24]);
        for (at, v) in [(13, 0), (15, 6), (16, 9), (21, 2)] {
            let mut f = good.clone();
            f[at] = v;
            assert_eq!(b.push(0, &f)[0].0, 1, "byte {at}");
        }
        for n in 0..good.len() {
            assert_eq!(b.push(0, &good[..n])[0].0, 1);
        }
    }

    #[test]
    fn most_specific_entry_and_handlers() {
        let c = "10.0.0.1 10.1.0.0/16 0:1:2:3:4:5, 10.0.0.0/8 1:1:1:1:1:1, 10.2.0.0/16 2:2:2:2:2:2";
        let mut b = Bench::new("ARPResponder", c, 1, 1).unwrap();
        assert_eq!(
            b.read("table").unwrap(),
            "10.0.0.1/32 00-01-02-03-04-05\n10.1.0.0/16 00-01-02-03-04-05\n\
             10.2.0.0/16 02-02-02-02-02-02\n10.0.0.0/8 01-01-01-01-01-01\n"
        );
        assert_eq!(b.read("lookup 10.2.9.9").unwrap(), "02-02-02-02-02-02");
        assert_eq!(b.read("lookup 11.2.9.9").unwrap(), "");
        b.write("add", "10.2.9.0/24 3:3:3:3:3:3").unwrap();
        assert_eq!(b.read("lookup 10.2.9.9").unwrap(), "03-03-03-03-03-03");
        b.write("remove", "10.2.9.0/24").unwrap();
        assert_eq!(b.read("lookup 10.2.9.9").unwrap(), "02-02-02-02-02-02");
        let e = b.write("remove", "10.2.9.0/24").unwrap_err();
        assert_eq!(e.to_string(), "10.2.9.0/24 not found");
        b.push(0, &request([10, 2, 0, 1]));
        assert_eq!(b.host.decisions[0].0, Some(2));
        let b = Bench::new(
            "ARPResponder",
            "1.2.3.4 1:1:1:1:1:1, 1.2.3.4 2:2:2:2:2:2",
            1,
            1,
        )
        .unwrap();
        assert_eq!(b.warnings, ["multiple entries for 1.2.3.4/32"]);
        for (config, want) in [
            ("1.2.3.4", "IP/MASK ETH: missing ETH"),
            ("1:1:1:1:1:1", "IP/MASK ETH: missing IP/MASK"),
            (
                "1.2.3.4 1:1:1:1:1:1 2:2:2:2:2:2",
                "IP/MASK ETH: more than one ETH",
            ),
            (
                "1.2.3.4 x",
                "IP/MASK ETH: expected 'IP/MASK ETH', found 'x'",
            ),
        ] {
            assert_eq!(
                Bench::new("ARPResponder", config, 1, 1).err().unwrap(),
                [want]
            );
        }
    }

    #[test]
    fn faker_repeats_its_claim() {
        let c = "18.26.4.1, 00-E0-2B-0B-1A-00, 18.26.4.99, 00-A0-C9-9C-FD-9C";
        let mut b = Bench::new("ARPFaker", c, 0, 1).unwrap();
        for (t, at) in b.element.initial_timers() {
            b.host.timers.insert(t, b.now + at);
        }
        let out = b.advance_to(Timestamp::from_secs(30));
        assert_eq!(out.len(), 3);
        let d = out[0].1.data();
        assert_eq!(d[20..22], [0, 2]);
        assert_eq!(d[28..32], [18, 26, 4, 99]);
        assert_eq!(d[38..42], [18, 26, 4, 1]);
        assert!(Bench::new("ARPFaker", "1.2.3.4", 0, 1).is_err());
    }
}
