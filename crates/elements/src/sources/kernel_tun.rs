//! KernelTun, KernelTap: the host's own stack behind a virtual device.
//!
//! Click elements KernelTun, KernelTap. Live devices are not opened yet: such an element can be bound to a port, through
//! which its packets leave; nothing enters through it. An element that nothing is bound to says so when it is initialized.

use crate::args::{AnyArg, Args, Ip4Prefix};
use crate::class::{Effect, ElementClass};
use crate::cx::Cx;
use crate::element::{ConfigCx, ConfigError, ConfigErrors, Element, InitCx, IoRole, TaskStatus};
use crate::{Port, element_any};
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
    pulls: bool,
}

impl KernelTun {
    fn new(device: &str) -> Self {
        KernelTun {
            device: device.to_string(),
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
                self.device = String::from_utf8_lossy(&crate::args::unquote(&d)).into_owned();
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

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.transmit(p);
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
        Some(IoRole::Sink {
            name: self.device.clone(),
        })
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::element::IoRole;
    use crate::testing::{Bench, Setup};

    #[test]
    fn packets_leave_and_devices_are_not_opened() {
        let mut b = Bench::new("KernelTun", "10.0.0.1/8, DEVNAME tun7, MTU 1500", 1, 1).unwrap();
        assert!(b.push(0, b"x").is_empty());
        assert_eq!(b.out.transmitted.len(), 1);
        let name = "tun7".to_string();
        assert_eq!(b.element.io_role(), Some(IoRole::Sink { name }));
        let e = Bench::new("KernelTap", "", 1, 1).err().unwrap();
        assert!(e[0].starts_with("ADDR: required"), "{e:?}");
        let setup = Setup {
            noutputs: 1,
            unbound: true,
            ..Setup::default()
        };
        let names = crate::NameDb::builtin();
        let e = Bench::with_setup("KernelTap", "10.0.0.1/8", setup, names)
            .err()
            .unwrap();
        assert_eq!(e, ["tap: virtual devices are not supported yet"]);
    }
}
