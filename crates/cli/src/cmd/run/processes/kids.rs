//! The processes of a chain: launched, looked after, launched again.

use super::PortRings;
use super::counted::is_so_far;
use super::hello::Hello;
use super::outside::Outside;
use anyhow::{Context, Result};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use onefold_chain::OnCrash;
use onefold_chain::kinds::native::NativeProgram;
use onefold_chain::segments::{Segment, Told};
use onefold_nf::native::{self, ENVIRONMENT};
use onefold_nf::{
    Arrived, Channel, Descriptor, Isolation, Network, Plan, Process, Region, Ring, RingMemory,
    Seat, State, reclaim,
};
use onefold_packet::Timestamp;
use onefold_runtime::Clock;
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A process that has ended is launched again after this time; after twice as long the next time.
pub const BACK_OFF: Duration = Duration::from_millis(10);
/// A process that has run for so long begins with the shortest time again.
const STEADY: Duration = Duration::from_secs(10);
/// So many in a row may end before they run; then the run ends.
const MOST_FAILURES: u32 = 5;
/// Longest report of a process, in bytes.
const LONGEST_REPORT: usize = 1 << 28;

/// What all processes are launched with.
pub struct Launch {
    pub memory: OwnedFd,
    pub event: OwnedFd,
    pub plan: Plan,
    pub start: Timestamp,
    /// The launcher's clock, which is that of all processes.
    pub clock: Clock,
    pub live: bool,
    pub spins: u32,
    /// The launcher's core, if it has one.
    pub housekeeping: Option<usize>,
    pub quiet: bool,
    /// Captures go in.
    pub recorded: bool,
    /// A process that has ended is launched again after this time at the latest.
    pub longest_back_off: Duration,
}

/// Where a process is.
enum Life {
    /// To be launched, not before this moment.
    Down(Instant),
    Up {
        process: Process,
        channel: Channel,
        since: Instant,
        /// It has said that it runs.
        running: bool,
    },
    /// It was told to stop, and has.
    Ended,
}

/// Packets that a process has taken and sent, by its rings' counters.
#[derive(Debug, Clone, Copy, Default)]
struct Passed {
    taken: u32,
    sent: u32,
}

/// A process and what became of it.
pub struct Kid {
    pub number: u32,
    pub name: String,
    pub core: Option<u32>,
    /// What it is told when it is launched.
    message: Vec<u8>,
    /// A program of its own.
    native: Option<NativeProgram>,
    /// Namespaces of its own.
    isolation: Isolation,
    on_crash: OnCrash,
    /// Rings around it, for who passes it by.
    around: Vec<(u32, u32)>,
    life: Life,
    back_off: Duration,
    failures: u32,
    begun: Passed,
    /// How often it was launched again.
    pub restarts: u32,
    /// Packets that processes had when they ended.
    pub lost: u64,
    /// Packets that went in and did not come out of processes that have ended, less those that they made: what they had
    /// dropped, held or lost.
    pub gone: i64,
    /// Packets that passed it by.
    pub bypassed: u64,
    /// Who passes packets by.
    stand_in: Option<Seat>,
    /// What it has said at its end.
    pub report: Option<serde_json::Value>,
    /// What it has counted, as far as it has said so.
    pub counted: Option<serde_json::Value>,
}

impl Kid {
    pub fn new(
        number: u32,
        segment: &Segment,
        (ports, around): (Vec<PortRings>, Vec<(u32, u32)>),
        origins: BTreeMap<String, Option<String>>,
        (core, outside, isolation): (Option<u32>, Outside, Isolation),
        launch: &Launch,
    ) -> Result<Kid> {
        let native = segment.native.as_ref();
        let message = match native {
            Some(program) => native_hello(number, segment, program, &ports, launch).into_bytes(),
            None => serde_json::to_vec(&Hello {
                me: number,
                name: segment.name.clone(),
                plan: launch.plan.to_text(),
                start: launch.start.0,
                clock: launch.clock.parts(),
                live: launch.live,
                spins: launch.spins,
                lingers: (core.zip(launch.housekeeping)).is_some_and(|(c, h)| c as usize != h),
                ports,
                origins,
                chain: Told::of(&segment.chain),
                outside,
                recorded: launch.recorded,
            })?,
        };
        Ok(Kid {
            native: native.cloned(),
            isolation,
            number,
            name: segment.name.clone(),
            core,
            message,
            on_crash: segment.on_crash,
            around,
            life: Life::Down(Instant::now()),
            back_off: BACK_OFF.min(launch.longest_back_off),
            failures: 0,
            begun: Passed::default(),
            restarts: 0,
            lost: 0,
            gone: 0,
            bypassed: 0,
            stand_in: None,
            report: None,
            counted: None,
        })
    }

    /// The process, while there is one.
    pub fn process(&self) -> Option<&Process> {
        match &self.life {
            Life::Up { process, .. } => Some(process),
            _ => None,
        }
    }

    /// Does it take packets?
    pub fn is_running(&self) -> bool {
        matches!(self.life, Life::Up { running: true, .. })
    }

    /// When it is to be launched.
    pub fn due(&self) -> Option<Instant> {
        match self.life {
            Life::Down(at) => Some(at),
            _ => None,
        }
    }

    /// Launches it, if it is time to.
    pub fn launch(&mut self, launch: &Launch, region: &Arc<Region>) -> Result<()> {
        let Life::Down(at) = self.life else {
            return Ok(());
        };
        if Instant::now() < at {
            return Ok(());
        }
        self.end_bypass();
        let (mut ours, theirs) = Channel::pair()?;
        ours.patience(Duration::from_secs(10))?;
        let command = match &self.native {
            Some(n) => {
                // the binary that runs, wherever it is
                let own = n.program.as_os_str() == "onefold";
                let own = own.then(|| PathBuf::from("/proc/self/exe"));
                let mut command = Command::new(own.unwrap_or_else(|| n.program.clone()));
                command.args(&n.arguments);
                command
            }
            None => Command::new("/proc/self/exe"),
        };
        let native = self.native.is_some();
        if let Some(b) = region.nf(self.number) {
            b.said()
                .state
                .store(State::Starting as u32, Ordering::Relaxed);
        }
        self.begun = passed(region, &launch.plan, self.number);
        let process = Process::spawn_in(
            command,
            theirs,
            self.core,
            &self.isolation,
            |command, fd| {
                command.stdin(Stdio::null());
                if native {
                    command.env(ENVIRONMENT, fd.to_string());
                    // this one's standard output is for the report
                    command.stdout(std::io::stderr());
                    return;
                }
                command.args(["segment", "--channel", &fd.to_string()]);
                // what it is to do is told to it; how, it knows by the same options
                command.args(std::env::args_os().skip(2));
                command.stdout(Stdio::null());
            },
        );
        let process = process.with_context(|| {
            let apart = !matches!(self.isolation.network, Network::Shared);
            let cure = match apart {
                true => " in a network namespace (that takes CAP_SYS_ADMIN: run as root)",
                false => "",
            };
            format!("{}: launching its process{cure}", self.name)
        })?;
        let sent = ours.send(
            &self.message,
            &[launch.memory.as_fd(), launch.event.as_fd()],
        );
        // one that has ended at once is found out below
        let _ = sent;
        self.life = Life::Up {
            process,
            channel: ours,
            since: Instant::now(),
            running: false,
        };
        Ok(())
    }

    /// Looks whether it runs, or has ended. Slots that it had come back, for the launcher, if it has.
    ///
    /// # Errors
    /// It ends again and again before it runs.
    pub fn look(&mut self, launch: &Launch, region: &Arc<Region>) -> Result<Option<Vec<u32>>> {
        let Life::Up {
            process,
            since,
            running,
            ..
        } = &mut self.life
        else {
            return Ok(None);
        };
        let state = region
            .nf(self.number)
            .map(|b| b.said().state.load(Ordering::Acquire));
        let runs = state == Some(State::Running as u32);
        if runs && !*running && self.restarts > 0 && !launch.quiet {
            eprintln!("{}: runs again, process {}", self.name, process.id());
        }
        *running |= runs;
        let Some(status) = process.ended() else {
            return Ok(None);
        };
        let (ran, running) = (since.elapsed(), *running);
        self.failures = match running {
            true => 0,
            false => self.failures + 1,
        };
        if self.failures >= MOST_FAILURES || (self.restarts == 0 && !running) {
            anyhow::bail!(
                "{}: its process has ended before it took packets ({status})",
                self.name
            );
        }
        let now = passed(region, &launch.plan, self.number);
        let back = reclaim(region, &launch.plan, self.number);
        let count = |now: u32, then: u32| i64::from(now.wrapping_sub(then));
        self.gone += count(now.taken, self.begun.taken) - count(now.sent, self.begun.sent);
        self.lost += back.lost;
        if ran >= STEADY {
            self.back_off = BACK_OFF.min(launch.longest_back_off);
        }
        if !launch.quiet {
            eprintln!(
                "{}: its process has ended ({status}); {} packets that it had are lost; it is launched again in {:?}",
                self.name, back.lost, self.back_off
            );
        }
        self.life = Life::Down(Instant::now() + self.back_off);
        self.back_off = (self.back_off * 2).min(launch.longest_back_off);
        self.restarts += 1;
        Ok(Some(back.slots))
    }

    /// Packets pass it by while it is not there, if they may. How many did.
    pub fn bypass(&mut self, launch: &Launch, region: &Arc<Region>) -> usize {
        if self.on_crash != OnCrash::Bypass || !matches!(self.life, Life::Down(_)) {
            return 0;
        }
        if self.stand_in.is_none() {
            let wakers = super::wakers_of(launch);
            self.stand_in = Seat::new(region.clone(), &launch.plan, self.number, wakers).ok();
        }
        let Some(seat) = &mut self.stand_in else {
            return 0;
        };
        let mut passed = 0;
        let mut arrived: Vec<Arrived> = Vec::new();
        for (from, to) in &self.around {
            let (Some(input), Some(output)) = (seat.input_of(*from), seat.output_of(*to)) else {
                continue;
            };
            if seat.backlog(output) > 0 || seat.receive(input, &mut arrived, 256).is_err() {
                continue;
            }
            for a in arrived.drain(..) {
                let d = a.descriptor;
                let at = seat.describe(a.frame, usize::from(d.offset), d.len as usize);
                if let Some(at) = at {
                    passed += 1;
                    seat.queue(output, Descriptor { slot: at.slot, ..d });
                }
            }
        }
        let sent = seat.flush().unwrap_or(0);
        seat.release();
        self.bypassed += passed as u64;
        passed + sent
    }

    /// It is there again: who stood in for it sends what it has.
    fn end_bypass(&mut self) {
        let Some(mut seat) = self.stand_in.take() else {
            return;
        };
        let begun = Instant::now();
        let (_, outputs) = seat.ends();
        while (0..outputs).any(|o| seat.backlog(o) > 0)
            && begun.elapsed() < Duration::from_millis(20)
        {
            if seat.flush().is_err() {
                break;
            }
            std::thread::yield_now();
        }
    }

    /// Tells it to do something; [`Kid::has_done`] says whether it has. Gives the command's number.
    pub fn order(&self, region: &Region, what: u32, at: Timestamp) -> u32 {
        let Some(b) = region.nf(self.number) else {
            return 0;
        };
        let orders = b.orders();
        let number = orders.command.load(Ordering::Relaxed);
        let number = (number & !3).wrapping_add(4) | what;
        orders.time.store(at.0 as u64, Ordering::Relaxed);
        orders.command.store(number, Ordering::Release);
        number
    }

    /// Has it done so?
    pub fn has_done(&self, region: &Region, number: u32) -> bool {
        let b = region.nf(self.number);
        b.is_none_or(|b| b.said().done.load(Ordering::Acquire) == number)
    }

    /// Can it say what it has counted? A program of its own does not.
    pub fn counts(&self) -> bool {
        self.is_running() && self.native.is_none()
    }

    /// Takes what it has said of what it has counted, if it has. Has it?
    pub fn take_counted(&mut self) -> bool {
        let Life::Up { channel, .. } = &mut self.life else {
            return false;
        };
        let mut fds = [PollFd::new(channel.as_fd(), PollFlags::POLLIN)];
        if !poll(&mut fds, PollTimeout::ZERO).is_ok_and(|n| n > 0) {
            return false;
        }
        // one that ends instead has its report there, or nothing
        let said = receive(channel);
        let answered = said.is_some();
        self.counted = said.filter(is_so_far).or(self.counted.take());
        answered
    }

    /// It was told to stop: takes its report, and waits for its end, for as long as that takes at most.
    pub fn end(&mut self, most: Duration) {
        let life = std::mem::replace(&mut self.life, Life::Ended);
        let Life::Up {
            mut process,
            mut channel,
            running: true,
            ..
        } = life
        else {
            return;
        };
        let _ = channel.patience(most);
        // what it was asked before comes first
        while let Some(said) = receive(&mut channel) {
            if !is_so_far(&said) {
                self.report = Some(said);
                break;
            }
        }
        let begun = Instant::now();
        while process.ended().is_none() && begun.elapsed() < most {
            std::thread::sleep(Duration::from_millis(1));
        }
        // what has not ended by then is ended
        process.kill();
    }
}

/// The next message of a process; `None`: it is gone, or says nothing that can be read.
fn receive(channel: &mut Channel) -> Option<serde_json::Value> {
    let (text, _) = channel.receive(LONGEST_REPORT).ok()?;
    serde_json::from_slice(&text).ok()
}

/// What a program of its own is told.
fn native_hello(
    number: u32,
    segment: &Segment,
    program: &NativeProgram,
    rings: &[PortRings],
    launch: &Launch,
) -> String {
    let mut ports = vec![(None, None); program.ports];
    for (name, input, output) in rings {
        let at = segment.native_port(name).and_then(|n| ports.get_mut(n));
        if let Some(p) = at {
            *p = (input.or(p.0), output.or(p.1));
        }
    }
    native::Hello {
        me: number,
        live: launch.live,
        ports,
        plan: launch.plan.clone(),
    }
    .to_text()
}

/// What a process has taken out of its rings for packets, and put into them.
fn passed(region: &Arc<Region>, plan: &Plan, nf: u32) -> Passed {
    let mut all = Passed::default();
    let rings = (0u32..).zip(&plan.rings);
    let packets = rings.filter(|(_, r)| r.purpose == onefold_nf::Purpose::Packets);
    let word = |ring: &Ring, out: bool| match out {
        true => ring.tail().load(Ordering::Acquire),
        false => ring.taken().load(Ordering::Acquire),
    };
    for (number, r) in packets {
        let Some(ring) = region.ring(number) else {
            continue;
        };
        if r.to == nf {
            all.taken = all.taken.wrapping_add(word(&ring, false));
        }
        if r.from == nf {
            all.sent = all.sent.wrapping_add(word(&ring, true));
        }
    }
    all
}
