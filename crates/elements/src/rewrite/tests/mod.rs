//! Tests of the family's elements. [`Net`] is several elements without connections that share a store; packets are
//! carried from one to the next by the tests.

mod bindings;
mod companions;
mod lifetime;
mod mappers;
mod nets;
mod robust;
mod unpushed;

use crate::testing::BenchHost;
use onefold_element::args::{ArgScope, Args, split_args};
use onefold_element::{
    ConfigCx, ConnectionSpec, Cx, ElemId, Element, GraphSpec, InitCx, NameDb, Outbox, Port,
    Processing, StateStore,
};
use onefold_packet::checksum;
use onefold_packet::wire::{icmp, ipv4, tcp, udp};
use onefold_packet::{Packet, Pkt, Timestamp};

pub(super) struct Net {
    names: Vec<String>,
    elements: Vec<Box<dyn Element>>,
    ports: Vec<(usize, usize)>,
    pub store: StateStore,
    pub host: BenchHost,
    pub out: Outbox,
    pub now: Timestamp,
}

impl Net {
    /// Elements `(name, class, configuration, inputs, outputs)`.
    pub fn new(spec: &[(&str, &str, &str, usize, usize)]) -> Result<Net, Vec<String>> {
        let names: Vec<String> = spec.iter().map(|s| s.0.to_string()).collect();
        let classes: Vec<String> = spec.iter().map(|s| s.1.to_string()).collect();
        let mut store = StateStore::new();
        let mut errors = Vec::new();
        let mut elements: Vec<Box<dyn Element>> = spec
            .iter()
            .map(|s| (crate::lookup(s.1).unwrap().new)())
            .collect();
        let mut order: Vec<usize> = (0..spec.len()).collect();
        order.sort_by_key(|i| elements[*i].configure_phase());
        for i in order {
            let config = split_args(spec[i].2);
            let scope = ArgScope {
                names: NameDb::builtin(),
                element: &names[i],
                elements: &names,
            };
            let mut args = Args::new(config.iter().map(String::as_str).collect(), scope);
            let mut cx = ConfigCx {
                elem: ElemId(i as u32),
                name: &names[i],
                ninputs: spec[i].3,
                noutputs: spec[i].4,
                names: NameDb::builtin(),
                elements: &names,
                classes: &classes,
                store: &mut store,
                seed: 1,
            };
            if let Err(e) = elements[i].configure(&mut args, &mut cx) {
                errors.extend(e);
            }
            errors.extend(args.finish().err().unwrap_or_default());
        }
        // every element's output 0 leads to the next element
        let graph = GraphSpec {
            connections: (1..spec.len())
                .map(|i| ConnectionSpec {
                    from: (i - 1, 0),
                    to: (i, 0),
                    ..ConnectionSpec::default()
                })
                .collect(),
            ..GraphSpec::default()
        };
        for (i, e) in elements.iter_mut().enumerate() {
            if !errors.iter().all(|e| e.warning) {
                break;
            }
            let mut cx = InitCx {
                elem: ElemId(i as u32),
                name: &names[i],
                elements: &names,
                classes: &classes,
                store: &mut store,
                bound: true,
                now: Timestamp::ZERO,
                inputs: &vec![Processing::Push; spec[i].3],
                outputs: &vec![Processing::Push; spec[i].4],
                graph: &graph,
                stdout: &mut Vec::new(),
            };
            errors.extend(e.initialize(&mut cx).err().unwrap_or_default());
        }
        if !errors.iter().all(|e| e.warning) {
            return Err(errors.iter().map(ToString::to_string).collect());
        }
        Ok(Net {
            names,
            elements,
            ports: spec.iter().map(|s| (s.3, s.4)).collect(),
            store,
            host: BenchHost::default(),
            out: Outbox {
                traced: true,
                ..Outbox::default()
            },
            now: Timestamp::from_secs(1000),
        })
    }

    /// One rewriter `rw` with two inputs and two outputs.
    pub fn one(class: &str, config: &str) -> Net {
        Net::new(&[("rw", class, config, 2, 2)]).unwrap()
    }

    pub fn at(&mut self, seconds: f64) {
        self.now = Timestamp::from_secs_f64(1000.0 + seconds);
    }

    fn with<R>(&mut self, name: &str, f: impl FnOnce(&mut dyn Element, &mut Cx<'_>) -> R) -> R {
        let i = self.names.iter().position(|n| n == name).unwrap();
        let mut cx = Cx {
            elem: ElemId(i as u32),
            now: self.now,
            ninputs: self.ports[i].0,
            noutputs: self.ports[i].1,
            store: &mut self.store,
            out: &mut self.out,
            host: &mut self.host,
        };
        f(&mut *self.elements[i], &mut cx)
    }

    /// Pushes a packet; the output and the packet that leaves, if one does.
    pub fn push(&mut self, name: &str, port: Port, p: Pkt) -> Option<(Port, Pkt)> {
        self.with(name, |e, cx| e.push(port, p, cx));
        let mut all = Vec::new();
        for e in self.out.effects.drain(..) {
            if let onefold_element::Emission::Emit(port, p) = e {
                all.push((port, p));
            }
        }
        assert!(all.len() <= 1);
        all.pop()
    }

    /// Pushes a packet into `rw` and describes what leaves: `"0: 1.0.0.1 1024 > 2.0.0.2 80"`, or `"-"`.
    pub fn go(&mut self, port: Port, p: Pkt) -> String {
        match self.push("rw", port, p) {
            Some((o, p)) => format!("{o}: {}", describe(&p)),
            None => "-".to_string(),
        }
    }

    pub fn timer(&mut self, name: &str) {
        self.with(name, |e, cx| e.run_timer(0, cx));
    }
    pub fn read(&mut self, name: &str, handler: &str) -> String {
        let (h, param) = handler.split_once(' ').unwrap_or((handler, ""));
        self.with(name, |e, cx| e.read(h, param, cx)).unwrap()
    }
    pub fn write(&mut self, name: &str, handler: &str, value: &str) -> Result<(), String> {
        let r = self.with(name, |e, cx| e.write(handler, value, cx));
        r.map_err(|e| e.to_string())
    }
    /// Drops for a reason.
    pub fn drops(&self, reason: &str) -> u64 {
        let of = self.out.drops.iter().filter(|d| d.1 == reason);
        of.map(|d| d.2).sum()
    }
}

fn ip(a: &str) -> [u8; 4] {
    a.parse::<std::net::Ipv4Addr>().unwrap().octets()
}

/// An IP packet with right header checksum and header marks.
pub(super) fn ip_packet(src: &str, dst: &str, protocol: u8, transport: &[u8]) -> Pkt {
    let mut b = vec![0u8; 20];
    b.extend_from_slice(transport);
    let len = b.len() as u16;
    let mut h = ipv4::Header::parse(&mut b[..]).unwrap();
    h.set_version_header_len(20);
    h.set_total_len(len);
    h.set_ttl(64);
    h.set_id(0x1234);
    h.set_protocol(protocol);
    h.set_src(ip(src));
    h.set_dst(ip(dst));
    h.fill_checksum();
    let mut p = Box::new(Packet::from_slice(&b));
    p.set_network_header(0, 20);
    p
}

fn fill_transport_checksum(src: &str, dst: &str, protocol: u8, b: &mut [u8], at: usize) {
    let pseudo = checksum::pseudo_v4(ip(src), ip(dst), protocol, b.len() as u16);
    let c = !checksum::fold(checksum::sum(b, pseudo));
    b[at..at + 2].copy_from_slice(&c.to_be_bytes());
}

/// A TCP segment.
pub(super) fn tcp_packet(src: (&str, u16), dst: (&str, u16), flags: u8, payload: &[u8]) -> Pkt {
    tcp_numbered(src, dst, flags, (1, 1), &[], payload)
}

/// A TCP segment with sequence and acknowledgment number and options.
pub(super) fn tcp_numbered(
    src: (&str, u16),
    dst: (&str, u16),
    flags: u8,
    (seq, ack): (u32, u32),
    options: &[u8],
    payload: &[u8],
) -> Pkt {
    let mut b = vec![0u8; 20];
    b.extend_from_slice(options);
    let header = b.len();
    b.extend_from_slice(payload);
    let mut h = tcp::Header::parse(&mut b[..]).unwrap();
    h.set_src_port(src.1);
    h.set_dst_port(dst.1);
    h.set_sequence(seq);
    h.set_ack(ack);
    h.set_header_len(header);
    h.set_flags(flags);
    fill_transport_checksum(src.0, dst.0, 6, &mut b, 16);
    ip_packet(src.0, dst.0, 6, &b)
}

/// A UDP datagram with a checksum.
pub(super) fn udp_packet(src: (&str, u16), dst: (&str, u16), payload: &[u8]) -> Pkt {
    let mut b = vec![0u8; 8];
    b.extend_from_slice(payload);
    let len = b.len() as u16;
    let mut h = udp::Header::parse(&mut b[..]).unwrap();
    h.set_src_port(src.1);
    h.set_dst_port(dst.1);
    h.set_len(len);
    fill_transport_checksum(src.0, dst.0, 17, &mut b, 6);
    ip_packet(src.0, dst.0, 17, &b)
}

/// An ICMP message: type, code, the four bytes behind the checksum, and what follows.
pub(super) fn icmp_packet(src: &str, dst: &str, kind: u8, rest: [u8; 4], payload: &[u8]) -> Pkt {
    let mut b = vec![kind, 0, 0, 0];
    b.extend_from_slice(&rest);
    b.extend_from_slice(payload);
    let c = checksum::internet(&b);
    icmp::Header::parse(&mut b[..]).unwrap().set_checksum(c);
    ip_packet(src, dst, 1, &b)
}

/// `SRC [PORT] > DST [PORT]` of a packet, after checking all its checksums.
pub(super) fn describe(p: &Packet) -> String {
    let h = ipv4::Header::parse(p.network().unwrap()).unwrap();
    assert!(h.checksum_ok(), "IP checksum");
    assert_eq!(
        usize::from(h.total_len()),
        p.network().unwrap().len(),
        "IP length"
    );
    let (src, dst) = (h.src(), h.dst());
    let a = |x: [u8; 4]| std::net::Ipv4Addr::from(x);
    let t = p.transport().unwrap();
    let word = |at: usize| u16::from_be_bytes([t[at], t[at + 1]]);
    let transport_ok = || {
        let pseudo = checksum::pseudo_v4(src, dst, h.protocol(), t.len() as u16);
        checksum::fold(checksum::sum(t, pseudo)) == 0xffff
    };
    match h.protocol() {
        6 | 17 => {
            let no_checksum = h.protocol() == 17 && word(6) == 0;
            assert!(no_checksum || transport_ok(), "transport checksum");
            format!("{} {} > {} {}", a(src), word(0), a(dst), word(2))
        }
        1 => {
            assert_eq!(checksum::internet(t), 0, "ICMP checksum");
            format!("{} > {} type {} id {}", a(src), a(dst), t[0], word(4))
        }
        _ => format!("{} > {}", a(src), a(dst)),
    }
}
