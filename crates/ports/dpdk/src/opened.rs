//! A device that is set up: found or made by its driver, with its queues.

use crate::error::DpdkError;
use crate::family::Shared;
use crate::ffi::{self, Burst, Device, Info, Received};
use crate::spec::{Bus, Spec};
use onefold_port_interface::{Control, Interface, Promiscuous, finish};
use std::cell::{Cell, RefCell};
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;

/// Where Debian has the drivers.
const FOLDER: &str = "/usr/lib/*/dpdk/pmds-*";
/// Most packets that are looked for when a worker is about to sleep.
const PEEK: usize = 32;

/// A device with its queues.
#[derive(Debug)]
pub(crate) struct Opened {
    /// All workers' that have a queue of it.
    pub device: Arc<Device>,
    /// Its driver.
    pub driver: String,
    pub mac: [u8; 6],
    pub mtu: u16,
    pub descriptors: [u16; 2],
    /// What wakes a worker; `None`: nothing does.
    pub wake: Option<Wake>,
    /// Of a device that takes its packets from an interface of the kernel's.
    pub kernel: Option<Kernel>,
}

/// The interface of the kernel's behind a device.
#[derive(Debug)]
pub(crate) struct Kernel {
    pub control: Control,
    pub name: String,
    pub index: u32,
    /// It hands over frames with unfinished checksums.
    pub unfinished: bool,
    #[allow(dead_code)]
    promiscuous: Promiscuous,
}

/// What wakes a worker when packets arrive.
#[derive(Debug)]
pub(crate) struct Wake {
    epoll: OwnedFd,
    /// The first queue, and how many.
    first: u16,
    queues: u16,
    /// Always readable.
    ready: OwnedFd,
    armed: Cell<bool>,
    /// Packets that were there when a worker was about to sleep.
    early: RefCell<Vec<Received>>,
    burst: RefCell<Burst>,
}

impl Wake {
    /// For these queues of a device, which are one behind the other; `None`: its driver has no receive interrupts.
    fn new(device: &Device, queues: &[u16]) -> Option<Wake> {
        let epoll = epoll().ok()?;
        for q in queues {
            device.wake(*q, epoll.as_fd()).ok()?;
        }
        Some(Wake {
            epoll,
            first: queues.first().copied().unwrap_or(0),
            queues: queues.len() as u16,
            ready: always_readable().ok()?,
            armed: Cell::new(false),
            early: RefCell::default(),
            burst: RefCell::default(),
        })
    }

    /// A worker is about to sleep: the descriptor that ends that.
    pub fn arm(&self, device: &Device, shared: &Shared, queues: &[u16]) -> BorrowedFd<'_> {
        self.armed.set(true);
        let mut early = self.early.borrow_mut();
        for q in queues {
            device.arm(*q);
            // what has come before wakes nobody
            let mut burst = self.burst.borrow_mut();
            early.extend(shared.pool.receive(device, *q, PEEK, &mut burst));
        }
        match early.is_empty() {
            true => self.epoll.as_fd(),
            false => self.ready.as_fd(),
        }
    }

    /// The worker is awake: packets that it has not got yet.
    #[inline]
    pub fn disarm(&mut self, device: &Device) -> &mut Vec<Received> {
        if self.armed.replace(false) {
            device.disarm(self.first, self.queues, self.epoll.as_fd());
        }
        self.early.get_mut()
    }
}

fn epoll() -> io::Result<OwnedFd> {
    use nix::sys::epoll::{Epoll, EpollCreateFlags};
    Ok(Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?.0)
}

fn always_readable() -> io::Result<OwnedFd> {
    use nix::sys::eventfd::{EfdFlags, EventFd};
    let e = EventFd::from_value_and_flags(1, EfdFlags::EFD_CLOEXEC)?;
    Ok(e.into())
}

/// The MTU that a device is to have.
pub(crate) fn mtu(s: &Spec, info: &Info) -> u16 {
    let of_kernel = || {
        let mtu = Interface::find(s.interface()?).ok()?.mtu;
        u16::try_from(mtu).ok()
    };
    s.mtu.or_else(of_kernel).unwrap_or(info.mtu)
}

/// Makes a device known, and asks what it is.
///
/// # Errors
/// What is wrong, with what to type.
pub(crate) fn probe(s: &Spec) -> Result<(Device, Info), DpdkError> {
    // of before
    ffi::said();
    let failed = |error: io::Error| {
        let log = ffi::said();
        let unknown = log
            .iter()
            .any(|l| l.contains("failed to parse device") || l.contains("unable to find bus"));
        if s.bus == Bus::Virtual && unknown {
            return no_driver(s);
        }
        DpdkError::Probe {
            devargs: s.devargs(),
            why: why(s, &log),
            error,
            log,
        }
    };
    let device = Device::probe(&s.devargs(), &s.name).map_err(failed)?;
    let info = device.info().map_err(failed)?;
    Ok((device, info))
}

/// A driver that is not installed, or that there is not.
fn no_driver(s: &Spec) -> DpdkError {
    let driver = s.driver().to_string();
    let of = match driver.as_str() {
        "virtio_user" | "net_virtio_user" => "virtio",
        "eth_vhost" => "vhost",
        d => d.strip_prefix("net_").unwrap_or(d),
    };
    DpdkError::NoDriver {
        version: ffi::version(),
        package: format!("librte-net-{}{}", of.replace('_', "-"), ffi::abi()),
        folder: FOLDER.to_string(),
        name: s.name.clone(),
        driver,
    }
}

/// What is known of why a driver refuses.
fn why(s: &Spec, log: &[String]) -> String {
    let said = |part: &str| log.iter().any(|l| l.contains(part));
    if said("Cannot get hugepage") || said("Cannot allocate memory") || said("Not enough") {
        return "; it has too little memory; type: --dpdk-args '-m 512'".to_string();
    }
    if s.is("net_af_xdp") && (said("attach") || said("xsk") || said("Device or resource busy")) {
        let i = s.interface().unwrap_or_default();
        return format!(
            "; an XDP program may be there already, which another program needs, or left behind; type: \
             ip link set dev {i} xdp off"
        );
    }
    if let Some(file) = s.argument("rx_pcap").filter(|f| !Path::new(f).exists()) {
        return format!("; there is no file '{file}'");
    }
    if said("backend set up fails") {
        let path = s.argument("path").unwrap_or_default();
        return format!(
            "; nobody serves '{path}': start the other side first, or let this one serve: server=1; with another \
             process it takes huge pages: sysctl -w vm.nr_hugepages=512"
        );
    }
    String::new()
}

impl Opened {
    /// Sets a device up: its queues, with frames of the pool of all; these are the ones that packets wake up for.
    ///
    /// # Errors
    /// What is wrong, with what to type.
    pub fn set_up(
        s: &Spec,
        device: Device,
        info: &Info,
        shared: &Shared,
        mine: &[u16],
    ) -> Result<Opened, DpdkError> {
        let kernel = s.interface().map(Kernel::of).transpose()?;
        let most = info.queues[0].min(info.queues[1]);
        if s.queues > most {
            return Err(DpdkError::Queues {
                name: s.name.clone(),
                most,
                wanted: s.queues,
                cure: match s.driver() {
                    "net_af_packet" => "; or give the driver as many: qpairs=N",
                    "net_af_xdp" => {
                        "; or give the driver as many: queue_count=N (ethtool -L IF combined N)"
                    }
                    "virtio_user" | "net_virtio_user" => "; or give the driver as many: queues=N",
                    _ => "",
                },
            });
        }
        let mtu = mtu(s, info);
        let [least, most] = info.mtus;
        if most > 0 && (u32::from(mtu) > most || u32::from(mtu) < least) {
            return Err(DpdkError::Mtu {
                name: s.name.clone(),
                mtu,
                least,
                most,
            });
        }
        let descriptors =
            [info.rx_descriptors, info.tx_descriptors].map(|l| fitting(s.descriptors, l));
        let setup = ffi::Setup {
            port: 0,
            queues: s.queues,
            rx_descriptors: descriptors[0],
            tx_descriptors: descriptors[1],
            mtu,
            interrupts: u8::from(shared.interrupts),
            // the kernel's interfaces forget it with the process
            promiscuous: u8::from(kernel.is_none()),
            rss: info.rss,
            hash_key: info.hash_key,
        };
        let device = begin(s, device, setup, shared)?;
        let wake = shared.interrupts.then(|| Wake::new(&device, mine));
        let wake = wake.flatten();
        Ok(Opened {
            device: Arc::new(device),
            driver: info.driver.clone(),
            mac: info.mac,
            mtu,
            descriptors,
            wake,
            kernel,
        })
    }
}

impl Opened {
    /// The same device for another worker, which has these queues.
    pub fn again(&self, shared: &Shared, mine: &[u16]) -> Opened {
        let wake = shared.interrupts.then(|| Wake::new(&self.device, mine));
        Opened {
            device: Arc::clone(&self.device),
            driver: self.driver.clone(),
            mac: self.mac,
            mtu: self.mtu,
            descriptors: self.descriptors,
            wake: wake.flatten(),
            // one of them looks after it
            kernel: None,
        }
    }
}

/// Configures a device and starts it: with receive interrupts, if they are wanted and it has them.
fn begin(
    s: &Spec,
    mut device: Device,
    setup: ffi::Setup,
    shared: &Shared,
) -> Result<Device, DpdkError> {
    let mut failed = None;
    for interrupts in [1, 0] {
        if interrupts > setup.interrupts {
            continue;
        }
        ffi::said();
        let setup = ffi::Setup {
            interrupts,
            ..setup
        };
        let tried = device.configure(setup, &shared.pool);
        match tried.and_then(|()| device.start().map_err(|e| ("starting it", e))) {
            Ok(()) => return Ok(device),
            Err(e) => failed = Some((e, ffi::said())),
        }
        // queues and MTUs have nothing to do with interrupts
        let doing = failed.as_ref().map(|((doing, _), _)| *doing);
        if !matches!(doing, Some("configuring it" | "starting it")) {
            break;
        }
        device.stop();
    }
    let nothing = || {
        (
            ("configuring it", io::Error::from(io::ErrorKind::Other)),
            Vec::new(),
        )
    };
    let ((doing, error), log) = failed.unwrap_or_else(nothing);
    Err(DpdkError::Setup {
        cure: cure(s, doing, &log),
        name: s.name.clone(),
        doing,
        error,
        log,
    })
}

/// What may help when a setup fails.
fn cure(s: &Spec, doing: &str, log: &[String]) -> String {
    let said = |part: &str| log.iter().any(|l| l.contains(part));
    if doing == "setting its MTU" {
        return "; type another one: set-mtu=N".to_string();
    }
    if s.is("net_pcap") && s.argument("infinite_rx").is_some() {
        return "; endless replay keeps each packet of the file in a frame; type: frames=N, with as many as there are \
                packets"
            .to_string();
    }
    if s.is("net_memif") && said("Failed to connect socket") {
        let socket = s.argument("socket").unwrap_or("/run/memif.sock");
        return format!("; nobody serves '{socket}': start the side with role=server first");
    }
    String::new()
}

impl Kernel {
    fn of(name: &str) -> Result<Kernel, DpdkError> {
        let i = Interface::find(name)?;
        let system = |doing: &'static str| {
            move |error| onefold_port_interface::InterfaceError::System {
                name: name.to_string(),
                doing,
                error,
            }
        };
        let control = Control::open().map_err(system("opening a socket"))?;
        let driver = control.driver(name);
        Ok(Kernel {
            unfinished: driver.is_some_and(|d| finish::leaves_unfinished(&d)),
            promiscuous: Promiscuous::on(i.index).map_err(system("receiving all frames of"))?,
            control,
            name: name.to_string(),
            index: i.index,
        })
    }
}

/// As many descriptors as a device takes: between its bounds, and a multiple of what it wants. `limits`: most, least,
/// and the divisor; zero: any.
fn fitting(wanted: u16, [most, least, divisor]: [u16; 3]) -> u16 {
    let most = if most == 0 { u16::MAX } else { most };
    let divisor = divisor.max(1);
    let n = wanted.clamp(least.min(most), most);
    (n / divisor * divisor).max(least.min(most))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_are_what_a_device_takes() {
        assert_eq!(fitting(1024, [0, 0, 0]), 1024);
        assert_eq!(fitting(1024, [512, 64, 32]), 512);
        assert_eq!(fitting(1000, [4096, 64, 32]), 992);
        assert_eq!(fitting(32, [4096, 64, 32]), 64);
    }
}
