//! A black box is made, and the devices that it is attached by are opened: what the process does first that moves
//! packets between its rings and the black box.
//!
//! That process has a network namespace of its own, with one end of each interface; the other end is in the black
//! box's. All of it is made anew each time the process is launched.

use super::inner::{self, Inner};
use super::program::Program;
use super::{Boxed, ip};
use crate::ports::{self, DpdkSetup, PortArg, Receivers};
use anyhow::{Context, Result, bail};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onefold_chain::kinds::external::{Attach, Inside};
use onefold_chain::segments::Segment;
use onefold_nf::NetSpace;
use onefold_port_interface::Interface;
use onefold_port_packet::{Mode, PacketPort, SLOTS};
use onefold_port_tap::TapPort;
use onefold_runtime::{LinkState, Port};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// How long a link may take to come up.
const LINK: Duration = Duration::from_secs(30);
/// The exit status when a program has ended by itself.
const PROGRAM_ENDED: i32 = 3;

/// A black box that works, and the devices by port of the process's chain.
pub struct Attached {
    /// Devices.
    pub devices: Vec<(String, Box<dyn Port>)>,
    program: Program,
    /// It is about to end because it was told to.
    ending: Arc<AtomicBool>,
}

/// A port that is an interface of this namespace, whoever else uses it.
///
/// # Errors
/// There is no such interface, or no packet socket to be had.
pub fn packet_port(port: &str, interface: &str) -> Result<Box<dyn Port>> {
    let found = Interface::find(interface)?;
    Ok(Box::new(PacketPort::open(port, found, Mode::Ring(SLOTS))?))
}

/// Makes it.
///
/// # Errors
/// What keeps it from being made, with what to type where something is missing.
pub fn attach(boxed: &Boxed, dpdk: &DpdkSetup) -> Result<Attached> {
    let (name, b) = (&boxed.name, &boxed.black_box);
    let inside = Arc::new(NetSpace::new().with_context(|| {
        format!("{name}: making a network namespace (that takes CAP_SYS_ADMIN: run as root)")
    })?);
    let here = Arc::new(NetSpace::current()?);
    ip::settings(&here, &ip::silent())?;
    let all = || b.ports.iter().filter_map(Attach::inside);
    if !all().any(|i| i.addresses.iter().any(|a| a.contains(':'))) {
        ip::settings(&inside, &ip::silent())?;
    }
    let mut devices: Vec<(String, Box<dyn Port>)> = Vec::new();
    for (n, a) in b.ports.iter().enumerate() {
        let port = Segment::door(n);
        match a {
            Attach::Veth(i) => {
                veth(&here, &inside, n, i).with_context(|| format!("{name}: port {n}"))?;
                devices.push((port.clone(), packet_port(&port, &outer(n))?));
            }
            Attach::Tap(i) => {
                let open = inside.within(|| TapPort::open(&port, &i.name))?;
                devices.push((
                    port,
                    Box::new(open.with_context(|| format!("{name}: port {n}"))?),
                ));
                let set = format!("link set {} address {} mtu {}", i.name, i.mac, i.mtu);
                ip::batch(&inside, &[set])?;
            }
            Attach::Memif(_) | Attach::VirtioUser(_) => {}
        }
    }
    ip::settings(&inside, &b.sysctls).with_context(|| name.clone())?;
    ip::batch(&inside, &lines(boxed)).with_context(|| name.clone())?;
    let with_sockets = b.ports.iter().any(|a| a.inside().is_none());
    if with_sockets {
        inner::scratch()?;
        devices.extend(dpdk_devices(boxed, dpdk)?);
    }
    let told = Inner {
        name: name.clone(),
        black_box: b.clone(),
        // this process's, if there is one
        scratch: false,
    };
    let mut program = Program::launch(name, &told, &inside, None)?;
    if !boxed.quiet {
        let id = program.id();
        eprintln!("{name}: its namespaces are those of process {id}: nsenter -t {id} -n -p -m");
    }
    for (port, device) in &mut devices {
        wait_for_link(name, port, (device.as_mut(), &mut program))?;
    }
    let attached = Attached {
        devices,
        ending: Arc::new(AtomicBool::new(false)),
        program,
    };
    attached.watch(name)?;
    Ok(attached)
}

impl Attached {
    /// This process ends when the program does: whoever has launched it launches it again, and both with it.
    fn watch(&self, name: &str) -> Result<()> {
        let (fd, ending, name) = (self.program.watch()?, self.ending.clone(), name.to_string());
        std::thread::Builder::new()
            .name("program".into())
            .spawn(move || {
                let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
                while poll(&mut fds, PollTimeout::NONE).is_err() {}
                if !ending.load(Ordering::Acquire) {
                    eprintln!("{name}: its program has ended");
                    std::process::exit(PROGRAM_ENDED);
                }
            })?;
        Ok(())
    }

    /// The program is asked to end.
    pub fn end(self) {
        self.ending.store(true, Ordering::Release);
        self.program.end();
    }
}

/// What this process's end of a port is called.
fn outer(n: usize) -> String {
    format!("p{n}")
}

fn veth(here: &Arc<NetSpace>, inside: &Arc<NetSpace>, n: usize, i: &Inside) -> Result<()> {
    let (out, mtu) = (outer(n), i.mtu);
    let add = format!(
        "link add {out} mtu {mtu} type veth peer name {} address {} mtu {mtu} netns {}",
        i.name,
        i.mac,
        inside.path()
    );
    ip::batch(here, &[add, format!("link set {out} up")])
}

/// What makes interfaces, addresses, neighbours and routes of its namespace whole.
fn lines(boxed: &Boxed) -> Vec<String> {
    let b = &boxed.black_box;
    let mut all = vec!["link set lo up".to_string()];
    for i in b.ports.iter().filter_map(Attach::inside) {
        for a in &i.addresses {
            // nobody else can have it on this link
            let how = if a.contains(':') { " nodad" } else { "" };
            all.push(format!("address add {a} dev {}{how}", i.name));
        }
        all.push(format!("link set {} up", i.name));
    }
    all.extend(b.neighbours.iter().map(|n| format!("neigh add {n}")));
    all.extend(b.routes.iter().map(|r| format!("route add {r}")));
    all
}

/// Ports by sockets: this process is the server, so that the program finds it whenever it comes.
fn dpdk_devices(boxed: &Boxed, dpdk: &DpdkSetup) -> Result<Vec<(String, Box<dyn Port>)>> {
    let mut args: Vec<PortArg> = Vec::new();
    for (n, a) in boxed.black_box.ports.iter().enumerate() {
        let device = match a {
            Attach::Memif(s) => {
                format!("net_memif{n},role=server,id=0,socket={s},socket-abstract=no")
            }
            Attach::VirtioUser(s) => format!("net_vhost{n},iface={s}"),
            Attach::Veth(_) | Attach::Tap(_) => continue,
        };
        let arg = ports::port_arg(&format!("{}=dpdk:{device}", Segment::door(n)));
        args.push(arg.map_err(|e| anyhow::anyhow!("{}: port {n}: {e}", boxed.name))?);
    }
    let mut started = ports::start_dpdk(&args, dpdk).with_context(|| boxed.name.clone())?;
    let mut all = Vec::new();
    for a in &args {
        if let Some(live) = a.open_live(None, started.as_mut(), Receivers::Queues(1))? {
            all.push((a.port.clone(), live.open));
        }
    }
    Ok(all)
}

fn wait_for_link(
    name: &str,
    port: &str,
    (device, program): (&mut dyn Port, &mut Program),
) -> Result<()> {
    let begun = Instant::now();
    loop {
        device.attend();
        if device.link() == LinkState::Up {
            return Ok(());
        }
        if let Some(status) = program.ended() {
            bail!("{name}: its program has ended before it came to {port} ({status})");
        }
        if begun.elapsed() > LINK {
            bail!("{name}: {port}: nobody has come to the other end for {LINK:?}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}
