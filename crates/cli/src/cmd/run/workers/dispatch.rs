//! How packets of network interfaces come to several workers: chosen at the start, carried out beside the workers, and
//! told of in the report.

use super::way::Way;
use super::{Args, thread};
use crate::common::thousands;
use crate::gate::{Fails, Gate};
use crate::live::{self, Poll, Team};
use crate::log::Losses;
use crate::merge;
use crate::ports::Live;
use crate::runner::{self, InterfaceReport, Outcome, Plan};
use anyhow::{Context, Result, bail};
use onefold_chain::Chain;
use onefold_partition::Partition;
use onefold_runtime::{
    Clock, DispatchCounts, Dispatcher, Ending, Entrance, LiveReport, Polling, Port, QueueCounts,
    Queues, Rhythm, Tags,
};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// How long workers are waited for at the end, and packets that wait for room.
const DRAIN: Duration = Duration::from_secs(2);

/// Between two looks at whether the run is to end, where nothing else is to be done.
const WATCH: Duration = Duration::from_millis(50);

/// What runs beside the workers.
enum Beside {
    Dispatcher(Box<Dispatcher>),
    /// Nothing: workers hand over to each other, and count.
    Queues(Arc<QueueCounts>),
}

/// What packets of interfaces go through, before there are threads.
pub struct Dispatching {
    /// By worker: what it has in the place of each port.
    ports: Vec<Vec<(String, Box<dyn Port>)>>,
    beside: Beside,
    ending: Arc<Ending>,
    way: Way,
    watched: Watched,
    poll: Poll,
    duration: Option<Duration>,
    limit: Option<u64>,
    quiet: bool,
}

/// What one worker gets of it.
pub struct End {
    ports: Vec<(String, Box<dyn Port>)>,
    team: Team,
    /// All ends and the driver have one.
    alive: Arc<()>,
}

/// As long as a worker has it, the others go on.
pub struct Ends {
    team: Team,
    #[allow(dead_code)]
    alive: Arc<()>,
}

impl Ends {
    /// What it has to do with the others.
    #[inline]
    pub fn team(&self) -> &Team {
        &self.team
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.team.begin.fail();
        if !self.team.ending.is_over() {
            self.team.ending.abandon();
        }
    }
}

impl End {
    /// The worker runs on these ports.
    pub fn attach(self, plan: &mut Plan) -> Ends {
        plan.live = self.ports;
        plan.live_plan.team = Some(self.team.clone());
        Ends {
            team: self.team,
            alive: self.alive,
        }
    }
}

/// A port's number in the chain, and whether packets come in there.
fn place(chain: &Chain, port: &str) -> (usize, bool) {
    let at = chain.ports.iter().position(|p| p.name == port);
    let receives = at.and_then(|i| chain.ports[i].source).is_some();
    (at.unwrap_or(usize::MAX), receives)
}

fn boxed<P: Port + 'static>(name: &str, port: P) -> (String, Box<dyn Port>) {
    (name.to_string(), Box::new(port))
}

impl Dispatching {
    /// For a chain with these interfaces.
    ///
    /// # Errors
    /// The system has no descriptors for it.
    pub fn new(
        args: &Args,
        way: Way,
        chain: &Chain,
        live: Vec<Live>,
        partition: &Partition,
    ) -> Result<Dispatching> {
        let workers = partition.workers();
        let used = dispatched_by(args, partition);
        // who compares packets looks at where each of them is, too
        let check = (partition, args.shadow.compares());
        let ending = Arc::new(match way {
            Way::Software(_) => Ending::new(1, 0),
            Way::Rss(_) | Way::Tag(..) => Ending::new(workers, workers),
        });
        let doing = "descriptors for workers";
        let (ports, beside) = match way {
            Way::Software(_) => {
                let names: Vec<String> = live.iter().map(|l| l.port.clone()).collect();
                let entrance = |l: Live| {
                    let (at, receives) = place(chain, &l.port);
                    Entrance {
                        name: l.port,
                        at,
                        receives,
                        port: l.open,
                    }
                };
                let entrances = live.into_iter().map(entrance).collect();
                let made = Dispatcher::new(entrances, used, check, usize::from(args.batch));
                let (dispatcher, rings) = made.context(doing)?;
                let named = |ports: Vec<_>| {
                    let all = names.iter().zip(ports);
                    all.map(|(n, p)| boxed(n, p)).collect()
                };
                let ports = rings.into_iter().map(named).collect();
                (ports, Beside::Dispatcher(Box::new(dispatcher)))
            }
            Way::Rss(_) | Way::Tag(..) => {
                let queues = Queues::new(used, check.1, Arc::clone(&ending), args.limit);
                let queues = queues.context(doing)?;
                let mut ports: Vec<Vec<_>> = (0..workers).map(|_| Vec::new()).collect();
                for l in live {
                    let own: Vec<_> = std::iter::once(l.open).chain(l.others).collect();
                    if own.len() != workers {
                        bail!(
                            "port {}: {} queues for {workers} workers",
                            l.port,
                            own.len()
                        );
                    }
                    let tags = way.first_tag().map(|first| Tags {
                        first,
                        workers,
                        own: l.interface.mac.0,
                    });
                    let made = queues.port(place(chain, &l.port).0, own, check.0, tags);
                    for (ports, p) in ports.iter_mut().zip(made) {
                        ports.push(boxed(&l.port, p));
                    }
                }
                (ports, Beside::Queues(queues.counts()))
            }
        };
        if !args.quiet {
            way.say();
        }
        Ok(Dispatching {
            ports,
            beside,
            ending,
            watched: Watched::new(way.clone()),
            way,
            poll: args.poll,
            duration: args.duration,
            limit: args.limit,
            quiet: args.quiet,
        })
    }

    /// What it says while it runs.
    pub fn watched(&self) -> &Watched {
        &self.watched
    }

    /// How packets come to workers.
    pub fn way(&self) -> &Way {
        &self.way
    }

    /// What each worker (or group) gets, and what runs beside them, on this core if there is one; in so many threads.
    pub fn apart(self, threads: usize, core: Option<usize>, clock: Clock) -> (Vec<End>, Driver) {
        let begin = Arc::new(Gate::new(threads + 1));
        let alive = Arc::new(());
        let receives = matches!(self.beside, Beside::Queues(_));
        let end = |(worker, ports)| End {
            ports,
            team: Team {
                begin: Arc::clone(&begin),
                ending: Arc::clone(&self.ending),
                receives,
                // the others see the same, and a dispatcher says it itself
                tells: receives && worker == 0,
            },
            alive: Arc::clone(&alive),
        };
        let ends = self.ports.into_iter().enumerate().map(end).collect();
        let driver = Driver {
            beside: self.beside,
            begin,
            ending: Arc::clone(&self.ending),
            alive,
            watched: self.watched,
            poll: self.poll,
            duration: self.duration,
            limit: self.limit,
            quiet: self.quiet,
            core,
            clock,
        };
        (ends, driver)
    }
}

/// By what the dispatcher goes: the partition, unless a fault was planted.
fn dispatched_by(args: &Args, partition: &Partition) -> Partition {
    #[cfg(debug_assertions)]
    if args.dispatch_fault {
        let ports = vec![Default::default(); partition.ports().len()];
        return Partition::new(partition.workers(), args.seed, ports);
    }
    let _ = args;
    partition.clone()
}

/// What runs beside the workers, in a thread of its own.
pub struct Driver {
    beside: Beside,
    begin: Arc<Gate>,
    ending: Arc<Ending>,
    alive: Arc<()>,
    watched: Watched,
    poll: Poll,
    duration: Option<Duration>,
    limit: Option<u64>,
    quiet: bool,
    core: Option<usize>,
    clock: Clock,
}

/// Workers end when a dispatcher goes, whatever the reason is.
struct Stops<'a>(&'a Ending);

impl Drop for Stops<'_> {
    fn drop(&mut self) {
        self.0.ask();
        self.0.stopped();
    }
}

impl Driver {
    /// What threads of groups need of it.
    pub fn common(&self) -> thread::Common {
        thread::Common {
            clock: self.clock,
            polling: self.poll.polling(),
            begin: Arc::clone(&self.begin),
            ending: Arc::clone(&self.ending),
            alive: Arc::downgrade(&self.alive),
        }
    }

    /// Runs until somebody says stop, and workers have ended.
    ///
    /// # Errors
    /// A device is broken, or a worker has failed.
    pub fn run(mut self) -> Result<Done> {
        let cpu = runner::thread_seconds();
        let mut done = self.watched.now();
        let beside = std::mem::replace(&mut self.beside, Beside::Queues(Arc::default()));
        match beside {
            Beside::Dispatcher(mut d) => {
                done.core = self.core.filter(|c| merge::pin(*c));
                let mut losses = Losses::default();
                done.interrupted = self.dispatch(&mut d, &mut done, &mut losses)?;
                self.drain(&mut d)?;
                done.dispatched(&d);
                losses.look(done.reports.iter());
            }
            Beside::Queues(counts) => {
                done.interrupted = self.watch(&mut done, &counts)?;
                self.wait_for_workers();
                done.handed(&counts);
            }
        }
        done.cpu_seconds = runner::thread_seconds() - cpu;
        Ok(done)
    }

    /// Says when the run is to end. True: it was interrupted.
    fn watch(&self, done: &mut Done, counts: &QueueCounts) -> Result<bool> {
        let fails = Fails(&self.begin);
        self.begin.wait()?;
        live::tell_running(self.quiet);
        let begun = self.clock.elapsed();
        let over = || {
            let most = self.duration.unwrap_or(Duration::MAX);
            self.clock.elapsed() - begun >= most
        };
        let mut interrupted = false;
        while !interrupted && !over() && !self.ending.is_asked() {
            std::thread::sleep(WATCH);
            done.handed(counts);
            self.watched.see(done);
            interrupted = runner::interrupted().load(Ordering::Relaxed);
        }
        self.ending.ask();
        drop(fails);
        Ok(interrupted)
    }

    /// Until workers are gone, whose counts are complete then, or for [`DRAIN`].
    fn wait_for_workers(&self) {
        let begun = self.clock.elapsed();
        while Arc::strong_count(&self.alive) > 1 && self.clock.elapsed() - begun < DRAIN {
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// What workers have sent leaves.
    fn drain(&mut self, d: &mut Dispatcher) -> Result<()> {
        // this one is among those who are alive
        let done = || Arc::strong_count(&self.alive) == 1;
        d.drain(DRAIN, done)?;
        d.attend();
        d.finish()?;
        Ok(())
    }

    /// Hands packets over until the run is to end. True: it was interrupted.
    fn dispatch(&self, d: &mut Dispatcher, done: &mut Done, losses: &mut Losses) -> Result<bool> {
        let stops = Stops(&self.ending);
        let fails = Fails(&self.begin);
        self.begin.wait()?;
        d.start()?;
        live::tell_running(self.quiet);
        let mut rhythm = Rhythm::new(self.poll.polling());
        let (begun, cpu) = (self.clock.elapsed(), runner::thread_seconds());
        let mut left = self.limit.unwrap_or(u64::MAX);
        let mut interrupted = false;
        while left > 0 && !interrupted && !self.ending.is_asked() {
            let sent = d.send()?;
            let received = d.receive(usize::try_from(left).unwrap_or(usize::MAX))?;
            if self.limit.is_some() {
                left -= received as u64;
            }
            let attend = match sent + received {
                0 => {
                    d.idle()?;
                    let idle = rhythm.idle();
                    // workers may want this core
                    let yields = d.is_waiting() && self.poll.polling() != Polling::Busy;
                    match idle.pause {
                        Some(p) => std::thread::sleep(p),
                        None if idle.sleep || yields => d.wait()?,
                        None => {}
                    }
                    idle.attend
                }
                _ => rhythm.busy(),
            };
            if attend {
                let over = |most| self.clock.elapsed() - begun >= most;
                if self.duration.is_some_and(over) {
                    break;
                }
                d.attend().iter().for_each(live::tell_of_link);
                done.dispatched(d);
                done.cpu_seconds = runner::thread_seconds() - cpu;
                self.watched.see(done);
                if losses.is_time() {
                    losses.look(done.reports.iter());
                }
            }
            interrupted = runner::interrupted().load(Ordering::Relaxed);
        }
        drop((stops, fails));
        Ok(interrupted)
    }
}

/// How packets come to workers, as it was when the thread beside them last looked: for who asks while it runs.
#[derive(Clone)]
pub struct Watched(Arc<Mutex<Done>>);

impl Watched {
    fn new(way: Way) -> Watched {
        Watched(Arc::new(Mutex::new(Done {
            way,
            counts: DispatchCounts::default(),
            handed_over: 0,
            untagged: 0,
            taken: 0,
            reports: Vec::new(),
            cpu_seconds: 0.0,
            interrupted: false,
            core: None,
        })))
    }

    /// As it was last.
    pub fn now(&self) -> Done {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    /// This is how it is now; whoever asks at the same moment hears of what was before, as packets do not wait.
    fn see(&self, done: &Done) {
        if let Ok(mut last) = self.0.try_lock() {
            last.clone_from(done);
        }
    }
}

/// What came of it.
#[derive(Clone)]
pub struct Done {
    way: Way,
    counts: DispatchCounts,
    handed_over: u64,
    /// Without a tag, where packets have some.
    untagged: u64,
    /// Packets that workers must have got.
    taken: u64,
    reports: Vec<LiveReport>,
    cpu_seconds: f64,
    interrupted: bool,
    core: Option<usize>,
}

impl Done {
    /// What a dispatcher has done so far.
    fn dispatched(&mut self, d: &Dispatcher) {
        self.counts = d.counts();
        self.taken = self.counts.dispatched;
        self.reports = d.reports();
    }

    /// What workers have handed to each other so far.
    fn handed(&mut self, counts: &QueueCounts) {
        self.counts.received = counts.received();
        self.counts.dropped = counts.dropped();
        self.handed_over = counts.handed_over();
        self.untagged = counts.untagged();
        self.taken = counts.taken();
    }

    /// Packets that workers must have got.
    pub fn given(&self) -> u64 {
        self.taken
    }

    /// What is known of the ports themselves, beside what workers know.
    pub fn add_to(&self, o: &mut Outcome) {
        for r in &self.reports {
            let report = InterfaceReport {
                name: r.name.clone(),
                link: r.link,
                losses: r.losses.clone(),
                counters: r.counters.clone(),
                early: Vec::new(),
            };
            merge::interface(&mut o.interfaces, &report);
        }
        o.interrupted |= self.interrupted;
        o.cpu_seconds += self.cpu_seconds;
    }

    /// The dispatcher's processor time for a packet that came in, in nanoseconds.
    fn ns_per_packet(&self) -> f64 {
        self.cpu_seconds * 1e9 / self.counts.received.max(1) as f64
    }

    /// As documented in docs/json.md; `wrong`: packets at the wrong worker.
    pub fn json(&self, wrong: u64) -> serde_json::Value {
        let c = &self.counts;
        let mut v = serde_json::json!({
            "mode": self.way.name(),
            "why": self.way.why(),
            "received": c.received,
            "dropped": c.dropped,
            "at_wrong_worker": wrong,
        });
        let more = match self.way {
            Way::Software(_) => serde_json::json!({
                "dispatched": c.dispatched,
                "sent": c.sent,
                "waited_seconds": c.waited.as_secs_f64(),
                "cpu_seconds": self.cpu_seconds,
                "ns_per_packet": self.ns_per_packet(),
                "core": self.core,
            }),
            Way::Rss(_) => serde_json::json!({ "handed_over": self.handed_over }),
            Way::Tag(..) => serde_json::json!({
                "handed_over": self.handed_over,
                "untagged": self.untagged,
                "tags": self.way.tags(),
            }),
        };
        if let (Some(v), serde_json::Value::Object(more)) = (v.as_object_mut(), more) {
            v.extend(more);
        }
        v
    }

    /// The same in words.
    pub fn print(&self, wrong: u64) {
        let c = &self.counts;
        match self.way {
            Way::Software(_) => {
                crate::say!(
                    "dispatch: software: {} packets to workers, {:.0} ns of processor time each",
                    thousands(c.dispatched),
                    self.ns_per_packet()
                );
                if c.waited >= Duration::from_millis(1) {
                    let s = c.waited.as_secs_f64();
                    crate::say!(
                        "  packets were left with ports for {s:.3} s as workers had no room"
                    );
                }
            }
            Way::Rss(_) => crate::say!(
                "dispatch: rss: {} packets received, {} handed over to another worker",
                thousands(c.received),
                thousands(self.handed_over)
            ),
            Way::Tag(..) => crate::say!(
                "dispatch: tag: {} packets received, {} without a tag, {} handed over to another worker",
                thousands(c.received),
                thousands(self.untagged),
                thousands(self.handed_over)
            ),
        }
        for (n, what) in [
            (c.dropped, "were lost because their worker's queue was full"),
            (
                wrong,
                "were seen at the wrong worker, of those that were looked at",
            ),
        ] {
            if n > 0 {
                crate::say!("  {} packets {what}", thousands(n));
            }
        }
    }
}
