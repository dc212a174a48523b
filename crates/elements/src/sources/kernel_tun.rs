//! KernelTun, KernelTap: the host's own stack behind a virtual device.
//!
//! Click elements KernelTun, KernelTap. Live devices are not opened yet: such an element can be bound to a port,
//! through which what the host sends enters and what the host is given leaves. An element that nothing is bound to says
//! so when it is initialized.

use super::link;
use onefold_element::args::{AnyArg, Args, Ip4Prefix};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, ENTRY, Effect, Element, ElementClass, InitCx, IoRole,
    Port, TaskStatus, element_any,
};
use onefold_packet::{EtherAddr, Pkt};
use std::net::Ipv4Addr;

/// `KernelTun`.
pub const KERNEL_TUN: ElementClass = ElementClass {
    name: "KernelTun",
    ports: "0-1/1-2",
    processing: "a/h",
    flow: "x/y",
    effect: Effect::Pure,
    usage: "ADDR/MASK [, GATEWAY, keywords HEADROOM, BURST, ETHER, MTU, DEVNAME, IGNORE_QUEUE_OVERFLOWS]",
    summary: "exchanges IP packets with the host through a virtual device",
    new: || Box::new(KernelTun::new("tun")),
};

/// `KernelTap`.
pub const KERNEL_TAP: ElementClass = ElementClass {
    name: "KernelTap",
    ports: "0-1/1",
    summary: "exchanges Ethernet frames with the host through a virtual device",
    new: || Box::new(KernelTun::new("tap")),
    ..KERNEL_TUN
};

#[derive(Debug, Clone)]
struct KernelTun {
    device: String,
    /// Ethernet frames instead of IP packets.
    tap: bool,
    pulls: bool,
}

impl KernelTun {
    fn new(device: &str) -> Self {
        KernelTun {
            device: device.to_string(),
            tap: device == "tap",
            pulls: false,
        }
    }
}

impl Element for KernelTun {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let _: Option<Ip4Prefix> = args.mandatory("ADDR");
        let _: Option<Ipv4Addr> = args.optional("GATEWAY");
        let _: Option<EtherAddr> = args.keyword("ETHER");
        for number in ["HEADROOM", "BURST", "MTU"] {
            let _: Option<u32> = args.keyword(number);
        }
        for flag in ["TAP", "IGNORE_QUEUE_OVERFLOWS"] {
            let _: Option<bool> = args.keyword(flag);
        }
        for name in ["DEV_NAME", "DEVNAME"] {
            if let Some(AnyArg(d)) = args.keyword(name) {
                self.device =
                    String::from_utf8_lossy(&onefold_element::args::unquote(&d)).into_owned();
            }
        }
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        self.pulls = cx.input_is_pull(0);
        if cx.bound {
            return Ok(());
        }
        let m = format!("{}: virtual devices are not supported yet", self.device);
        Err(vec![ConfigError::new(m).hint(
            "run the chain on captures: onefold run CHAIN --in PORT=FILE --out PORT=FILE",
        )])
    }

    fn push(&mut self, port: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if port != ENTRY {
            cx.transmit(p);
        } else if self.tap {
            cx.emit(0, p);
        } else if let Some(h) = link::find_ip(p.data(), link::RAW) {
            p.set_network_header(h.offset as isize, h.len);
            if let Some(dst) = h.dst {
                p.anno.set_dst_ip(dst);
            }
            cx.emit(0, p);
        } else if cx.noutputs > 1 {
            cx.emit(1, p);
        } else {
            cx.drop(p, "KernelTun: not IP");
        }
    }
    fn model(&self, port: Port, _: &ModelCx<'_>) -> Model {
        match (port, self.tap) {
            (ENTRY, true) => Model::pass([]),
            (ENTRY, false) => {
                let bad = Exit::PortOrDrop(1, "KernelTun: not IP");
                link::find_ip_model(true, &[], &[], bad)
            }
            _ => Model::Cases(vec![Case::new(Cond::Always, Exit::Transmit)]),
        }
    }

    fn has_task(&self) -> bool {
        self.pulls
    }
    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        match cx.pull(0) {
            Some(p) => {
                cx.transmit(p);
                TaskStatus::Reschedule
            }
            None => TaskStatus::Sleep,
        }
    }

    fn io_role(&self) -> Option<IoRole> {
        Some(IoRole::Both {
            name: self.device.clone(),
        })
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, Setup};
    use onefold_element::{ENTRY, IoRole};

    #[test]
    fn packets_leave_and_devices_are_not_opened() {
        let mut b = Bench::new("KernelTun", "10.0.0.1/8, DEVNAME tun7, MTU 1500", 1, 1).unwrap();
        assert!(b.push(0, b"x").is_empty());
        assert_eq!(b.out.transmitted.len(), 1);
        let name = "tun7".to_string();
        assert_eq!(b.element.io_role(), Some(IoRole::Both { name }));
        // what the host sends: IP at output 0, the rest at output 1 or nowhere
        let mut ip = vec![0x45, 0, 0, 20];
        ip.resize(20, 0);
        let got = b.push(ENTRY, &ip);
        assert_eq!(got.iter().map(|(o, _)| *o).collect::<Vec<_>>(), [0]);
        assert!(b.push(ENTRY, b"no IP").is_empty());
        let mut both = Bench::new("KernelTun", "10.0.0.1/8", 1, 2).unwrap();
        assert_eq!(both.push(ENTRY, b"no IP")[0].0, 1);
        let mut tap = Bench::new("KernelTap", "10.0.0.1/8", 1, 1).unwrap();
        assert_eq!(tap.push(ENTRY, b"any frame")[0].0, 0);
        let e = Bench::new("KernelTap", "", 1, 1).err().unwrap();
        assert!(e[0].starts_with("ADDR: required"), "{e:?}");
        let setup = Setup {
            noutputs: 1,
            unbound: true,
            ..Setup::default()
        };
        let names = onefold_element::NameDb::builtin();
        let e = Bench::with_setup("KernelTap", "10.0.0.1/8", setup, names)
            .err()
            .unwrap();
        assert_eq!(e, ["tap: virtual devices are not supported yet"]);
    }
}
