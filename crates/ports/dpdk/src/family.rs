//! All devices of a run: DPDK is started once, and all of them have their frames in one memory.

use crate::arguments::{self, Memory, Setup};
use crate::error::DpdkError;
use crate::ffi::{self, Info, Pool};
use crate::host::Host;
use crate::opened::Opened;
use crate::port::DpdkPort;
use crate::queue::MOST;
use crate::spec::{Bus, Spec};
use onefold_packet::Pkt;
use onefold_port_interface::Interface;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Packets that elements hold before what comes in is copied.
pub(crate) const HOLDS: u32 = 2048;
/// Frames that caches of threads keep.
const CACHED: u32 = 1024;
/// Not fewer frames: `net_af_xdp` fills its ring from them, and DPDK's lists like a power of two less one.
const LEAST_FRAMES: u32 = 8191;
/// Least room of a frame, in bytes.
const LEAST_ROOM: u32 = 2048;
/// Ethernet header and two VLAN tags.
const LINK: u32 = 14 + 8;
/// What DPDK keeps about a frame, and its headroom.
const AROUND: usize = 64 + 128 + 128;
/// What DPDK needs besides frames, in bytes.
const BESIDES: usize = 48 << 20;
/// Handles of packets that are kept for the next ones.
const HANDLES: usize = 4096;
/// The MTU where nothing else is known.
const USUAL_MTU: u32 = 1500;

/// What ports share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub pool: Arc<Pool>,
    /// Packets without a frame.
    handles: Mutex<Vec<Pkt>>,
    /// Receive interrupts are wanted.
    pub interrupts: bool,
}

impl Shared {
    /// Takes packets without a frame into `to`, which is empty.
    pub fn take_handles(&self, to: &mut Vec<Pkt>) {
        let mut all = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        std::mem::swap(&mut *all, to);
    }

    /// Packets without a frame, for other ports.
    pub fn give_handles(&self, from: &mut Vec<Pkt>) {
        let mut all = self.handles.lock().unwrap_or_else(PoisonError::into_inner);
        all.append(from);
        all.truncate(HANDLES);
    }
}

/// See the module's text.
#[derive(Debug)]
pub struct Dpdk {
    shared: Arc<Shared>,
    /// Devices that no port has yet.
    devices: Vec<(Spec, ffi::Device, Info)>,
    memory: Memory,
    remarks: Vec<String>,
}

static STARTED: AtomicBool = AtomicBool::new(false);

/// Room of a frame for packets of this MTU: whole cache lines.
fn room(mtu: u32) -> u16 {
    let needed = (mtu + LINK).max(LEAST_ROOM).next_multiple_of(64);
    u16::try_from(needed).unwrap_or(u16::MAX / 64 * 64)
}

/// Frames that the ports need.
fn frames(specs: &[Spec]) -> u32 {
    let of =
        |s: &Spec| u32::from(s.queues) * (2 * u32::from(s.descriptors) + MOST as u32) + s.frames;
    // a thread for each queue of the device that has the most
    let threads = specs.iter().map(|s| u32::from(s.queues)).max().unwrap_or(1);
    let all = specs
        .iter()
        .map(of)
        .fold(HOLDS + threads * CACHED, u32::saturating_add);
    all.max(LEAST_FRAMES)
}

/// Bytes of so many frames.
fn bytes(frames: u32, room: u16) -> usize {
    frames as usize * (AROUND + usize::from(room))
}

impl Dpdk {
    /// Starts DPDK with these devices, and with these arguments of the operator's; `interrupts`: the worker is going to
    /// sleep.
    ///
    /// # Errors
    /// What is wrong, with what to type.
    pub fn start(specs: &[Spec], extra: &[String], interrupts: bool) -> Result<Dpdk, DpdkError> {
        let host = Host::at(Path::new("/"));
        let mut mtu = USUAL_MTU;
        for s in specs {
            host.check(s)?;
            if let Some(i) = s.interface() {
                mtu = mtu.max(Interface::find(i)?.mtu);
            }
            mtu = mtu.max(s.mtu.map_or(0, u32::from));
        }
        if STARTED.swap(true, Ordering::SeqCst) {
            return Err(DpdkError::Again);
        }
        let mut remarks = Vec::new();
        let memory = memory(
            &host,
            specs,
            extra,
            bytes(frames(specs), room(mtu)),
            &mut remarks,
        )?;
        eal(&host, specs, extra, memory)?;
        let mut devices: Vec<(Spec, ffi::Device, Info)> = Vec::new();
        for s in specs {
            let (device, info) = crate::opened::probe(s)?;
            devices.push((s.clone(), device, info));
        }
        let mtus = devices.iter().map(|(s, _, i)| crate::opened::mtu(s, i));
        let mtu = mtus.max().unwrap_or(0);
        let least = devices
            .iter()
            .map(|d| d.2.room)
            .filter(|r| *r < 16_384)
            .max();
        let room = room(u32::from(mtu))
            .max(least.unwrap_or(0) as u16)
            .next_multiple_of(64);
        let socket = devices
            .iter()
            .map(|d| d.2.socket)
            .find(|s| *s >= 0)
            .unwrap_or(-1);
        let n = frames(specs);
        let pool = Pool::make(n, room, socket).map_err(|_| DpdkError::NoMemory {
            frames: n,
            room,
            mib: bytes(n, room).div_ceil(1 << 20),
            cure: match memory {
                Memory::Huge => format!("sysctl -w vm.nr_hugepages={}", pages(bytes(n, room))),
                Memory::Usual(_) => format!("--dpdk-args '-m {}'", mib(bytes(n, room))),
            },
            log: ffi::said(),
        })?;
        Ok(Dpdk {
            shared: Arc::new(Shared {
                pool: Arc::new(pool),
                handles: Mutex::default(),
                interrupts,
            }),
            devices,
            memory,
            remarks,
        })
    }

    /// What the operator may want to know.
    pub fn remarks(&self) -> &[String] {
        &self.remarks
    }

    /// A port on a device that DPDK was started with. Nothing arrives yet.
    ///
    /// # Errors
    /// What is wrong, with what to type.
    pub fn open(&mut self, spec: &Spec) -> Result<DpdkPort, DpdkError> {
        let (spec, device, info) = self.take(spec)?;
        let numbers: Vec<u16> = (0..spec.queues).collect();
        self.set_up(spec, device, &info, numbers)
    }

    fn set_up(
        &self,
        spec: Spec,
        device: ffi::Device,
        info: &Info,
        numbers: Vec<u16>,
    ) -> Result<DpdkPort, DpdkError> {
        let opened = Opened::set_up(&spec, device, info, &self.shared, &numbers)?;
        let huge = matches!(self.memory, Memory::Huge);
        let shared = Arc::clone(&self.shared);
        Ok(DpdkPort::new(spec, opened, shared, numbers, huge))
    }

    /// The same for as many workers as the device has queues ([`Spec::queues`]): a port for each, with a queue of its
    /// own.
    ///
    /// # Errors
    /// As [`Dpdk::open`].
    pub fn open_for(&mut self, spec: &Spec) -> Result<Vec<DpdkPort>, DpdkError> {
        let (spec, device, info) = self.take(spec)?;
        let first = self.set_up(spec, device, &info, vec![0])?;
        Ok(first.split(matches!(self.memory, Memory::Huge)))
    }

    /// A device that no port has yet.
    fn take(&mut self, spec: &Spec) -> Result<(Spec, ffi::Device, Info), DpdkError> {
        match self.devices.iter().position(|d| d.0 == *spec) {
            Some(i) => Ok(self.devices.swap_remove(i)),
            None => {
                let (device, info) = crate::opened::probe(spec)?;
                Ok((spec.clone(), device, info))
            }
        }
    }
}

/// MiB of usual pages that DPDK gets for so many bytes of frames.
fn mib(bytes: usize) -> usize {
    (bytes + bytes / 8 + BESIDES).div_ceil(1 << 20)
}

/// Huge pages of 2 MiB for so many bytes of frames.
fn pages(bytes: usize) -> usize {
    (bytes + bytes / 8 + BESIDES / 2).div_ceil(2 << 20)
}

/// Where frames lie: on huge pages, if there are enough of them.
fn memory(
    host: &Host,
    specs: &[Spec],
    extra: &[String],
    bytes: usize,
    remarks: &mut Vec<String>,
) -> Result<Memory, DpdkError> {
    if arguments::chooses_memory(extra) {
        return Ok(match arguments::has(extra, &["--no-huge"]) {
            true => Memory::Usual(mib(bytes)),
            false => Memory::Huge,
        });
    }
    let (free, needed) = (host.huge_pages().free, pages(bytes));
    if free >= needed * (2 << 20) && host.may_have_huge_pages() {
        return Ok(Memory::Huge);
    }
    let mib_of = |b: usize| b >> 20;
    if let Some(s) = specs.iter().find(|s| s.bus == Bus::Pci) {
        return Err(DpdkError::NoHugePages {
            name: s.name.clone(),
            mib: 2 * needed,
            free: mib_of(free),
            pages: needed,
        });
    }
    remarks.push(match host.may_have_huge_pages() {
        true => format!(
            "DPDK runs without huge pages ({} MiB of them are free, {} are needed), at about half the rate; type: \
             sysctl -w vm.nr_hugepages={needed}",
            mib_of(free),
            2 * needed
        ),
        false => "DPDK runs without huge pages, at about half the rate: those need the capability CAP_IPC_LOCK; run \
                  onefold as root"
            .to_string(),
    });
    Ok(Memory::Usual(mib(bytes)))
}

/// Starts the EAL.
fn eal(host: &Host, specs: &[Spec], extra: &[String], memory: Memory) -> Result<(), DpdkError> {
    let cpus = host.processors();
    let arguments = arguments::arguments(&Setup {
        specs,
        pid: std::process::id(),
        cpus: &cpus,
        memory,
        extra,
    });
    let loud = arguments::has(extra, &["--log-level"]);
    let started = ffi::start(&arguments, loud);
    let log = ffi::said();
    started.map_err(|error| DpdkError::Start {
        version: ffi::version(),
        why: why(&log, &error, &arguments),
        log,
    })?;
    // all that is in memory has no files there; others' are theirs
    if let Some(folder) = ffi::runtime_dir() {
        let folder = Path::new(&folder);
        let name = folder
            .file_name()
            .and_then(|n| n.to_str())
            .unwrap_or_default();
        if name == format!("{}{}", arguments::PREFIX, std::process::id()) {
            let _ = std::fs::remove_dir_all(folder);
        }
        if let Some(all) = folder.parent() {
            host.clear(all);
        }
    }
    Ok(())
}

/// Why the EAL does not start, with what to type.
fn why(log: &[String], error: &io::Error, arguments: &[String]) -> String {
    let said = |part: &str| log.iter().any(|l| l.contains(part));
    if said("Is another primary process running") || said("Cannot create lock") {
        return "another process has the same file prefix; type another one: --dpdk-args '--file-prefix=NAME', or none: \
                each onefold has its own then"
            .to_string();
    }
    if said("Invalid 'command line'") {
        return format!(
            "it does not know all of its arguments, which were: {}",
            arguments[1..].join(" ")
        );
    }
    if said("hugepage") {
        return "it gets no huge pages; type: sysctl -w vm.nr_hugepages=512; or --dpdk-args --no-huge".to_string();
    }
    format!("{error}; type: --dpdk-args --log-level=debug, for all that it says")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn specs(all: &[&str]) -> Vec<Spec> {
        all.iter().map(|s| Spec::parse(s).unwrap()).collect()
    }

    #[test]
    fn there_are_frames_for_every_queue_and_for_holds() {
        assert_eq!(frames(&specs(&["net_null0"])), LEAST_FRAMES);
        let four = specs(&["net_null0,worker-queues=4", "net_null1,frames=10"]);
        let queues = 5 * (2 * 1024 + MOST as u32);
        assert_eq!(frames(&four), queues + 10 + HOLDS + 4 * CACHED);
        assert_eq!((room(1500), room(9000)), (2048, 9024));
        // the longest MTU that may be asked for, with its headroom
        assert!(room(65_000).checked_add(128).is_some());
    }

    #[test]
    fn without_huge_pages_it_is_said_and_cards_are_refused() {
        let none = Host::at(Path::new("/nowhere"));
        let mut remarks = Vec::new();
        let m = memory(&none, &specs(&["net_null0"]), &[], 20 << 20, &mut remarks).unwrap();
        assert_eq!(m, Memory::Usual(71));
        assert!(
            remarks[0].contains("half the rate")
                && remarks[0].contains("sysctl -w vm.nr_hugepages=24")
        );
        let e = memory(&none, &specs(&["3b:00.0"]), &[], 20 << 20, &mut remarks).unwrap_err();
        assert!(
            e.to_string().contains("sysctl -w vm.nr_hugepages=24"),
            "{e}"
        );
        // the operator has chosen
        let chosen = ["--no-huge".to_string()];
        let m = memory(
            &none,
            &specs(&["net_null0"]),
            &chosen,
            20 << 20,
            &mut remarks,
        )
        .unwrap();
        assert_eq!((m, remarks.len()), (Memory::Usual(71), 1));
    }
}
