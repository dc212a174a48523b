//! One process of a chain: takes packets out of rings, through its part of the chain, into rings, as it is told to by
//! who launched it.

use super::counted;
use super::hello::{Hello, LONGEST};
use super::outside::Wire;
use super::outside::attach::{Attached, attach, packet_port};
use super::outside::sleeper::Sleeper;
use super::waiting::{Spins, lingers};
use crate::alerts::Eve;
use crate::cmd::run::{self, Made, workers};
use crate::common;
use crate::deploy::{Renewal, Verifier};
use crate::runner::{self, Ran};
use crate::shadow::Policy;
use anyhow::{Context, Result, bail};
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_engine::Executor;
use onefold_engine::shadow::Shadow;
use onefold_nf::service::{ServiceClock, publish, thread_time};
use onefold_nf::{
    Channel, LONGEST_SLEEP, Memory, Plan, Region, Seat, State, TELL, Waker, WhenFull,
};
use onefold_packet::Timestamp;
use onefold_port_ring::{Packets, RingPort, Shared, lock};
use onefold_runtime::{Clock, Polling, Port, PortSpec, Rhythm, Step, Worker};
use std::os::fd::AsFd;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Options of the hidden subcommand: those of `run`, and where its launcher is.
#[derive(clap::Args, Debug, Clone)]
#[group(skip)]
pub struct Args {
    /// The descriptor that it is told by what to do
    #[arg(long, value_name = "FD")]
    channel: i32,
    #[command(flatten)]
    run: run::Args,
}

/// How long the launcher may take to say what is to be done.
const PATIENCE: Duration = Duration::from_secs(60);
/// While packets wait for room in a ring, nothing more is taken in for so long; then it is, or two functions whose
/// rings are full would wait for each other for ever.
const BLOCKED: Duration = Duration::from_millis(1);
/// How long it sleeps while packets wait for room.
const BLOCKED_SLEEP: Duration = Duration::from_micros(100);

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let mut channel = Channel::inherit(args.channel)
        .context("'segment' is what 'run' launches; run a chain with functions in processes")?;
    channel.patience(PATIENCE)?;
    let (message, fds) = channel.receive(LONGEST)?;
    let hello: Hello = serde_json::from_slice(&message)?;
    let plan = Plan::of_text(&hello.plan)?;
    let Ok([memory, event]) = <[_; 2]>::try_from(fds) else {
        bail!("the launcher has not sent what belongs to its message");
    };
    let memory = Memory::attach(memory.as_fd(), plan.bytes).context("the shared memory")?;
    let region = Arc::new(Region::new(memory, plan.shape)?);
    let seat = Seat::new(region, &plan, hello.me, vec![Waker::Event(event)])?;
    let quota = plan.shape.slots as usize / (plan.shape.nfs as usize + 1) / 2;
    let packets: Shared = Arc::new(Mutex::new(Packets::new(seat, hello.recorded, quota)));
    let args = args.run.silent();
    let boxed = hello.outside.boxed.as_ref();
    let mut attached = boxed.map(|b| attach(b, &args.dpdk())).transpose()?;
    let devices = devices(&hello.outside.wires, attached.as_mut())?;
    let mut process = match Process::new(&args, hello, packets, devices)? {
        Ok(p) => p,
        Err(code) => return Ok(code),
    };
    process.run(&mut channel)?;
    if let Some(a) = attached {
        a.end();
    }
    process.report(&args, &mut channel)
}

/// Devices of a process, each with the port of its chain that packets leave through, and the one that they arrive at.
type Devices = Vec<(Option<String>, Option<String>, Box<dyn Port>)>;

fn devices(wires: &[Wire], attached: Option<&mut Attached>) -> Result<Devices> {
    let mut all = Devices::new();
    for w in wires {
        let name = w.sends.as_ref().or(w.receives.as_ref());
        let port = packet_port(name.map_or("", |n| n), &w.interface)?;
        all.push((w.sends.clone(), w.receives.clone(), port));
    }
    for (port, device) in attached.map(|a| a.devices.drain(..)).into_iter().flatten() {
        all.push((Some(port.clone()), Some(port), device));
    }
    Ok(all)
}

/// A part of a chain that runs.
struct Process {
    chain: Chain,
    worker: Worker<Shadow>,
    packets: Shared,
    region: Arc<Region>,
    me: u32,
    live: bool,
    /// Of all processes of the chain.
    clock: Clock,
    /// What has waited for room for too long is given up.
    gives_up: bool,
    /// The program that it began with.
    made: Option<(crate::program::Synthesized, crate::deploy::Verification)>,
    renewal: Renewal,
    /// The last command that was carried out.
    done: u32,
    spins: Spins,
    /// It yields before it sleeps, if it is told to yield at all.
    lingers: bool,
    /// Packets have waited for room since then.
    blocked: Option<Instant>,
    service: ServiceClock,
    /// Batches since it yielded.
    batches: u32,
    begun: Instant,
    /// Of one that has devices besides its rings.
    sleeper: Option<Sleeper>,
    /// Where alerts are written, if they are.
    eve: Option<Eve>,
}

impl Process {
    /// Ready to run, or an exit status.
    fn new(
        args: &run::Args,
        hello: Hello,
        packets: Shared,
        devices: Devices,
    ) -> Result<std::result::Result<Process, u8>> {
        let args = &match hello.recorded {
            true => args.without_protection(),
            false => args.clone(),
        };
        let chain = hello.chain.chain();
        let start = Timestamp(hello.start);
        let graph = match workers::graph(args, &chain, start, true) {
            Ok(g) => g,
            Err(code) => return Ok(Err(code)),
        };
        let ports = crate::cmd::verify::ports(&chain);
        let verifier = Verifier::new(args.verify(), ports, args.seed(), true);
        let policy = Policy::new(args.shadow(), args.seed());
        let both = (&verifier, &policy);
        let begun = run::executor(args, graph, both, (true, false), &mut Default::default())?;
        let (executor, made) = match begun {
            Ok(begun) => begun,
            Err(code) => return Ok(Err(code)),
        };
        let with_devices = !devices.is_empty();
        let mut specs = device_ports(&chain, devices);
        for p in &chain.ports {
            if hello.outside.has(&p.name) {
                continue;
            }
            let rings = hello.ports.iter().find(|r| r.0 == p.name);
            let (input, output) = rings.map_or((None, None), |r| (r.1, r.2));
            let ends = {
                let mut all = lock(&packets);
                let seat = all.seat();
                let (i, o) = (
                    input.map(|r| seat.input_of(r)),
                    output.map(|r| seat.output_of(r)),
                );
                (i.flatten(), o.flatten())
            };
            specs.push(PortSpec {
                name: p.name.clone(),
                entry: p.source.map(|s| ElemId(s as u32)),
                sinks: p.sinks.iter().map(|s| ElemId(*s as u32)).collect(),
                port: Some(Box::new(RingPort::new(
                    &p.name,
                    packets.clone(),
                    ends,
                    hello.live,
                ))),
            });
        }
        let region = lock(&packets).seat().region().clone();
        let done = region
            .nf(hello.me)
            .map(|b| b.said().done.load(Ordering::Relaxed));
        let mut worker = Worker::new(executor, specs, args.batch_size());
        let eve = args.eve_beside_others(!hello.recorded, &hello.origins)?;
        if let Some(eve) = &eve {
            eve.begin(worker.executor().flow_mut().peek_graph_mut());
        }
        let sleeper = with_devices
            .then(|| Sleeper::new(region.clone(), hello.me, &mut worker))
            .transpose()?;
        Ok(Ok(Process {
            worker,
            sleeper,
            eve,
            renewal: Renewal::new(verifier, policy, false, !hello.live),
            made,
            chain,
            packets,
            me: hello.me,
            live: hello.live,
            clock: Clock::of(hello.clock),
            gives_up: hello.live && !hello.recorded,
            done: done.unwrap_or_default(),
            spins: Spins::new(hello.spins),
            lingers: hello.lingers,
            blocked: None,
            service: ServiceClock::default(),
            batches: 0,
            begun: Instant::now(),
            region,
        }))
    }

    /// Until it is told to stop.
    fn run(&mut self, channel: &mut Channel) -> Result<()> {
        let clock = self.clock;
        if self.live {
            self.worker.start(clock.now())?;
        }
        self.tell(State::Running);
        let mut synthesized = !self.worker.executor().needs_program();
        let mut rhythm = Rhythm::new(Polling::Busy);
        while self.commands(channel)? {
            if synthesized && self.worker.executor().needs_program() {
                synthesized = self.renewal.renew(self.worker.executor());
            }
            let step = match self.may_take() {
                true => self.step(&clock)?,
                false => None,
            };
            self.publish(step)?;
            let attend = match step {
                Some(_) => rhythm.busy(),
                None => {
                    self.rest(&clock)?;
                    rhythm.idle().attend
                }
            };
            if attend {
                if self.sleeper.is_some() {
                    self.worker.attend();
                }
                self.warn();
                runner::forward_prints(self.worker.executor().flow_mut().peek_graph_mut());
                self.write_alerts();
            }
            if self.worker.executor().graph().stop_requested() {
                break;
            }
        }
        Ok(())
    }

    /// A batch.
    fn step(&mut self, clock: &Clock) -> Result<Option<Step>> {
        let begun = Instant::now();
        let timed = self.service.is_due(begun).then(thread_time);
        let step = match self.live {
            true => self.worker.live_step(clock, usize::MAX)?,
            false => self.worker.step(usize::MAX)?,
        };
        if let (Some(step), Some(from), Some(b)) = (&step, timed, self.region.nf(self.me)) {
            let took = (begun, thread_time().saturating_sub(from));
            if let Some(each) = self.service.timed(took, step.packets, b.service()) {
                publish(b.said(), each);
            }
        }
        Ok(step)
    }

    /// What came of a batch is seen by others.
    fn publish(&mut self, step: Option<Step>) -> Result<()> {
        let mut all = lock(&self.packets);
        if !all.is_blocked() {
            all.open();
            if step.is_none() {
                return Ok(());
            }
        }
        if all.flush()? > 0 {
            // there was room
            self.blocked = None;
        }
        let full = self.region.nf(self.me).map(|b| b.orders().full());
        let full = full.unwrap_or_default();
        let by_way = self.gives_up && full == WhenFull::ByWay;
        if !all.is_blocked() {
            all.open();
        } else if by_way {
            self.blocked = None;
            all.wait_by_way(Instant::now());
        } else {
            all.open();
            let since = *self.blocked.get_or_insert_with(Instant::now);
            if self.gives_up && since.elapsed() >= full.patience() {
                all.give_up();
            }
        }
        settle(&mut all, (&mut self.blocked, by_way), &self.region, self.me);
        if let Some(b) = self.region.nf(self.me) {
            let (said, counts) = (b.said(), all.counts());
            let batches = said.batches.load(Ordering::Relaxed);
            said.batches
                .store(batches + u64::from(step.is_some()), Ordering::Relaxed);
            said.received.store(counts.received, Ordering::Relaxed);
            said.sent.store(counts.sent, Ordering::Relaxed);
            said.lost.store(counts.lost, Ordering::Relaxed);
            let done = self.done;
            let ordered = || b.orders().command.load(Ordering::Relaxed) != done;
            all.seat().relinquish(ordered);
            let after = b.orders().yield_after.load(Ordering::Relaxed);
            self.batches += u32::from(step.is_some());
            if after > 0 && self.batches >= after {
                self.batches = 0;
                let yields = &said.yields;
                yields.store(yields.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
                std::thread::yield_now();
            }
        }
        Ok(())
    }

    /// May packets be taken in, or is room waited for?
    fn may_take(&self) -> bool {
        self.blocked
            .is_none_or(|since| !self.gives_up && since.elapsed() >= BLOCKED)
    }

    /// There is nothing to do at present.
    fn rest(&mut self, clock: &Clock) -> Result<()> {
        let mut most = LONGEST_SLEEP;
        if self.live {
            self.worker.idle(clock)?;
            let graph = self.worker.executor().graph();
            if graph.has_runnable_tasks() {
                most = Duration::from_millis(1);
            }
            if let Some(at) = graph.next_timer() {
                let left = u64::try_from((at - clock.now()).0).unwrap_or(0);
                most = most.min(Duration::from_nanos(left));
            }
        }
        let mut all = lock(&self.packets);
        all.flush()?;
        let Some(block) = self.region.nf(self.me) else {
            return Ok(());
        };
        let ordered = || block.orders().command.load(Ordering::Acquire) != self.done;
        if all.is_blocked() {
            if !all.sleep_by_way(BLOCKED_SLEEP, ordered) {
                // nobody tells when there is room
                drop(all);
                std::thread::sleep(BLOCKED_SLEEP);
            }
            return Ok(());
        }
        settle(&mut all, (&mut self.blocked, false), &self.region, self.me);
        if let Some(sleeper) = &mut self.sleeper {
            drop(all);
            let packets = &self.packets;
            let awake = || !lock(packets).seat().is_idle() || ordered();
            return sleeper.sleep((&mut self.worker, clock), awake);
        }
        let seat = all.seat();
        let awake = || !seat.is_idle() || ordered();
        let yields = self.lingers && block.orders().yield_after.load(Ordering::Relaxed) > 0;
        if !(yields && lingers(awake) || self.spins.until(awake)) {
            seat.sleep(most, ordered);
        }
        Ok(())
    }

    /// Carries out what the launcher wants. False: it is to stop.
    fn commands(&mut self, channel: &mut Channel) -> Result<bool> {
        let Some(block) = self.region.nf(self.me) else {
            return Ok(false);
        };
        let command = block.orders().command.load(Ordering::Acquire);
        if command == self.done {
            return Ok(true);
        }
        let time = Timestamp(block.orders().time.load(Ordering::Relaxed) as i64);
        match command & 3 {
            1 => {
                let span = time - self.worker.now();
                self.worker.linger(span)?;
            }
            2 => self.worker.finish()?,
            TELL => {
                let said = counted::so_far(self.worker.executor().flow_mut().graph_mut());
                channel.send(said.to_string().as_bytes(), &[])?;
                // it does nothing to packets, and waits for none
                self.done = command;
                block.said().done.store(command, Ordering::Release);
                lock(&self.packets).seat().ring(0);
                return Ok(true);
            }
            _ => return Ok(false),
        }
        let mut all = lock(&self.packets);
        let begun = Instant::now();
        // what came of it is in rings before it is done, if there is room
        while all.is_blocked() && begun.elapsed() < PATIENCE {
            all.flush()?;
            std::thread::sleep(BLOCKED_SLEEP);
        }
        settle(&mut all, (&mut self.blocked, false), &self.region, self.me);
        self.done = command;
        block.said().done.store(command, Ordering::Release);
        all.seat().ring(0);
        Ok(true)
    }

    /// The launcher hears where it is.
    fn tell(&self, state: State) {
        if let Some(b) = self.region.nf(self.me) {
            b.said().state.store(state as u32, Ordering::Release);
        }
        lock(&self.packets).seat().ring(0);
    }

    /// A peer that does what cannot be ends this process: the launcher puts the rings in order.
    fn warn(&mut self) {
        for w in self.worker.take_warnings() {
            eprintln!("{}: {w}", self.chain.name);
        }
        for r in self.worker.take_remarks() {
            eprintln!("{}: {}: {}", self.chain.name, r.port, r.text);
        }
    }

    /// Adds to the file of alerts, if there is one.
    fn write_alerts(&mut self) {
        if let Some(eve) = &self.eve {
            let graph = self.worker.executor().flow_mut().peek_graph_mut();
            eve.write(graph, &self.chain);
        }
    }

    /// Says at the end what it has done.
    fn report(mut self, args: &run::Args, channel: &mut Channel) -> Result<u8> {
        self.renewal.end();
        self.write_alerts();
        self.warn();
        let shadow = self.worker.executor();
        shadow.end_window();
        let with_program = !shadow.needs_program();
        let program = with_program.then(|| shadow.flow().report());
        runner::forward_prints(shadow.flow_mut().graph_mut());
        let compared = shadow.report();
        let ran = Ran {
            seconds: self.begun.elapsed().as_secs_f64(),
            cpu_seconds: runner::thread_seconds(),
            interrupted: false,
            renewed: self.renewal.renewed,
            program,
            early: Vec::new(),
        };
        let outcome = runner::outcome(&self.chain, &mut self.worker, ran, self.live);
        let mut runner = self.worker.into_executor();
        let counted = counted::told(runner.graph_mut());
        let made = self.made.as_ref().map(|(s, v)| Made {
            graph: runner.graph(),
            synthesized: s,
            verification: v,
            renewals: self.renewal.verdicts(),
            shadow: None,
        });
        let mut v = run::report::json(&outcome, args.mode(), made.as_ref());
        let (counts, refused) = {
            let mut all = lock(&self.packets);
            // nobody takes it any more
            all.give_up();
            (all.counts(), all.seat().refused())
        };
        v["counted"] = counted;
        v["compared"] = compared.compared.into();
        v["mismatches"] = compared.mismatches.into();
        v["lost"] = counts.lost.into();
        v["refused"] = refused.into();
        channel.send(v.to_string().as_bytes(), &[])?;
        if let Some(b) = self.region.nf(self.me) {
            b.said().state.store(State::Ended as u32, Ordering::Release);
        }
        Ok(common::HOLDS)
    }
}

/// Ports of its chain that are devices: two of them, where one cable has both ways.
fn device_ports(chain: &Chain, devices: Devices) -> Vec<PortSpec> {
    let port = |name: &Option<String>| {
        let name = name.as_ref()?;
        chain.ports.iter().find(|p| p.name == *name)
    };
    let all = devices.into_iter().map(|(sends, receives, device)| {
        let (out, arrives) = (port(&sends), port(&receives));
        PortSpec {
            name: sends.or(receives).unwrap_or_default(),
            entry: arrives.and_then(|p| p.source).map(|s| ElemId(s as u32)),
            sinks: out.map_or(Vec::new(), |p| {
                p.sinks.iter().map(|s| ElemId(*s as u32)).collect()
            }),
            port: Some(device),
        }
    });
    all.collect()
}

/// What was taken in is done with, unless what came of it waits for room, and has not done so for long: then rings fill
/// up, and whoever is in front waits, too. Where only the inputs wait that lead to full rings (`by_way`), others'
/// packets are done with.
fn settle(
    all: &mut Packets,
    (blocked, by_way): (&mut Option<Instant>, bool),
    region: &Region,
    me: u32,
) {
    let waits = all.is_blocked();
    if !waits {
        *blocked = None;
    } else if !by_way && blocked.is_none_or(|since| since.elapsed() < BLOCKED) {
        return;
    }
    if let Some(b) = region.nf(me) {
        b.said().waiting.store(u64::from(waits), Ordering::Release);
    }
    all.seat().release();
    all.seat().tidy();
}
