//! A TCP connection through a chain: two hosts in namespaces without names, each at an interface of the chain's, one of
//! which writes as much as the other one reads.

use crate::cmd::run::processes::move_before_others;
use crate::cmd::run::processes::outside::ip;
use anyhow::{Context, Result};
use onefold_levers::sys;
use onefold_nf::NetSpace;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The chain's interfaces: the writer's side, and the reader's.
pub const INTERFACES: [&str; 2] = ["client0", "server0"];
/// Addresses of the writer and the reader.
const HOSTS: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 13, 0, 1), Ipv4Addr::new(10, 13, 0, 2)];
const PORT: u16 = 5001;
/// Bytes that are written and read at a time.
const PIECE: usize = 64 << 10;
/// The same, of who has so much to send a second, and no more.
const SMALL_PIECE: usize = 16 << 10;
/// How soon the two hear that it is over.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// How long the connection may take until it is there.
const PATIENCE: Duration = Duration::from_secs(20);

/// See the module's text.
pub struct Tcp {
    hosts: [Arc<NetSpace>; 2],
    device: Arc<NetSpace>,
    read: Arc<AtomicU64>,
    over: Arc<AtomicBool>,
    threads: Vec<JoinHandle<()>>,
    /// What there is to send at most, in million bits a second.
    most: Option<u32>,
}

impl Tcp {
    /// Namespaces, interfaces and addresses; of so many million bits a second at most.
    ///
    /// # Errors
    /// Without privilege, or without `ip`.
    pub fn lay(most: Option<u32>) -> Result<Tcp> {
        let space = || -> Result<Arc<NetSpace>> {
            let space = NetSpace::new().context("a network namespace (run as root)")?;
            ip::settings(&space, &ip::silent())?;
            Ok(Arc::new(space))
        };
        let (hosts, device) = ([space()?, space()?], space()?);
        for ((host, name), address) in hosts.iter().zip(INTERFACES).zip(HOSTS) {
            let ecn = [("net.ipv4.tcp_ecn".to_string(), "1".to_string())];
            ip::settings(host, &ecn)?;
            let pair = format!(
                "link add {name} type veth peer name eth0 netns {}",
                host.path()
            );
            ip::batch(&device, &[pair, format!("link set {name} up")])?;
            let up = [
                format!("address add {address}/24 dev eth0"),
                "link set eth0 up".to_string(),
            ];
            ip::batch(host, &up)?;
        }
        Ok(Tcp {
            hosts,
            device,
            read: Arc::default(),
            over: Arc::default(),
            threads: Vec::new(),
            most,
        })
    }

    /// A command that is executed where the chain's interfaces are.
    pub fn command(&self, program: &str) -> Command {
        self.device.command(program)
    }

    /// The chain runs: connects, and writes from now on. Both sides are executed on this core.
    ///
    /// # Errors
    /// There is no connection.
    pub fn begin(&mut self, core: usize) -> Result<()> {
        let address = SocketAddr::from((HOSTS[1], PORT));
        let listener = self.hosts[1].within(|| TcpListener::bind(address))??;
        let connected = self.hosts[0].within(|| connect(address))?;
        let writer = connected.context("a connection through the chain")?;
        let (reader, _) = listener.accept()?;
        writer.set_write_timeout(Some(LOOK_EVERY))?;
        reader.set_read_timeout(Some(LOOK_EVERY))?;
        let (over, read) = (self.over.clone(), self.read.clone());
        let most = self.most;
        self.spawn(core, move || writes(writer, most, &over))?;
        let over = self.over.clone();
        self.spawn(core, move || reads(reader, &read, &over))?;
        Ok(())
    }

    fn spawn(&mut self, core: usize, what: impl FnOnce() + Send + 'static) -> Result<()> {
        let thread = std::thread::Builder::new().spawn(move || {
            // wishes: who moves packets goes before others under some policies, and hosts stand for other machines
            let _ = sys::pin(0, core);
            move_before_others();
            what();
        });
        self.threads.push(thread.context("a thread")?);
        Ok(())
    }

    /// Bytes that have been read so far.
    pub fn bytes(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }
}

impl Drop for Tcp {
    fn drop(&mut self) {
        self.over.store(true, Ordering::Relaxed);
        for t in self.threads.drain(..) {
            let _ = t.join();
        }
    }
}

/// Until somebody listens and the chain lets it through.
fn connect(to: SocketAddr) -> std::io::Result<TcpStream> {
    let begun = Instant::now();
    loop {
        match TcpStream::connect_timeout(&to, PATIENCE) {
            Err(_) if begun.elapsed() < PATIENCE => std::thread::sleep(LOOK_EVERY),
            done => return done,
        }
    }
}

/// May it go on after this?
fn goes_on(e: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    [WouldBlock, TimedOut, Interrupted].contains(&e.kind())
}

/// Writes as much as is taken; with `most`, no more than so many million bits a second: a piece is not written before
/// it is due, and who was held up for longer than a few pieces does not make up for it.
fn writes(mut to: TcpStream, most: Option<u32>, over: &AtomicBool) {
    let piece = vec![0x13; most.map_or(PIECE, |_| SMALL_PIECE)];
    let each =
        most.map(|m| Duration::from_secs_f64(SMALL_PIECE as f64 * 8e-6 / f64::from(m.max(1))));
    let mut due = Instant::now();
    while !over.load(Ordering::Relaxed) {
        if let Some(each) = each {
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let late = Instant::now().checked_sub(each * 16);
            due = late.map_or(due, |late| due.max(late)) + each;
        }
        match to.write(&piece) {
            Ok(_) => {}
            Err(e) if goes_on(&e) => {}
            Err(_) => return,
        }
    }
}

fn reads(mut from: TcpStream, count: &AtomicU64, over: &AtomicBool) {
    let mut piece = vec![0; PIECE];
    while !over.load(Ordering::Relaxed) {
        match from.read(&mut piece) {
            Ok(0) => return,
            Ok(n) => {
                count.fetch_add(n as u64, Ordering::Relaxed);
            }
            Err(e) if goes_on(&e) => {}
            Err(_) => return,
        }
    }
}
