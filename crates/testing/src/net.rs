//! Network namespaces for tests: hosts that are connected by pairs of virtual interfaces, and removed whatever
//! happens.
//!
//! A [`Net`] is a group of namespaces with names of their own; what a test makes in one is gone when the group is
//! dropped, with its interfaces. [`Net::within`] runs a closure on a thread that is in a namespace: what it opens
//! with `std::net` or [`Raw`] belongs to that host.

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{
    AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, SockaddrIn, SockaddrIn6, bind,
    connect, recv, sendto, socket,
};
use std::fs::File;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddrV4, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

static NEXT: AtomicU32 = AtomicU32::new(0);

/// Namespaces of one test.
pub struct Net {
    /// In front of all names.
    prefix: String,
    names: Vec<String>,
}

impl Net {
    /// One namespace for each of these hosts, or `None`, said as a [`crate::skip`], where that is not possible.
    #[track_caller]
    pub fn new(hosts: &[&str]) -> Option<Net> {
        if !nix::unistd::geteuid().is_root() {
            crate::skip("network namespaces need root");
            return None;
        }
        if Command::new("ip").arg("-V").output().is_err() {
            crate::skip("ip (iproute2) is not installed");
            return None;
        }
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut net = Net {
            prefix: format!("of{}-{n}", std::process::id()),
            names: Vec::new(),
        };
        for h in hosts {
            let name = net.name(h);
            let made = Command::new("ip").args(["netns", "add", &name]).output();
            let made = made.is_ok_and(|o| o.status.success());
            if !made {
                crate::skip("namespaces cannot be made here (ip netns add)");
                return None;
            }
            net.names.push(name);
            net.ip(h, "link set lo up");
        }
        Some(net)
    }

    /// The name that the system knows a host's namespace by.
    pub fn name(&self, host: &str) -> String {
        format!("{}-{host}", self.prefix)
    }

    /// `ip ARGS` in a host's namespace.
    ///
    /// # Panics
    /// When it fails.
    #[track_caller]
    pub fn ip(&self, host: &str, args: &str) {
        let name = self.name(host);
        let mut all = vec!["-n", &name];
        all.extend(args.split_whitespace());
        let o = Command::new("ip").args(&all).output().expect("ip runs");
        let said = String::from_utf8_lossy(&o.stderr);
        assert!(o.status.success(), "ip {}: {said}", all.join(" "));
    }

    /// A pair of interfaces, both up: `a` of host `ha`, `b` of host `hb`. No address is tried before it is used. MAC
    /// addresses follow from the names: a pair that is made again has the same ones.
    pub fn pair(&self, a: (&str, &str), b: (&str, &str)) {
        self.pair_of_queues(a, b, 1);
    }

    /// The same with so many queues at either end, each way.
    pub fn pair_of_queues(&self, (ha, a): (&str, &str), (hb, b): (&str, &str), queues: usize) {
        let of = match queues {
            1 => String::new(),
            n => format!("numrxqueues {n} numtxqueues {n}"),
        };
        let (na, nb) = (self.name(ha), self.name(hb));
        let (ma, mb) = (mac(a), mac(b));
        self.ip(
            ha,
            &format!("link add {a} address {ma} {of} type veth peer name {b} address {mb} netns {nb} {of}"),
        );
        for (host, name, interface) in [(ha, &na, a), (hb, &nb, b)] {
            let path = format!("/proc/sys/net/ipv6/conf/{interface}/accept_dad");
            let quiet = Command::new("ip")
                .args([
                    "netns",
                    "exec",
                    name,
                    "sh",
                    "-c",
                    &format!("echo 0 > {path}"),
                ])
                .stderr(Stdio::null())
                .status();
            // without IPv6 there is nothing to be quiet about
            let _ = quiet;
            self.ip(host, &format!("link set {interface} up"));
        }
    }

    /// A command in a host's namespace.
    pub fn command(&self, host: &str, program: &str) -> Command {
        let mut c = Command::new("ip");
        c.args(["netns", "exec", &self.name(host), program]);
        c
    }

    /// Runs `f` in a host's namespace, on a thread of its own.
    ///
    /// # Panics
    /// As `f`.
    pub fn within<T: Send>(&self, host: &str, f: impl FnOnce() -> T + Send) -> T {
        let path = format!("/var/run/netns/{}", self.name(host));
        std::thread::scope(|s| {
            let run = s.spawn(move || {
                enter(&path);
                f()
            });
            match run.join() {
                Ok(t) => t,
                Err(e) => std::panic::resume_unwind(e),
            }
        })
    }

    /// The same, while the test goes on.
    pub fn start<T: Send + 'static>(
        &self,
        host: &str,
        f: impl FnOnce() -> T + Send + 'static,
    ) -> std::thread::JoinHandle<T> {
        let path = format!("/var/run/netns/{}", self.name(host));
        std::thread::spawn(move || {
            enter(&path);
            f()
        })
    }
}

/// A MAC address for an interface of this name.
fn mac(name: &str) -> String {
    let h = name.bytes().fold(0x811c_9dc5u32, |h, b| {
        (h ^ u32::from(b)).wrapping_mul(0x0100_0193)
    });
    let [a, b, c, d] = h.to_be_bytes();
    format!("02:0f:{a:02x}:{b:02x}:{c:02x}:{d:02x}")
}

fn enter(path: &str) {
    let ns = File::open(path).expect("the namespace is there");
    setns(ns, CloneFlags::CLONE_NEWNET).expect("the thread enters the namespace");
}

impl Drop for Net {
    fn drop(&mut self) {
        for n in &self.names {
            let _ = Command::new("ip").args(["netns", "del", n]).output();
        }
    }
}

/// A raw socket: ICMP or ICMPv6 messages of the host that it is opened in.
pub struct Raw {
    socket: OwnedFd,
    v6: bool,
}

/// An ICMP message: the whole packet with its IPv4 header, or the message alone of ICMPv6.
pub type Message = Vec<u8>;

impl Raw {
    /// For ICMP.
    ///
    /// # Panics
    /// Without permission.
    pub fn icmp() -> Raw {
        Raw {
            socket: open(AddressFamily::Inet, SockProtocol::Icmp),
            v6: false,
        }
    }

    /// For ICMPv6.
    ///
    /// # Panics
    /// Without permission.
    pub fn icmp6() -> Raw {
        Raw {
            socket: open(AddressFamily::Inet6, SockProtocol::IcmpV6),
            v6: true,
        }
    }

    /// The first message that `is` says is wanted; `None` when none comes in time.
    pub fn wait(&self, time: Duration, mut is: impl FnMut(&[u8]) -> bool) -> Option<Message> {
        let begun = Instant::now();
        let mut buffer = [0u8; 2048];
        loop {
            let left = time.checked_sub(begun.elapsed())?;
            let left = u16::try_from(left.as_millis()).unwrap_or(u16::MAX);
            let mut ready = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
            match poll(&mut ready, PollTimeout::from(left)) {
                Ok(_) | Err(Errno::EINTR) => {}
                Err(e) => panic!("poll: {e}"),
            }
            let got = recv(self.socket.as_raw_fd(), &mut buffer, MsgFlags::MSG_DONTWAIT);
            let message = buffer.get(..got.unwrap_or(0)).unwrap_or_default();
            if is(message) {
                return Some(message.to_vec());
            }
        }
    }

    /// Sends an echo request to an IPv4 address, and waits for the reply. A request is repeated until the time is
    /// over: the first ones may be lost while neighbours are asked for each other.
    pub fn ping(&self, to: Ipv4Addr, id: u16, time: Duration) -> Option<Message> {
        let to = SockaddrIn::from(std::net::SocketAddrV4::new(to, 0));
        let data = echo(8, id);
        self.ask(
            time,
            || {
                let _ = sendto(self.socket.as_raw_fd(), &data, &to, MsgFlags::empty());
            },
            |m| m.first() == Some(&0x45) && m.get(20) == Some(&0) && m.get(24..) == data.get(4..),
        )
    }

    /// The same for IPv6.
    pub fn ping6(&self, to: Ipv6Addr, id: u16, time: Duration) -> Option<Message> {
        assert!(self.v6);
        let to = SockaddrIn6::from(std::net::SocketAddrV6::new(to, 0, 0, 0));
        let data = echo(128, id);
        self.ask(
            time,
            || {
                let _ = sendto(self.socket.as_raw_fd(), &data, &to, MsgFlags::empty());
            },
            |m| m.first() == Some(&129) && m.get(4..) == data.get(4..),
        )
    }

    fn ask(
        &self,
        time: Duration,
        mut send: impl FnMut(),
        is: impl Fn(&[u8]) -> bool,
    ) -> Option<Message> {
        let begun = Instant::now();
        while begun.elapsed() < time {
            send();
            let m = self.wait(Duration::from_millis(300), &is);
            if m.is_some() {
                return m;
            }
        }
        None
    }
}

/// An echo request with 56 bytes of data; its checksum is right for ICMP, and the kernel's to write for ICMPv6.
fn echo(kind: u8, id: u16) -> Vec<u8> {
    let mut m = vec![kind, 0, 0, 0];
    m.extend(id.to_be_bytes());
    m.extend([0, 1]);
    m.extend((0..56u8).map(|i| i.wrapping_mul(5)));
    let words = m.chunks(2).map(|c| u32::from(c[0]) << 8 | u32::from(c[1]));
    let sum: u32 = words.sum();
    let sum = (sum >> 16) + (sum & 0xffff);
    let sum = !(((sum >> 16) + sum) as u16);
    m[2..4].copy_from_slice(&sum.to_be_bytes());
    m
}

fn open(family: AddressFamily, protocol: SockProtocol) -> OwnedFd {
    socket(family, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol).expect("a raw socket")
}

/// A TCP connection from this address of the host's (any, if it is unspecified).
///
/// # Errors
/// There is none within `most`, or the address is not the host's.
pub fn connect_from(from: Ipv4Addr, to: SocketAddrV4, most: Duration) -> io::Result<TcpStream> {
    if from.is_unspecified() {
        return TcpStream::connect_timeout(&to.into(), most);
    }
    let flags = SockFlag::SOCK_CLOEXEC;
    let s = socket(AddressFamily::Inet, SockType::Stream, flags, None)?;
    bind(s.as_raw_fd(), &SockaddrIn::from(SocketAddrV4::new(from, 0)))?;
    let s = TcpStream::from(s);
    // the kernel's limit for a connection is minutes: this is the time for all of it
    s.set_write_timeout(Some(most))?;
    connect(s.as_raw_fd(), &SockaddrIn::from(to))?;
    Ok(s)
}
