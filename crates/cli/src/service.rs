//! What a service manager is told (`sd_notify(3)`): that packets are taken, that the run ends, and, as long as all
//! workers go round, that it is alive. Without `NOTIFY_SOCKET` nobody is told anything.
//!
//! One worker tells, for all: one that hangs keeps it from telling that the run is alive.

use std::ffi::OsStr;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Workers of a process; the first one tells.
#[derive(Debug)]
struct Crew {
    begun: Instant,
    /// Of each, when it went round last: milliseconds since `begun`.
    all: Mutex<Vec<Arc<AtomicU64>>>,
}

/// Those of this process.
static CREW: LazyLock<Arc<Crew>> = LazyLock::new(|| Arc::new(Crew::new()));

impl Crew {
    fn new() -> Crew {
        Crew {
            begun: Instant::now(),
            all: Mutex::default(),
        }
    }

    fn all(&self) -> MutexGuard<'_, Vec<Arc<AtomicU64>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.begun.elapsed().as_millis() as u64
    }

    fn is_first(&self, me: &Arc<AtomicU64>) -> bool {
        self.all().first().is_some_and(|w| Arc::ptr_eq(w, me))
    }

    /// Has every worker gone round lately?
    fn is_alive(&self, within: Duration) -> bool {
        let now = self.now();
        let all = self.all();
        let ages = all
            .iter()
            .map(|w| now.saturating_sub(w.load(Ordering::Relaxed)));
        ages.max().unwrap_or(0) <= within.as_millis() as u64
    }
}

/// A worker's way to the service manager.
#[derive(Debug)]
pub struct Manager {
    crew: Arc<Crew>,
    /// When it went round last.
    round: Arc<AtomicU64>,
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
        Manager::of(&CREW)
    }

    fn of(crew: &Arc<Crew>) -> Manager {
        let to = std::env::var_os("NOTIFY_SOCKET").and_then(|name| {
            let socket = UnixDatagram::unbound().ok()?;
            // nobody waits for a manager
            socket.set_nonblocking(true).ok()?;
            Some((socket, address(&name)?))
        });
        let number = |name: &str| std::env::var(name).ok()?.parse::<u64>().ok();
        let mine = number("WATCHDOG_PID").is_none_or(|p| p == u64::from(std::process::id()));
        let every = number("WATCHDOG_USEC").filter(|_| mine && to.is_some());
        let every = every.map(|us| Duration::from_micros(us) / 2);
        Manager::telling(crew, to, every)
    }

    fn telling(
        crew: &Arc<Crew>,
        to: Option<(UnixDatagram, SocketAddr)>,
        every: Option<Duration>,
    ) -> Manager {
        let round = Arc::new(AtomicU64::new(crew.now()));
        crew.all().push(round.clone());
        Manager {
            crew: crew.clone(),
            round,
            to,
            every,
            told: None,
        }
    }

    fn tell(&self, text: &str) {
        if let Some((socket, to)) = &self.to
            && self.crew.is_first(&self.round)
        {
            // a manager that has gone is no reason to stop
            let _ = socket.send_to_addr(text.as_bytes(), to);
        }
    }

    /// Packets are taken from now on.
    pub fn ready(&mut self) {
        self.tell("READY=1\nSTATUS=takes packets");
    }

    /// This worker is alive; the manager hears of it if the others are, too.
    #[inline]
    pub fn alive(&mut self) {
        let Some(every) = self.every else { return };
        self.round.store(self.crew.now(), Ordering::Relaxed);
        // as long as the manager waits: longer than anybody sleeps
        if self.told.is_none_or(|t| t.elapsed() >= every) && self.crew.is_alive(every * 2) {
            self.told = Some(Instant::now());
            self.tell("WATCHDOG=1");
        }
    }

    /// It ends.
    pub fn ends(&mut self) {
        self.tell("STOPPING=1");
    }
}

impl Drop for Manager {
    fn drop(&mut self) {
        self.crew.all().retain(|w| !Arc::ptr_eq(w, &self.round));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many workers, and what their manager hears.
    fn crew(workers: usize) -> (Vec<Manager>, UnixDatagram) {
        let name = format!("onefold-service-{}-{workers}", std::process::id());
        let at = SocketAddr::from_abstract_name(name).unwrap();
        let heard = UnixDatagram::bind_addr(&at).unwrap();
        heard.set_nonblocking(true).unwrap();
        let crew = Arc::new(Crew::new());
        let one = |_| {
            let to = (UnixDatagram::unbound().unwrap(), at.clone());
            Manager::telling(&crew, Some(to), Some(Duration::from_millis(20)))
        };
        ((0..workers).map(one).collect(), heard)
    }

    fn all(heard: &UnixDatagram) -> Vec<String> {
        let mut data = [0; 64];
        let next = || {
            Some(heard.recv(&mut data).ok())
                .flatten()
                .map(|n| (n, data))
        };
        let mut next = next;
        std::iter::from_fn(|| next().map(|(n, d)| String::from_utf8_lossy(&d[..n]).into_owned()))
            .collect()
    }

    #[test]
    fn one_worker_tells_for_all_and_a_hung_one_is_not_masked() {
        let (mut workers, heard) = crew(3);
        for w in &mut workers {
            w.ready();
            w.alive();
        }
        assert_eq!(all(&heard), ["READY=1\nSTATUS=takes packets", "WATCHDOG=1"]);
        // the last one hangs
        for _ in 0..8 {
            std::thread::sleep(Duration::from_millis(15));
            workers[0].alive();
            workers[1].alive();
        }
        assert!(all(&heard).len() <= 2, "within the manager's patience only");
        workers[0].alive();
        assert_eq!(all(&heard), Vec::<String>::new());
        // it ends: the others go on, also when the one that told ends
        workers.pop();
        workers[0].alive();
        assert_eq!(all(&heard), ["WATCHDOG=1"]);
        workers.remove(0);
        std::thread::sleep(Duration::from_millis(25));
        workers[0].alive();
        workers[0].ends();
        assert_eq!(all(&heard), ["WATCHDOG=1", "STOPPING=1"]);
    }
}
