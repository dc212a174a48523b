//! The generator against a port that does with packets what a test wants.

use onefold_packet::{EtherAddr, Packet, Pkt, Timestamp};
use onefold_runtime::{Polling, Port, PortError};
use onefold_traffic::{
    Arrivals, Generator, Goal, How, Limit, Load, PortSpec, Rate, Schedule, Stamping, Trial, Watch,
    search,
};
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// What becomes of the `n`th packet: frames that come back for it.
type Fate = Box<dyn FnMut(u64, &[u8]) -> Vec<Vec<u8>> + Send>;

/// What leaves comes back, as `fate` says.
struct Loop {
    fate: Fate,
    came: VecDeque<Vec<u8>>,
    seen: u64,
    /// No packet leaves before this moment: those that are handed over wait.
    opens: Option<Instant>,
    waiting: VecDeque<Vec<u8>>,
    /// So many frames a millisecond come back at most, since then; how many have.
    pace: Option<(f64, Instant, u64)>,
    /// Frames that come from elsewhere.
    fed: Option<std::sync::mpsc::Receiver<Vec<u8>>>,
}

impl Loop {
    /// Frames come from elsewhere, and what leaves comes back.
    fn fed(from: std::sync::mpsc::Receiver<Vec<u8>>) -> Loop {
        let mut l = Loop::new(|_, f| vec![f.to_vec()]);
        l.fed = Some(from);
        l
    }

    fn new(fate: impl FnMut(u64, &[u8]) -> Vec<Vec<u8>> + Send + 'static) -> Loop {
        Loop {
            fate: Box::new(fate),
            came: VecDeque::new(),
            seen: 0,
            opens: None,
            waiting: VecDeque::new(),
            fed: None,
            pace: None,
        }
    }
}

impl Port for Loop {
    fn next_at(&mut self) -> Option<Timestamp> {
        None
    }
    fn receive(&mut self, _: &mut Vec<Pkt>, _: &mut Vec<Pkt>, _: Timestamp, _: usize) {}
    fn is_live(&self) -> bool {
        true
    }
    fn transmit(&mut self, packets: &mut Vec<Pkt>, _: Timestamp) -> Result<(), PortError> {
        self.waiting
            .extend(packets.iter().map(|p| p.data().to_vec()));
        self.flush()
    }
    fn backlog(&self) -> usize {
        self.waiting.len()
    }
    fn flush(&mut self) -> Result<(), PortError> {
        if self.opens.is_some_and(|o| Instant::now() < o) {
            return Ok(());
        }
        for f in self.waiting.drain(..) {
            self.came.extend((self.fate)(self.seen, &f));
            self.seen += 1;
        }
        Ok(())
    }
    fn poll(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        self.came.extend(self.fed.iter().flat_map(|f| f.try_iter()));
        let mut n = n.min(self.came.len());
        if let Some((rate, since, given)) = &mut self.pace {
            let may = (since.elapsed().as_secs_f64() * 1e3 * *rate) as u64;
            n = n.min(may.saturating_sub(*given) as usize);
            // what it could have given before anything came is gone
            *given = if self.came.is_empty() {
                may
            } else {
                *given + n as u64
            };
        }
        for f in self.came.drain(..n) {
            let mut p = free
                .pop()
                .unwrap_or_else(|| Box::new(Packet::from_slice(&[])));
            p.refill(&f);
            batch.push(p);
        }
        Ok(())
    }
    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

struct Nobody;

impl Watch for Nobody {
    fn stop(&mut self) -> bool {
        false
    }
    fn remark(&mut self, _: &str, _: &str) {}
}

/// UDP packets of so many flows.
fn load(flows: u16) -> Load {
    let mut l = Load::new();
    for flow in 0..flows {
        let b = etherparse::PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [198, 18, 0, 9], 64)
            .udp(1024 + flow, 9);
        let mut f = Vec::new();
        b.write(&mut f, &[0; 18]).unwrap();
        l.push(0, &flow.to_be_bytes(), f, Stamping::Always).unwrap();
    }
    l
}

fn generator(port: Loop, flows: u16) -> Generator {
    let spec = PortSpec {
        name: "loop".to_string(),
        port: Box::new(port),
        mac: EtherAddr([2; 6]),
        answers: true,
    };
    let how = How {
        polling: Polling::Busy,
        settle: Duration::from_millis(50),
        ..How::default()
    };
    Generator::new(vec![spec], load(flows), how, 7)
}

fn trial(port: Loop, packets: u64) -> Trial {
    let limit = Limit {
        packets: Some(packets),
        time: None,
    };
    let mut g = generator(port, 10);
    let schedule = Schedule::new(Rate::Max, Arrivals::Constant, 1);
    g.trial(schedule, limit, &mut Nobody).unwrap()
}

#[test]
fn what_is_planted_is_counted_exactly() {
    let mut held = Vec::new();
    let t = trial(
        Loop::new(move |n, f| {
            let mut out = Vec::new();
            match n % 100 {
                // lost
                7 => {}
                // twice
                11 => out.extend([f.to_vec(), f.to_vec()]),
                // damaged
                20 => {
                    let mut f = f.to_vec();
                    f[59] ^= 1;
                    out.push(f);
                }
                // somebody else's
                30 => out.extend([vec![3; 60], f.to_vec()]),
                // held back, and sent behind ten others, of which one is of the same flow
                40 => held = f.to_vec(),
                50 => out.extend([f.to_vec(), std::mem::take(&mut held)]),
                _ => out.push(f.to_vec()),
            }
            out
        }),
        1000,
    );
    let c = t.counts;
    assert_eq!((c.sent, c.received, c.lost()), (1000, 980, 20), "{c:?}");
    assert_eq!((c.duplicates, c.corrupted, c.foreign), (10, 10, 10));
    assert_eq!((c.reordered, c.reordered_in_flows), (10, 10));
    assert_eq!(t.from_intended.len(), 980);
    assert_eq!(t.ports[0].sent, (1000, 60_000));
    assert_eq!(t.ports[0].received, (990, 990 * 60));
}

/// A port that takes nothing for a while: what was due meanwhile is late, and says so.
#[test]
fn a_stall_counts_for_all_packets_that_were_due_meanwhile() {
    let stall = Duration::from_millis(60);
    let mut port = Loop::new(|_, f| vec![f.to_vec()]);
    port.opens = Some(Instant::now() + stall);
    let mut g = generator(port, 10);
    let limit = Limit {
        packets: None,
        time: Some(Duration::from_millis(100)),
    };
    let schedule = Schedule::new(Rate::Pps(10_000.0), Arrivals::Constant, 1);
    let t = g.trial(schedule, limit, &mut Nobody).unwrap();
    assert_eq!((t.counts.sent, t.counts.lost()), (1000, 0));
    // half of the packets were due in the stall; their latency is what was left of it
    let at = |h: &onefold_traffic::Histogram, share| h.percentile(share).unwrap_or(0);
    assert!(at(&t.from_intended, 0.9) > 30_000_000);
    assert!(at(&t.from_intended, 0.999) > 50_000_000);
    assert!(t.behind > 40_000_000, "{}", t.behind);
    // which who looks at the moment of sending only does not see: no more than the first batch has waited
    assert!(at(&t.from_sent, 0.9) < 30_000_000);
    assert!(t.rate() > 8_000.0, "{}", t.rate());
}

#[test]
fn the_search_ends_between_what_passes_and_what_does_not() {
    // every hundredth packet is lost, whatever the rate
    let mut g = generator(
        Loop::new(|n, f| {
            if n % 100 == 0 {
                vec![]
            } else {
                vec![f.to_vec()]
            }
        }),
        3,
    );
    let goal = Goal {
        loss: 0.005,
        trial: Duration::from_millis(40),
        step: 0.1,
        most: Some(50_000.0),
        near: None,
        attempts: 2,
        arrivals: Arrivals::Constant,
        seed: 1,
    };
    let mut lines = 0;
    let f = search(&mut g, &goal, &mut Nobody, &mut |_| lines += 1).unwrap();
    assert_eq!(lines, f.trials.len());
    assert!(!f.trials[0].passed && f.trials.len() > 2, "{:?}", f.trials);
    // what fails is tried again
    assert_eq!(f.trials[0].asked_pps, f.trials[1].asked_pps);
    assert!(f.best.is_some());
    // with more patience the first one passes
    let goal = Goal { loss: 0.02, ..goal };
    // from where it is believed to be, too
    let near = Goal {
        near: Some(10_000.0),
        ..goal
    };
    let f = search(&mut g, &near, &mut Nobody, &mut |_| {}).unwrap();
    assert_eq!((f.trials.len(), f.trials[0].passed), (2, true));
    assert_eq!(f.trials[0].asked_pps, Some(11_000.0));
    let f = search(&mut g, &goal, &mut Nobody, &mut |_| {}).unwrap();
    assert_eq!(f.trials.len(), 1);
    assert!(
        f.pps.is_some_and(|p| (5_000.0..=51_000.0).contains(&p)),
        "{:?}",
        f.trials
    );
}

/// Who tracks connections wants to see an answer: the first packet of each flow gets one.
#[test]
fn first_packets_are_answered_once() {
    let left = std::sync::Arc::new(std::sync::Mutex::new(0u64));
    let count = left.clone();
    let here = Loop::new(|_, f| vec![f.to_vec()]);
    // what the generator sends there is gone, and counted
    let port = Loop::new(move |_, _| {
        *count.lock().unwrap() += 1;
        Vec::new()
    });
    let spec = |name: &str, port: Loop| PortSpec {
        name: name.to_string(),
        port: Box::new(port),
        mac: EtherAddr([2; 6]),
        answers: true,
    };
    let mut l = load(5);
    l.push(1, b"back", l.first(0).unwrap().to_vec(), Stamping::Always)
        .unwrap();
    l.set_order(vec![0, 1, 2, 3, 4]);
    let how = How {
        settle: Duration::from_millis(20),
        answer: Some(|f| {
            f[0] ^= 1;
            true
        }),
        ..How::default()
    };
    // everything comes back where it was sent: it is not answered there
    let ports = vec![spec("a", here), spec("b", port)];
    let mut g = Generator::new(ports, l, how, 7);
    let limit = Limit {
        packets: Some(50),
        time: None,
    };
    let schedule = || Schedule::new(Rate::Max, Arrivals::Constant, 1);
    let t = g.trial(schedule(), limit, &mut Nobody).unwrap();
    assert_eq!((t.counts.sent, t.counts.received), (50, 50));
    assert_eq!(*left.lock().unwrap(), 0);
    // one that comes elsewhere is, and its answer is nobody's packet
    let mut l = load(5);
    l.set_order(vec![0, 1, 2, 3, 4]);
    let (to, from) = std::sync::mpsc::channel::<Vec<u8>>();
    let out = Loop::new(move |_, f| {
        to.send(f.to_vec()).unwrap();
        Vec::new()
    });
    let ports = vec![spec("a", out), spec("b", Loop::fed(from))];
    let mut g = Generator::new(ports, l, how, 7);
    let t = g.trial(schedule(), limit, &mut Nobody).unwrap();
    let c = t.counts;
    assert_eq!((c.sent, c.received, c.duplicates), (50, 50, 0), "{c:?}");
    assert_eq!(
        (c.foreign, c.corrupted),
        (5, 0),
        "an answer for each flow: {c:?}"
    );
}

/// A queue that is longer than a trial loses nothing, and passes all the same only what comes out of it.
#[test]
fn a_long_queue_is_no_throughput() {
    let mut port = Loop::new(|_, f| vec![f.to_vec()]);
    port.pace = Some((5.0, Instant::now(), 0));
    let mut g = generator(port, 3);
    let goal = Goal {
        loss: 0.0,
        trial: Duration::from_millis(30),
        step: 0.2,
        most: Some(20_000.0),
        near: None,
        attempts: 1,
        arrivals: Arrivals::Constant,
        seed: 1,
    };
    let f = search(&mut g, &goal, &mut Nobody, &mut |_| {}).unwrap();
    let first = f.trials[0];
    assert_eq!((first.lost, first.passed), (0, false), "{first:?}");
    assert!(first.queued_seconds > 0.006, "{first:?}");
    assert_eq!(f.bound, onefold_traffic::Bound::Loss);
    // a fifth of what it is sent may wait at the end of the trial
    assert!(f.pps.is_some_and(|p| p <= 7_500.0), "{:?}", f.trials);
}
