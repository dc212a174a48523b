//! What can be said of a device before DPDK starts: what the system's files say of it, of huge pages, and of what this
//! process may do.

use crate::error::DpdkError;
use crate::spec::{Bus, Spec};
use onefold_port_interface::InterfaceError;
use std::fs;
use std::path::{Path, PathBuf};

/// Drivers of the kernel's that hand a device over.
const HAND_OVER: [&str; 3] = ["vfio-pci", "igb_uio", "uio_pci_generic"];
/// Drivers of the kernel's that DPDK works beside.
const BESIDE: [&str; 5] = ["mlx4_core", "mlx5_core", "mana", "hv_netvsc", "ena_uio"];
/// `CAP_NET_ADMIN`, `CAP_NET_RAW`, `CAP_SYS_ADMIN` and `CAP_BPF` (`linux/capability.h`).
const NET_ADMIN: u32 = 12;
const NET_RAW: u32 = 13;
const SYS_ADMIN: u32 = 21;
const BPF: u32 = 39;
/// `CAP_IPC_LOCK`: huge pages by a descriptor.
const IPC_LOCK: u32 = 14;

/// Processors of a range that are looked at.
const MOST_PROCESSORS: usize = 4096;

/// The system, as its files show it.
#[derive(Debug, Clone)]
pub struct Host {
    /// `/`, or what a test has in its place.
    root: PathBuf,
}

/// Huge pages that are free.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct HugePages {
    /// Bytes.
    pub free: usize,
}

impl Host {
    /// Behind this folder.
    pub fn at(root: &Path) -> Host {
        Host {
            root: root.to_path_buf(),
        }
    }

    fn path(&self, rest: &str) -> PathBuf {
        self.root.join(rest)
    }

    /// Is this device such that DPDK can be started for it?
    ///
    /// # Errors
    /// What is wrong, with what to type.
    pub fn check(&self, s: &Spec) -> Result<(), DpdkError> {
        match s.bus {
            Bus::Pci => self.check_pci(&s.name),
            Bus::Other => Ok(()),
            Bus::Virtual => {
                let net = self.path("sys/class/net").join(&s.name);
                if net.exists() && !s.name.starts_with("net_") {
                    let pci = fs::read_link(net.join("device")).ok();
                    let address = pci.and_then(|p| Some(p.file_name()?.to_str()?.to_string()));
                    let is_address = |a: &String| a.matches(':').count() == 2;
                    return Err(DpdkError::KernelInterface {
                        name: s.name.clone(),
                        pci: address.filter(is_address),
                    });
                }
                self.check_permission(s)
            }
        }
    }

    fn check_pci(&self, address: &str) -> Result<(), DpdkError> {
        let all = self.path("sys/bus/pci/devices");
        let device = all.join(address);
        let address = address.to_string();
        if !device.exists() {
            return Err(DpdkError::NoPciDevice {
                address,
                known: network_devices(&all),
            });
        }
        let driver = fs::read_link(device.join("driver")).ok();
        let driver = driver.and_then(|d| Some(d.file_name()?.to_str()?.to_string()));
        match driver {
            None => Err(DpdkError::NotBound { address }),
            Some(d) if d == "vfio-pci" => {
                let unsafe_mode =
                    self.path("sys/module/vfio/parameters/enable_unsafe_noiommu_mode");
                let on = fs::read_to_string(unsafe_mode).is_ok_and(|s| s.trim() == "Y");
                match device.join("iommu_group").exists() || on {
                    true => Ok(()),
                    false => Err(DpdkError::NoIommu { address }),
                }
            }
            Some(d) if HAND_OVER.contains(&d.as_str()) || BESIDE.contains(&d.as_str()) => Ok(()),
            Some(driver) => Err(DpdkError::KernelDriver {
                address,
                driver,
                interface: interface_of(&device),
            }),
        }
    }

    /// Capabilities that a driver of interfaces needs, said before it fails without a reason.
    fn check_permission(&self, s: &Spec) -> Result<(), DpdkError> {
        let (needs, doing, names): (&[u32], _, _) = if s.is("net_af_packet") {
            (&[NET_RAW][..], "opening a packet socket on", "CAP_NET_RAW")
        } else if s.is("net_af_xdp") {
            let names = "CAP_NET_RAW,CAP_NET_ADMIN,CAP_BPF";
            (
                &[NET_RAW, NET_ADMIN, BPF],
                "opening an AF_XDP socket on",
                names,
            )
        } else if s.is("net_tap") || s.is("net_tun") {
            (&[NET_ADMIN][..], "making the interface of", "CAP_NET_ADMIN")
        } else {
            return Ok(());
        };
        let has = self.capabilities();
        let may = |n: &u32| has >> n & 1 == 1 || *n == BPF && has >> SYS_ADMIN & 1 == 1;
        if needs.iter().all(may) {
            return Ok(());
        }
        Err(DpdkError::Interface(InterfaceError::NoPermission {
            name: s.argument("iface").unwrap_or(&s.name).to_string(),
            doing,
            capability: names,
        }))
    }

    /// What this process may do. Where it is not known, everything: the driver says otherwise.
    fn capabilities(&self) -> u64 {
        let status = fs::read_to_string(self.path("proc/self/status")).unwrap_or_default();
        let line = status.lines().find_map(|l| l.strip_prefix("CapEff:"));
        line.and_then(|l| u64::from_str_radix(l.trim(), 16).ok())
            .unwrap_or(u64::MAX)
    }

    /// May it have huge pages by a descriptor, as the EAL wants them?
    pub fn may_have_huge_pages(&self) -> bool {
        self.capabilities() >> IPC_LOCK & 1 == 1
    }

    /// Processors that this process may run on.
    pub fn processors(&self) -> Vec<usize> {
        let status = fs::read_to_string(self.path("proc/self/status")).unwrap_or_default();
        let line = status
            .lines()
            .find_map(|l| l.strip_prefix("Cpus_allowed_list:"));
        let mut all = Vec::new();
        for part in line.unwrap_or("0").trim().split(',') {
            let (from, to) = part.split_once('-').unwrap_or((part, part));
            if let (Ok(from), Ok(to)) = (from.parse::<usize>(), to.parse::<usize>()) {
                all.extend(from..=to.min(from + MOST_PROCESSORS));
            }
        }
        all
    }

    /// Free huge pages of all sizes.
    pub fn huge_pages(&self) -> HugePages {
        let all = fs::read_dir(self.path("sys/kernel/mm/hugepages"));
        let mut free = 0;
        for entry in all.into_iter().flatten().flatten() {
            let name = entry.file_name();
            let size = name.to_str().and_then(|n| n.strip_prefix("hugepages-"));
            let kib = size.and_then(|n| n.strip_suffix("kB")?.parse::<usize>().ok());
            let pages = fs::read_to_string(entry.path().join("free_hugepages"));
            let pages = pages.ok().and_then(|p| p.trim().parse::<usize>().ok());
            if let (Some(kib), Some(pages)) = (kib, pages) {
                free += (kib << 10).saturating_mul(pages);
            }
        }
        HugePages { free }
    }

    /// Removes what runs that were killed while DPDK started have left in the EAL's folder: folders of the name
    /// [`crate::arguments::PREFIX`] and the number of a process that is not there any more.
    pub fn clear(&self, folder: &Path) {
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let name = entry.file_name();
            let pid = name
                .to_str()
                .and_then(|n| n.strip_prefix(crate::arguments::PREFIX));
            let Some(pid) = pid.and_then(|p| p.parse::<u32>().ok()) else {
                continue;
            };
            if !self.path("proc").join(pid.to_string()).exists() {
                // somebody else's stays
                let _ = fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Addresses of network devices (class 2), sorted.
fn network_devices(all: &Path) -> Vec<String> {
    let devices = fs::read_dir(all).into_iter().flatten().flatten();
    let is_network = |p: &PathBuf| {
        fs::read_to_string(p.join("class")).is_ok_and(|c| c.trim().starts_with("0x02"))
    };
    let network = devices.map(|d| d.path()).filter(is_network);
    let mut names: Vec<String> = network
        .filter_map(|p| Some(p.file_name()?.to_str()?.to_string()))
        .collect();
    names.sort();
    names
}

/// The interface that the kernel has made of a device: directly, or of the virtio device in it.
fn interface_of(device: &Path) -> Option<String> {
    let first = |folder: &Path| {
        let mut entries = fs::read_dir(folder).ok()?.flatten();
        entries.next()?.file_name().into_string().ok()
    };
    first(&device.join("net")).or_else(|| {
        let inner = fs::read_dir(device).ok()?.flatten();
        let mut virtio = inner.filter(|e| e.file_name().to_string_lossy().starts_with("virtio"));
        first(&virtio.next()?.path().join("net"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    /// A system of files that goes when it is dropped.
    struct Made(PathBuf);

    impl Made {
        fn new(name: &str) -> Made {
            let dir =
                std::env::temp_dir().join(format!("onefold-dpdk-{name}-{}", std::process::id()));
            let _ = fs::remove_dir_all(&dir);
            fs::create_dir_all(&dir).unwrap();
            Made(dir)
        }
        fn folder(&self, path: &str) -> PathBuf {
            let p = self.0.join(path);
            fs::create_dir_all(&p).unwrap();
            p
        }
        fn file(&self, path: &str, text: &str) {
            let p = self.0.join(path);
            fs::create_dir_all(p.parent().unwrap()).unwrap();
            fs::write(p, text).unwrap();
        }
        fn device(&self, address: &str, driver: Option<&str>) -> PathBuf {
            let p = self.folder(&format!("sys/bus/pci/devices/{address}"));
            fs::write(p.join("class"), "0x020000\n").unwrap();
            if let Some(d) = driver {
                symlink(format!("../../../bus/pci/drivers/{d}"), p.join("driver")).unwrap();
            }
            p
        }
        fn check(&self, spec: &str) -> Result<(), String> {
            let s = Spec::parse(spec).unwrap();
            Host::at(&self.0).check(&s).map_err(|e| e.to_string())
        }
    }

    impl Drop for Made {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn each_state_of_a_pci_device_names_its_cure() {
        let m = Made::new("pci");
        let d = m.device("0000:3b:00.0", Some("ixgbe"));
        fs::create_dir_all(d.join("net/eth7")).unwrap();
        let e = m.check("3b:00.0").unwrap_err();
        assert!(e.contains("ixgbe") && e.contains("interface eth7"), "{e}");
        assert!(
            e.contains("dpdk-devbind.py --bind=vfio-pci 0000:3b:00.0"),
            "{e}"
        );
        let d = m.device("0000:3b:00.1", Some("virtio-pci"));
        fs::create_dir_all(d.join("virtio3/net/ens4")).unwrap();
        let e = m.check("3b:00.1").unwrap_err();
        assert!(
            e.contains("interface ens4") && e.contains("packet:ens4"),
            "{e}"
        );
        m.device("0000:3b:00.2", None);
        let e = m.check("3b:00.2").unwrap_err();
        assert!(
            e.contains("no driver") && e.contains("modprobe vfio-pci"),
            "{e}"
        );
        m.device("0000:3b:00.3", Some("mlx5_core"));
        assert_eq!(m.check("3b:00.3"), Ok(()));
        let e = m.check("3b:1f.0").unwrap_err();
        assert!(
            e.contains("0000:3b:00.0, 0000:3b:00.1") && e.contains("dpdk-devbind.py"),
            "{e}"
        );
        // without an IOMMU
        let d = m.device("0000:3b:00.4", Some("vfio-pci"));
        let e = m.check("3b:00.4").unwrap_err();
        assert!(e.contains("enable_unsafe_noiommu_mode"), "{e}");
        m.file(
            "sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
            "Y\n",
        );
        assert_eq!(m.check("3b:00.4"), Ok(()));
        m.file(
            "sys/module/vfio/parameters/enable_unsafe_noiommu_mode",
            "N\n",
        );
        symlink("../groups/3", d.join("iommu_group")).unwrap();
        m.folder("sys/bus/pci/devices/groups/3");
        assert_eq!(m.check("3b:00.4"), Ok(()));
    }

    #[test]
    fn an_interface_of_the_kernels_is_no_device() {
        let m = Made::new("net");
        m.folder("sys/class/net/eth1");
        symlink(
            "../../../0000:3b:00.0",
            m.0.join("sys/class/net/eth1/device"),
        )
        .unwrap();
        m.folder("sys/class/net/veth0");
        let e = m.check("eth1").unwrap_err();
        assert!(
            e.contains("dpdk:0000:3b:00.0") && e.contains("net_af_packet0,iface=eth1"),
            "{e}"
        );
        let e = m.check("veth0").unwrap_err();
        assert!(!e.contains("whole card") && e.contains("xdp:veth0"), "{e}");
    }

    #[test]
    fn drivers_of_interfaces_need_capabilities() {
        let m = Made::new("caps");
        let with = |caps: u64| {
            m.file(
                "proc/self/status",
                &format!("Name:\tx\nCapEff:\t{caps:016x}\n"),
            )
        };
        with(0);
        for (spec, name) in [
            ("net_af_packet0,iface=eth1", "CAP_NET_RAW"),
            ("net_af_xdp0,iface=eth1", "CAP_BPF"),
            ("net_tap0", "CAP_NET_ADMIN"),
        ] {
            let e = m.check(spec).unwrap_err();
            assert!(e.contains(name) && e.contains("setcap"), "{e}");
        }
        assert_eq!(m.check("net_null0"), Ok(()));
        assert!(!Host::at(&m.0).may_have_huge_pages());
        with(1 << NET_RAW | 1 << NET_ADMIN | 1 << SYS_ADMIN | 1 << IPC_LOCK);
        assert_eq!(m.check("net_af_xdp0,iface=eth1"), Ok(()));
        assert!(Host::at(&m.0).may_have_huge_pages());
    }

    #[test]
    fn processors_are_those_that_are_allowed() {
        let m = Made::new("cpus");
        m.file("proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-2,5\n");
        assert_eq!(Host::at(&m.0).processors(), [0, 1, 2, 5]);
        assert!(!Host::at(Path::new("/")).processors().is_empty());
    }

    #[test]
    fn huge_pages_of_all_sizes_count() {
        let m = Made::new("huge");
        assert_eq!(Host::at(&m.0).huge_pages().free, 0);
        m.file(
            "sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages",
            "3\n",
        );
        m.file(
            "sys/kernel/mm/hugepages/hugepages-1048576kB/free_hugepages",
            "1\n",
        );
        assert_eq!(Host::at(&m.0).huge_pages().free, (6 << 20) + (1 << 30));
    }

    #[test]
    fn what_the_dead_have_left_goes() {
        let m = Made::new("left");
        for name in ["onefold-1", "onefold-77", "onefold-x", "rte"] {
            m.file(&format!("run/dpdk/{name}/config"), "");
        }
        m.folder("proc/77");
        Host::at(&m.0).clear(&m.0.join("run/dpdk"));
        let left = |n: &str| m.0.join("run/dpdk").join(n).exists();
        assert!(!left("onefold-1") && left("onefold-77") && left("onefold-x") && left("rte"));
    }
}
