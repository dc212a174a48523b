//! What a service manager is told (`sd_notify(3)`): that packets are taken, that the run ends, and, as long as the
//! worker goes round, that it is alive. Without `NOTIFY_SOCKET` nobody is told anything.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::{Duration, Instant};

/// See the module's text.
#[derive(Debug, Default)]
pub struct Manager {
    to: Option<(UnixDatagram, SocketAddr)>,
    /// Half the time after which the manager takes the worker for dead.
    every: Option<Duration>,
    told: Option<Instant>,
}

fn address(name: &OsStr) -> Option<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name).ok(),
        _ => SocketAddr::from_pathname(name).ok(),
    }
}

impl Manager {
    /// As the environment says.
    pub fn of_environment() -> Manager {
        let to = std::env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let socket = UnixDatagram::unbound().ok()?;
            // nobody waits for a manager
            socket.set_nonblocking(true).ok()?;
            Some((socket, address(&name)?))
        });
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let mine = number("WATCHDOG_PID").is_none_or(|p| p == u64::from(std::process::id()));
        let every = number("WATCHDOG_USEC").filter(|_| mine && to.is_some());
        Manager {
            to,
            every: every.map(|us| Duration::from_micros(us) / 2),
            told: None,
        }
    }

    fn tell(&self, text: &str) {
        if let Some((socket, to)) = &self.to {
            // a manager that has gone is no reason to stop
            let _ = socket.send_to_addr(text.as_bytes(), to);
        }
    }

    /// Packets are taken from now on.
    pub fn ready(&mut self) {
        self.tell("READY=1\nSTATUS=takes packets");
    }

    /// It is alive.
    #[inline]
    pub fn alive(&mut self) {
        if let Some(every) = self.every
            && self.told.is_none_or(|t| t.elapsed() >= every)
        {
            self.told = Some(Instant::now());
            self.tell("WATCHDOG=1");
        }
    }

    /// It ends.
    pub fn ends(&mut self) {
        self.tell("STOPPING=1");
    }
}
