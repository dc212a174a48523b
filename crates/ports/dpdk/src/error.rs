//! What keeps a device of DPDK from being a port, and what to type.

use onefold_port_interface::InterfaceError;

/// What is wrong, and what to type.
#[derive(Debug, thiserror::Error)]
pub enum DpdkError {
    /// This binary knows nothing of DPDK.
    #[error(
        "port '{port}': this onefold was built without DPDK; type: apt-get install libdpdk-dev pkg-config && \
         cargo build --release -p onefold --features dpdk; or use packet:IF or xdp:IF, which need nothing installed"
    )]
    NotBuilt {
        /// The first port that wants it.
        port: String,
    },
    /// As with every kind of interface.
    #[error(transparent)]
    Interface(#[from] InterfaceError),
    /// An interface of the kernel's was named.
    #[error(
        "'{name}' is an interface of the kernel's, dpdk: wants a device; type: {}dpdk:net_af_xdp0,iface={name} or \
         dpdk:net_af_packet0,iface={name} (through the kernel); or use packet:{name} or xdp:{name}",
        .pci.as_ref().map(|a| format!("dpdk:{a} (the whole card, taken away from the kernel), ")).unwrap_or_default()
    )]
    KernelInterface {
        /// The interface.
        name: String,
        /// Its PCI address, if it has one.
        pci: Option<String>,
    },
    /// There is no such device on the bus.
    #[error(
        "there is no device {address} on the PCI bus; network devices there: {}; type: \
         dpdk-devbind.py --status-dev net",
        list(.known)
    )]
    NoPciDevice {
        /// The address.
        address: String,
        /// Addresses of the network devices that there are.
        known: Vec<String>,
    },
    /// A driver of the kernel's has the device.
    #[error(
        "device {address} belongs to the kernel's driver {driver}{}; DPDK cannot use it before it is given away; \
         type: modprobe vfio-pci && dpdk-devbind.py --bind=vfio-pci {address} (and dpdk-devbind.py --bind={driver} \
         {address} to give it back){}",
        .interface.as_ref().map(|i| format!(" (interface {i})")).unwrap_or_default(),
        .interface.as_ref().map(|i| format!("; or use packet:{i} or xdp:{i}, which leave it to the kernel"))
            .unwrap_or_default()
    )]
    KernelDriver {
        /// The address.
        address: String,
        /// The driver.
        driver: String,
        /// The interface that it makes of the device.
        interface: Option<String>,
    },
    /// No driver has the device.
    #[error(
        "device {address} belongs to no driver; DPDK reaches it through vfio-pci; type: modprobe vfio-pci && \
         dpdk-devbind.py --bind=vfio-pci {address}"
    )]
    NotBound {
        /// The address.
        address: String,
    },
    /// vfio-pci without an IOMMU.
    #[error(
        "device {address} is bound to vfio-pci, but this machine has no IOMMU switched on; type: \
         echo 1 > /sys/module/vfio/parameters/enable_unsafe_noiommu_mode; or boot with intel_iommu=on (AMD: \
         amd_iommu=on)"
    )]
    NoIommu {
        /// The address.
        address: String,
    },
    /// PCI devices write into memory that must stay where it is.
    #[error(
        "device {name} needs {mib} MiB of huge pages, of which {free} MiB are free; type: \
         sysctl -w vm.nr_hugepages={pages}"
    )]
    NoHugePages {
        /// The device.
        name: String,
        /// What is needed.
        mib: usize,
        /// What there is.
        free: usize,
        /// Pages of 2 MiB that would do.
        pages: usize,
    },
    /// DPDK does not start.
    #[error("DPDK {version} does not start: {why}{}", told(.log))]
    Start {
        /// Of DPDK.
        version: String,
        /// What is wrong, with what to type.
        why: String,
        /// What DPDK said.
        log: Vec<String>,
    },
    /// DPDK is started once.
    #[error("DPDK has been started in this process; all dpdk: ports are opened together")]
    Again,
    /// The driver is not there.
    #[error(
        "DPDK {version} has no driver '{driver}' here, which '{name}' needs; type: apt-get install {package}; drivers \
         are the files librte_net_*.so of {folder}"
    )]
    NoDriver {
        /// Of DPDK.
        version: String,
        /// The driver.
        driver: String,
        /// The device.
        name: String,
        /// The package that Debian and Ubuntu have it in, if it is one of DPDK's.
        package: String,
        /// Where drivers are looked for.
        folder: String,
    },
    /// The driver does not want the device.
    #[error("DPDK's driver refuses '{devargs}'{}{why}{}", named(.error), told(.log))]
    Probe {
        /// The device with its arguments.
        devargs: String,
        /// What the system calls the error.
        error: std::io::Error,
        /// What is known of why, with what to type.
        why: String,
        /// What DPDK said.
        log: Vec<String>,
    },
    /// A queue for each is not there.
    #[error(
        "device {name} has {most} queues each way, {wanted} are asked for; type: worker-queues={most} in its \
         place{cure}"
    )]
    Queues {
        /// The device.
        name: String,
        /// What it has.
        most: u16,
        /// What is asked for.
        wanted: u16,
        /// What gives it more.
        cure: &'static str,
    },
    /// The device does not take such packets.
    #[error(
        "device {name} takes MTUs from {least} to {most} bytes, not {mtu}; type: set-mtu={most} in its place"
    )]
    Mtu {
        /// The device.
        name: String,
        /// What is asked for.
        mtu: u16,
        /// Least that it takes.
        least: u32,
        /// Most that it takes.
        most: u32,
    },
    /// The chain sends longer packets.
    #[error(
        "device {name} takes packets of {mtu} bytes, the chain sends packets of up to {needed} there; type: \
         dpdk:{name},set-mtu={needed}; or give the interface of the chain file 'mtu: {mtu}'"
    )]
    SmallMtu {
        /// The device.
        name: String,
        /// What it takes.
        mtu: u32,
        /// What the chain sends.
        needed: u32,
    },
    /// There is no room for the frames.
    #[error(
        "{frames} frames of {room} bytes need {mib} MiB, which DPDK does not have; type: {cure}; or ask for less \
         (descriptors=N, worker-queues=N, frames=N of the dpdk: ports){}", told(.log)
    )]
    NoMemory {
        /// Frames.
        frames: u32,
        /// Bytes of each.
        room: u16,
        /// What all need.
        mib: usize,
        /// What gives more.
        cure: String,
        /// What DPDK said.
        log: Vec<String>,
    },
    /// The device does not take the setup.
    #[error("device {name}: {doing} failed{}{cure}{}", named(.error), told(.log))]
    Setup {
        /// The device.
        name: String,
        /// What was tried.
        doing: &'static str,
        /// What the system calls the error.
        error: std::io::Error,
        /// What may help.
        cure: String,
        /// What DPDK said.
        log: Vec<String>,
    },
}

/// An error number, unless it is the one that DPDK's drivers have for everything.
fn named(error: &std::io::Error) -> String {
    const ANY: i32 = 1;
    match error.raw_os_error() {
        Some(ANY) => String::new(),
        _ => format!(" ({error})"),
    }
}

/// What DPDK says of every failure, or of every start.
const NOISE: [&str; 5] = [
    "Failed to attach device on primary process",
    "Driver cannot attach the device",
    "Failed to register mp action callback",
    "Detected CPU lcores",
    "Detected NUMA nodes",
];

/// Lines of DPDK that are shown.
const SHOWN: usize = 4;

fn told(log: &[String]) -> String {
    // the list of its options is behind a wrong one
    let list = log.iter().position(|l| l.starts_with("Usage:"));
    let lines = log.iter().take(list.unwrap_or(log.len()));
    let lines = lines.filter(|l| !NOISE.iter().any(|n| l.contains(n)));
    let lines: Vec<&str> = lines.map(String::as_str).collect();
    match &lines[lines.len().saturating_sub(SHOWN)..] {
        [] => String::new(),
        last => format!("; DPDK says: {}", last.join(" | ")),
    }
}

fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_string(),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_dpdk_says_is_told_without_its_usage() {
        let log = [
            "EAL: Detected CPU lcores: 2",
            "onefold: unrecognized option",
            "Usage: onefold",
            "-l ...",
        ];
        let log: Vec<String> = log.iter().map(ToString::to_string).collect();
        assert_eq!(told(&log), "; DPDK says: onefold: unrecognized option");
        assert_eq!(told(&log[..1]), "");
        let e = DpdkError::Probe {
            devargs: "net_x0".to_string(),
            error: std::io::Error::from_raw_os_error(1),
            why: String::new(),
            log: Vec::new(),
        };
        assert_eq!(e.to_string(), "DPDK's driver refuses 'net_x0'");
    }
}
