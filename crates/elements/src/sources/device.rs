//! Devices: FromDevice, PollDevice, FromDPDKDevice, FromNetmapDevice, FromHost and their counterparts ToDevice,
//! ToDPDKDevice, ToNetmapDevice, ToHost, ToHostSniffers; FromDPDKRing and ToDPDKRing, whose port is named by FROM_PROC.
//!
//! A device element is a door of the graph. The engine binds it to a port of the chain or to a capture: then frames
//! that arrive are pushed into its input 0 (which it does not have in the graph), and frames that leave go through
//! [`Cx::transmit`]. Live devices are not opened yet; an element that nothing is bound to says so when it is
//! initialized.
//!
//! The arguments are those of Click's and FastClick's elements. Those that tune a driver (rings, offloads, RSS) are
//! accepted and have no effect on a capture.
//!
//! Differences from Click: `ToDevice` takes push as well as pull input (as FastClick's does), and `METHOD`,
//! `BPF_FILTER` are not looked into.

use onefold_element::args::{AnyArg, Args};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::Cases;
use onefold_element::model::{Cond, Exit, Model, ModelCx, Op, Read, TypeOf};
use onefold_element::{
    Accounts, ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, InitCx,
    IoRole, Port, TaskStatus, element_any,
};
use onefold_packet::{EtherAddr, Pkt, wire::ethernet};

/// Keywords of device elements that say how a driver works.
#[rustfmt::skip]
const TUNING: &[&str] = &[
    "ALIGNMENT", "ALLOC", "ALLOW_NONEXISTENT", "BLOCKING", "BPF_FILTER", "BURST", "CAPACITY", "CAPTURE", "CLEAR",
    "CLEAR_ANNO", "DEBUG", "DST", "ENCAP", "FLOW_ISOLATE", "FLOW_RULES_FILE", "FORCE_CREATE", "FORCE_LOOKUP", "FROM_PROC",
    "GATEWAY", "HEADROOM", "IPCO", "IQUEUE", "JUMBO", "LENGTH", "LRO", "MAC", "MAXQUEUES", "MAXTHREADS", "MAX_RSS",
    "MEM_POOL", "METHOD", "MINQUEUES", "MODE", "MTU", "NDESC", "NUMA", "NUMA_NODE", "NUMA_ZONE", "N_QUEUES", "OUTBOUND",
    "PAINT_QUEUE", "PAUSE", "POWER_MGMT", "PREFIX", "PROMISC", "PROTOCOL", "QUEUE", "RETA_SIZE", "RSS_AGGREGATE", "RX_INTR",
    "SCALE", "SC_DEQ", "SNAPLEN", "SNIFFER", "SNIFFERS", "SP_ENQ", "TCO", "THREADOFFSET", "TIMEOUT", "TIMESTAMP", "TO_PROC",
    "TSO", "TYPE", "UCO", "UP_CALL", "USEQUEUES", "VERBOSE", "VF_POOLS", "VF_VLAN", "VLAN_EXTEND", "VLAN_FILTER",
    "VLAN_STRIP", "NO_PAD", "QUIET", "IGNORE_ERRORS", "POLLING", "KEEPHAND",
];

/// Reads the device's name and everything that only tunes a driver; arguments behind the name are positional tuning.
fn device(args: &mut Args<'_>, name: &str) -> Option<String> {
    let named: Option<AnyArg> = args.mandatory(name);
    for k in TUNING {
        let _ = args.keyword_all::<AnyArg>(k);
    }
    // PollDevice(eth0, true, 8), FromDPDKDevice(0, 1): queue numbers and the like
    while args.optional::<AnyArg>("ARGUMENT").is_some() {}
    named.map(|AnyArg(text)| {
        String::from_utf8_lossy(&onefold_element::args::unquote(&text)).into_owned()
    })
}

/// A frame as a device hands it over: MAC header at its start, packet type by its destination.
fn arrive(p: &mut Pkt, own: Option<EtherAddr>) {
    p.set_mac_header(0);
    if let Some(h) = ethernet::Header::parse(p.data()) {
        p.anno.packet_type = h.packet_type(own);
    }
}

fn unbound(class: &str, device: &str) -> ConfigErrors {
    vec![
        ConfigError::new(format!(
            "{class}({device}): live devices are not supported yet"
        ))
        .hint("run the chain on captures: onefold run CHAIN --in PORT=FILE --out PORT=FILE"),
    ]
}

macro_rules! source_class {
    ($konst:ident, $name:literal, $ports:literal, $arg:literal, $summary:literal) => {
        #[doc = concat!("`", $name, "`.")]
        pub const $konst: ElementClass = ElementClass {
            name: $name,
            ports: $ports,
            processing: "h/h",
            flow: "x/x",
            effect: Effect::Pure,
            usage: concat!($arg, " [, keywords of the driver]"),
            summary: $summary,
            new: || Box::new(Source::new($name, $arg)),
        };
    };
}

source_class!(
    FROM_DEVICE,
    "FromDevice",
    "0/1-2",
    "DEVNAME",
    "frames that arrive at a device"
);
source_class!(
    POLL_DEVICE,
    "PollDevice",
    "0/1-2",
    "DEVNAME",
    "frames that arrive at a device, polled"
);
source_class!(
    FROM_DPDK_DEVICE,
    "FromDPDKDevice",
    "0/1-2",
    "PORT",
    "frames that arrive at a DPDK port"
);
source_class!(
    FROM_DPDK_RING,
    "FromDPDKRing",
    "0/1",
    "FROM_PROC",
    "frames that another process puts into a ring"
);
source_class!(
    FROM_NETMAP_DEVICE,
    "FromNetmapDevice",
    "0/1-2",
    "DEVNAME",
    "frames that arrive at a netmap device"
);
source_class!(
    FROM_HOST,
    "FromHost",
    "0/1-2",
    "DEVNAME",
    "frames that the host sends"
);

/// Where frames enter.
#[derive(Debug, Clone)]
struct Source {
    class: &'static str,
    argument: &'static str,
    device: String,
    active: bool,
    count: u64,
}

impl Source {
    fn new(class: &'static str, argument: &'static str) -> Self {
        Source {
            class,
            argument,
            device: String::new(),
            active: true,
            count: 0,
        }
    }
}

impl Element for Source {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.active = args.keyword("ACTIVE").unwrap_or(true);
        let _: Option<bool> = args.keyword("FORCE_IP");
        let _: Option<AnyArg> = args.keyword("ETHER");
        self.device = device(args, self.argument).unwrap_or_default();
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        if cx.bound {
            Ok(())
        } else {
            Err(unbound(self.class, &self.device))
        }
    }

    #[inline]
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if !self.active {
            cx.drop(p, "device: not active");
            return;
        }
        self.count += 1;
        arrive(&mut p, None);
        cx.emit(0, p);
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        if !self.active {
            return Cases::new().otherwise([], Exit::Drop("device: not active"));
        }
        let frame = [Op::Count(0), Op::SetMac { at: 0 }];
        let kind = Op::SetPacketType(TypeOf::Destination(None));
        Cases::new()
            .case(
                Cond::at_least(Read::Len, ethernet::LEN as u128),
                frame.into_iter().chain([kind]),
                Exit::Port(0),
            )
            .otherwise(frame, Exit::Port(0))
    }
    /// Tag 0: arrived.
    fn account(&mut self, _: u16, packets: u64, _: u64, _: &mut Cx<'_>) {
        self.count += packets;
    }
    fn accounts(&self, _: u16) -> Accounts {
        Accounts::Later
    }

    fn io_role(&self) -> Option<IoRole> {
        Some(IoRole::Source {
            name: self.device.clone(),
        })
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("count"),
            HandlerInfo::rw("active"),
            HandlerInfo::button("reset_counts").counts(),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "count" => Ok(self.count.to_string()),
            "active" => Ok(self.active.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "reset_counts" => self.count = 0,
            "active" => self.active = onefold_element::handler::parse_bool(value)?,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

macro_rules! sink_class {
    ($konst:ident, $name:literal, $ports:literal, $processing:literal, $arg:literal, $summary:literal) => {
        #[doc = concat!("`", $name, "`.")]
        pub const $konst: ElementClass = ElementClass {
            name: $name,
            ports: $ports,
            processing: $processing,
            flow: "x/x",
            effect: Effect::Pure,
            usage: concat!($arg, " [, keywords of the driver]"),
            summary: $summary,
            new: || Box::new(Sink::new($name, $arg)),
        };
    };
}

sink_class!(
    TO_DEVICE,
    "ToDevice",
    "1/0-2",
    "a/h",
    "DEVNAME",
    "sends frames to a device"
);
sink_class!(
    TO_DPDK_DEVICE,
    "ToDPDKDevice",
    "1/0-2",
    "a/h",
    "PORT",
    "sends frames to a DPDK port"
);
sink_class!(
    TO_DPDK_RING,
    "ToDPDKRing",
    "1/0",
    "a/h",
    "FROM_PROC",
    "puts frames into a ring for another process"
);
sink_class!(
    TO_NETMAP_DEVICE,
    "ToNetmapDevice",
    "1/0-2",
    "a/h",
    "DEVNAME",
    "sends frames to a netmap device"
);
sink_class!(
    TO_HOST_SNIFFERS,
    "ToHostSniffers",
    "1/0",
    "a/h",
    "DEVNAME",
    "hands copies of frames to the host's sniffers"
);
sink_class!(
    TO_HOST,
    "ToHost",
    "1/0",
    "a/h",
    "DEVNAME",
    "hands frames to the host"
);

/// Where frames leave. With a pull input it pulls BURST frames a turn.
#[derive(Debug, Clone)]
struct Sink {
    class: &'static str,
    argument: &'static str,
    device: String,
    burst: u32,
    count: u64,
}

impl Sink {
    fn new(class: &'static str, argument: &'static str) -> Self {
        Sink {
            class,
            argument,
            device: String::new(),
            burst: 32,
            count: 0,
        }
    }
}

impl Element for Sink {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.burst = args.keyword("BURST").unwrap_or(32).max(1);
        let _: Option<AnyArg> = args.keyword("ETHER");
        // a host device needs no name
        match (self.class, args.is_empty()) {
            ("ToHost" | "ToHostSniffers", true) => self.device = "host".to_string(),
            _ => self.device = device(args, self.argument).unwrap_or_default(),
        }
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        if cx.bound {
            Ok(())
        } else {
            Err(unbound(self.class, &self.device))
        }
    }

    #[inline]
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        self.count += 1;
        cx.transmit(p);
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Cases::new().otherwise([Op::Count(0)], Exit::Transmit)
    }
    /// Tag 0: sent.
    fn account(&mut self, _: u16, packets: u64, _: u64, _: &mut Cx<'_>) {
        self.count += packets;
    }
    fn accounts(&self, _: u16) -> Accounts {
        Accounts::Later
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

    fn io_role(&self) -> Option<IoRole> {
        Some(IoRole::Sink {
            name: self.device.clone(),
        })
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("count"),
            HandlerInfo::r("drops"),
            HandlerInfo::button("reset_counts").counts(),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "count" => Ok(self.count.to_string()),
            // a capture takes everything
            "drops" => Ok("0".to_string()),
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
    use onefold_element::IoRole;
    use onefold_packet::PacketType;

    #[test]
    fn a_frame_that_arrives_has_its_type_and_mac_header() {
        let mut b = Bench::new("FromDevice", "eth0, SNIFFER false, PROMISC true", 0, 1).unwrap();
        assert_eq!(
            b.element.io_role(),
            Some(IoRole::Source {
                name: "eth0".into()
            })
        );
        let mut frame = [0u8; 60];
        frame[..6].fill(0xff);
        let out = b.push(0, &frame);
        assert_eq!(out[0].1.anno.packet_type, PacketType::Broadcast);
        assert_eq!(out[0].1.mac_header_offset(), Some(0));
        assert_eq!(b.read("count").unwrap(), "1");
        b.write("active", "false").unwrap();
        assert!(b.push(0, &frame).is_empty());
        assert_eq!(b.drops()["device: not active"], 1);
    }

    #[test]
    fn what_is_sent_leaves_the_graph() {
        let mut b = Bench::new("ToDevice", "\"eth 1\", BURST 2", 1, 0).unwrap();
        assert_eq!(
            b.element.io_role(),
            Some(IoRole::Sink {
                name: "eth 1".into()
            })
        );
        b.push(0, b"x");
        assert_eq!(b.out.transmitted.len(), 1);
        for _ in 0..3 {
            let p = Box::new(onefold_packet::Packet::from_slice(b"y"));
            b.host.upstream.entry(0).or_default().push_back(p);
        }
        b.run_task();
        assert_eq!(b.out.transmitted.len(), 3, "a burst of two");
    }

    #[test]
    fn drivers_arguments_are_accepted_others_refused() {
        for (class, config) in [
            (
                "FromDPDKDevice",
                "0, 1, PROMISC true, N_QUEUES 4, MAXTHREADS 2",
            ),
            ("FromDPDKDevice", "PORT 3"),
            ("PollDevice", "eth0, true, 8"),
            ("ToDPDKDevice", "1, IQUEUE 64, BLOCKING true"),
            ("ToHost", ""),
            ("FromHost", "fake0, 10.0.0.1/8"),
        ] {
            let (i, o) = if class.starts_with("To") {
                (1, 0)
            } else {
                (0, 1)
            };
            assert!(Bench::new(class, config, i, o).is_ok(), "{class}({config})");
        }
        let e = Bench::new("FromDevice", "", 0, 1).err().unwrap();
        assert_eq!(e, ["DEVNAME: required argument missing; expected a value"]);
        let e = Bench::new("ToDevice", "eth0, BRUST 3", 1, 0).err().unwrap();
        assert_eq!(e, ["BRUST: unknown argument"]);
    }
}
