//! `onefold burn`: a network function that does nothing but cost processor time, for experiments with schedulers. In a
//! chain file: `native: { command: [onefold, burn, --cycles, '550'] }`.

mod log;

use crate::common;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use log::{Log, LogArgs};
use onefold_levers::sys;
use onefold_nf::cycles;
use onefold_nf::native::{Native, NativePacket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

/// Most costs of a list.
const MOST_COSTS: usize = 1024;
/// Most ticks of a packet: some tenths of a second.
const MOST_TICKS: u64 = 1 << 30;
/// The file with costs is looked at so often.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// It sleeps for so long at most.
const LONGEST_SLEEP: Duration = Duration::from_millis(100);
/// Work that it is late with because it was not woken in time is made up for, if it is no more than this.
const MOST_LATE: Duration = Duration::from_millis(20);
/// Longest file with costs, in bytes.
const LONGEST_FILE: u64 = 1 << 16;

/// What it does while no packets wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Idle {
    /// Look again and again, as poll-mode drivers do.
    Poll,
    /// Sleep until some come.
    Sleep,
}

/// Which cost of a list a packet has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Pick {
    /// The next one, and the first one behind the last one.
    Turn,
    /// Any, by chance (the same chance each time).
    Random,
}

/// Options of the hidden subcommand.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "A program of a chain: what arrives at port 0 leaves at port 1, and the other way round; 2 and 3 go \
    together, too, and so on. Packets are not changed.\n\n\
    In a chain file:\n  \
    functions:\n    \
    light: { native: { command: [onefold, burn, --cycles, '120'] } }\n    \
    mixed: { native: { command: [onefold, burn, --ns, '50,100,250', --pick, random, --idle, poll] } }"
)]
pub struct Args {
    /// Ticks of the time stamp counter that a packet costs; a list: packets have different costs
    #[arg(
        long,
        value_name = "N,...",
        conflicts_with = "ns",
        required_unless_present = "ns"
    )]
    cycles: Option<String>,
    /// The same in nanoseconds
    #[arg(long, value_name = "N,...")]
    ns: Option<String>,
    /// Besides, for each byte of a packet
    #[arg(long, value_name = "N", default_value_t = 0.0)]
    per_byte: f64,
    /// Which cost of a list a packet has
    #[arg(long, value_enum, default_value_t = Pick::Turn)]
    pick: Pick,
    /// Another list in this file takes the place of the one here, as soon as it is there, and whenever it changes
    #[arg(long, value_name = "FILE")]
    from: Option<PathBuf>,
    /// Most packets of a batch
    #[arg(long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=256))]
    batch: u16,
    /// What it does while no packets wait
    #[arg(long, value_enum, default_value_t = Idle::Sleep)]
    idle: Idle,
    /// Keeps its core for so long at the first packet, and takes nothing meanwhile: a function that has stalled
    #[arg(long, value_name = "MS", default_value_t = 0)]
    stall: u64,
    /// Sleeps for what packets cost instead of computing: as slow as a function on a core of its own, without one
    #[arg(long)]
    asleep: bool,
    /// Takes what waits without ever standing back for others: neither yields nor relinquishes, even if it is told to
    #[arg(long)]
    stubborn: bool,
    #[command(flatten)]
    log: LogArgs,
}

/// What packets cost.
#[derive(Debug)]
struct Costs {
    /// Ticks of a unit.
    unit: f64,
    ticks: Vec<u64>,
    per_byte: f64,
    pick: Pick,
    next: usize,
    /// Of a linear congruential generator (Knuth, MMIX).
    chance: u64,
}

impl Costs {
    fn new(args: &Args) -> Result<Costs> {
        let (unit, list) = match (&args.cycles, &args.ns) {
            (Some(list), _) => (1.0, list),
            (None, Some(list)) => (cycles::per_nanosecond(), list),
            (None, None) => bail!("--cycles or --ns says what a packet costs"),
        };
        let mut costs = Costs {
            unit,
            ticks: Vec::new(),
            per_byte: args.per_byte.max(0.0) * unit,
            pick: args.pick,
            next: 0,
            chance: 1,
        };
        costs.read(list)?;
        Ok(costs)
    }

    /// Another list.
    fn read(&mut self, list: &str) -> Result<()> {
        let mut ticks = Vec::new();
        for word in list.trim().split(',').take(MOST_COSTS + 1) {
            let cost: f64 = match word.trim().parse() {
                Ok(n) if (0.0..=1e9).contains(&n) => n,
                _ => bail!(
                    "'{}': expected a cost, a number from 0 to 1000000000",
                    word.trim()
                ),
            };
            ticks.push(((cost * self.unit) as u64).min(MOST_TICKS));
        }
        if ticks.len() > MOST_COSTS {
            bail!("a list has {MOST_COSTS} costs at most");
        }
        (self.ticks, self.next) = (ticks, 0);
        Ok(())
    }

    #[inline]
    fn of(&mut self, p: &NativePacket) -> u64 {
        let n = self.ticks.len();
        let at = match self.pick {
            _ if n <= 1 => 0,
            Pick::Turn => {
                self.next = (self.next + 1) % n;
                self.next
            }
            Pick::Random => {
                let c = self.chance.wrapping_mul(6_364_136_223_846_793_005);
                self.chance = c.wrapping_add(1_442_695_040_888_963_407);
                (self.chance >> 33) as usize % n
            }
        };
        let fixed = self.ticks.get(at).copied().unwrap_or(0);
        match self.per_byte > 0.0 {
            true => fixed + (self.per_byte * p.len as f64) as u64,
            false => fixed,
        }
    }
}

/// A file that may change.
struct Watched<'a> {
    path: &'a Path,
    looked: Instant,
    seen: Option<(SystemTime, u64)>,
}

impl Watched<'_> {
    /// Its text, if it has changed, and it is time to look.
    fn changed(&mut self) -> Option<String> {
        let now = Instant::now();
        if now.saturating_duration_since(self.looked) < LOOK_EVERY {
            return None;
        }
        self.looked = now;
        let meta = std::fs::metadata(self.path).ok()?;
        let stamp = (meta.modified().ok()?, meta.len());
        if self.seen == Some(stamp) || meta.len() > LONGEST_FILE {
            return None;
        }
        self.seen = Some(stamp);
        std::fs::read_to_string(self.path).ok()
    }
}

/// A core that is not there: work on it takes its time, and nobody else's.
struct Asleep {
    /// Ticks of a nanosecond.
    rate: f64,
    /// Until when all work so far takes.
    until: Instant,
}

impl Asleep {
    fn new() -> Asleep {
        sys::exact_timers();
        Asleep {
            rate: cycles::per_nanosecond(),
            until: Instant::now(),
        }
    }

    /// So many ticks of work; see [`begins`].
    fn work(&mut self, ticks: u64, idle: bool) {
        let now = Instant::now();
        let took = Duration::from_nanos((ticks as f64 / self.rate.max(1e-3)) as u64);
        self.until = begins(self.until, now, idle) + took;
        std::thread::sleep(self.until.saturating_duration_since(now));
    }
}

/// When work begins that is seen now, after other work up to `until`: now, if there was nothing to do in between
/// (`idle`); else right behind that, also where it was woken late: nobody would have held it up on a core of its own.
fn begins(until: Instant, now: Instant, idle: bool) -> Instant {
    let late = if idle { Duration::ZERO } else { MOST_LATE };
    until.max(now.checked_sub(late).unwrap_or(now))
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let mut costs = Costs::new(args)?;
    let mut place = Native::from_environment().context(
        "'burn' is a function of a chain; in its file: native: { command: [onefold, burn, --cycles, '550'] }",
    )?;
    if args.stubborn {
        place.ignore_orders();
    }
    let mut watched = args.from.as_deref().map(|path| Watched {
        path,
        looked: Instant::now() - LOOK_EVERY,
        seen: None,
    });
    let mut stall = Duration::from_millis(args.stall);
    let mut asleep = args.asleep.then(Asleep::new);
    let mut log = Log::new(&args.log, &place)?;
    let mut batch = Vec::new();
    let mut idle = true;
    while !place.is_over() {
        log.iter_mut().for_each(Log::look);
        if let Some(list) = watched.as_mut().and_then(Watched::changed)
            && let Err(e) = costs.read(&list)
        {
            // half of it may have been written yet
            eprintln!("burn: {e:#}; costs stay as they were");
        }
        if place.read(&mut batch, usize::from(args.batch))? == 0 {
            idle = true;
            match &log {
                _ if args.idle == Idle::Poll => {}
                Some(log) => log.wait(&mut place, LONGEST_SLEEP)?,
                None => place.wait(LONGEST_SLEEP)?,
            }
            continue;
        }
        if !stall.is_zero() {
            let begun = Instant::now();
            while begun.elapsed() < stall {
                std::hint::spin_loop();
            }
            stall = Duration::ZERO;
        }
        if let Some(asleep) = &mut asleep {
            asleep.work(batch.iter().map(|p| costs.of(p)).sum(), idle);
        }
        idle = false;
        let mut held = batch.len();
        for p in batch.drain(..) {
            if asleep.is_none() {
                cycles::burn(costs.of(&p));
            }
            if let Some(log) = &mut log {
                log.write(&mut place, &p, held)?;
            }
            held -= 1;
            let to = p.port ^ 1;
            place.write(p, to);
        }
    }
    log.iter_mut().for_each(Log::end);
    place.end()?;
    Ok(common::HOLDS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn costs(list: &str) -> Result<Costs> {
        let mut c = Costs {
            unit: 2.0,
            ticks: vec![],
            per_byte: 0.0,
            pick: Pick::Turn,
            next: 0,
            chance: 1,
        };
        c.read(list)?;
        Ok(c)
    }

    #[test]
    fn who_sleeps_makes_up_for_being_woken_late() {
        let until = Instant::now();
        let after = |ms| until + Duration::from_millis(ms);
        assert_eq!(begins(until, after(5), false), until);
        assert_eq!(begins(until, after(5), true), after(5));
        // not for ever
        assert_eq!(begins(until, after(100), false), after(80));
        // work that has come early waits
        assert_eq!(begins(after(9), until, false), after(9));
        assert_eq!(begins(after(9), until, true), after(9));
    }

    #[test]
    fn lists_of_costs_are_read() {
        assert_eq!(costs("120, 270,550\n").unwrap().ticks, [240, 540, 1100]);
        assert_eq!(costs("1e9").unwrap().ticks, [MOST_TICKS]);
        for wrong in ["", "1,", "-1", "ten", "1e10", "NaN"] {
            assert!(costs(wrong).is_err(), "{wrong}");
        }
        let many = vec!["1"; MOST_COSTS + 1].join(",");
        assert!(costs(&many).is_err() && costs(&many[2..]).is_ok());
    }
}
