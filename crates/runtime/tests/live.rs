//! Live ports: packets arrive when they do, at a clock that never goes back; timers take place while nothing comes;
//! what there is no room for waits.

use onefold_engine::{BuildOptions, Graph, spec_from_flat};
use onefold_packet::{Pkt, Timestamp};
use onefold_runtime::{
    Clock, MODERATION, Polling, Port, PortError, PortSpec, Rhythm, SPIN, Worker,
};
use onefold_table::{FrameLayout, FramePool};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// One end of a wire in memory.
#[derive(Default)]
struct Wire {
    arriving: VecDeque<Vec<u8>>,
    left: Vec<(Timestamp, Vec<u8>)>,
    /// So many frames find room; more wait.
    room: usize,
    waiting: VecDeque<Vec<u8>>,
    started: bool,
}

#[derive(Clone, Default)]
struct Fake(Arc<Mutex<Wire>>);

impl Fake {
    fn new(room: usize) -> Fake {
        let f = Fake::default();
        f.0.lock().unwrap().room = room;
        f
    }
    fn arrive(&self, frame: &[u8]) {
        self.0.lock().unwrap().arriving.push_back(frame.to_vec());
    }
    fn left(&self) -> Vec<Vec<u8>> {
        let wire = self.0.lock().unwrap();
        wire.left.iter().map(|(_, f)| f.clone()).collect()
    }
}

impl Port for Fake {
    fn next_at(&mut self) -> Option<Timestamp> {
        None
    }
    fn receive(&mut self, _: &mut Vec<Pkt>, _: &mut Vec<Pkt>, _: Timestamp, _: usize) {}
    fn is_live(&self) -> bool {
        true
    }
    fn start(&mut self, _: bool) -> Result<(), PortError> {
        self.0.lock().unwrap().started = true;
        Ok(())
    }
    fn poll(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        let mut wire = self.0.lock().unwrap();
        assert!(wire.started);
        for _ in 0..n {
            let Some(f) = wire.arriving.pop_front() else {
                break;
            };
            let mut p = free.pop().unwrap();
            p.refill(&f);
            batch.push(p);
        }
        Ok(())
    }
    fn transmit(&mut self, packets: &mut Vec<Pkt>, now: Timestamp) -> Result<(), PortError> {
        let mut wire = self.0.lock().unwrap();
        for p in packets {
            match wire.room {
                0 => wire.waiting.push_back(p.data().to_vec()),
                _ => {
                    wire.room -= 1;
                    wire.left.push((now, p.data().to_vec()));
                }
            }
        }
        Ok(())
    }
    fn backlog(&self) -> usize {
        self.0.lock().unwrap().waiting.len()
    }
    fn flush(&mut self) -> Result<(), PortError> {
        let mut wire = self.0.lock().unwrap();
        while wire.room > 0
            && let Some(f) = wire.waiting.pop_front()
        {
            wire.room -= 1;
            wire.left.push((Timestamp::ZERO, f));
        }
        Ok(())
    }
    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

/// `a` to `b` at once, `b` to `a` after two milliseconds.
const CHAIN: &str = "FromDevice(a) -> ToDevice(b); \
                     FromDevice(b) -> Queue(100) -> DelayUnqueue(0.002) -> ToDevice(a);";

fn worker(clock: &Clock, a: &Fake, b: &Fake, batch: usize) -> Worker<Graph> {
    let flat = onefold_click::load(CHAIN.as_bytes(), "test.click", &[], &Default::default());
    let options = BuildOptions {
        start: clock.origin(),
        ..Default::default()
    };
    let graph = Graph::build(spec_from_flat(&flat.unwrap()), &options).unwrap();
    let spec = |name: &str, port: &Fake| PortSpec {
        name: name.to_string(),
        entry: graph.source(name),
        sinks: graph.sinks(name),
        port: Some(Box::new(port.clone())),
    };
    let specs = vec![spec("a", a), spec("b", b)];
    let mut w = Worker::new(graph, specs, batch);
    w.start(clock.now()).unwrap();
    w
}

#[test]
fn ports_take_turns_and_packets_have_the_time_of_their_batch() {
    let clock = Clock::start();
    let (a, b) = (Fake::new(1000), Fake::new(1000));
    let mut w = worker(&clock, &a, &b, 4);
    assert_eq!(w.live_step(&clock, usize::MAX).unwrap(), None);
    for i in 0..10u8 {
        a.arrive(&[i; 60]);
        b.arrive(&[100 + i; 60]);
    }
    let mut steps = Vec::new();
    let before = clock.now();
    while let Some(s) = w.live_step(&clock, usize::MAX).unwrap() {
        steps.push((s.port, s.packets));
    }
    assert_eq!(steps, [(0, 4), (1, 4), (0, 4), (1, 4), (0, 2), (1, 2)]);
    assert!(w.now() >= before && w.now() <= clock.now());
    let frames: Vec<u8> = b.left().iter().map(|f| f[0]).collect();
    assert_eq!(frames, (0..10).collect::<Vec<u8>>());
    // a limit is kept within a batch
    a.arrive(&[1; 60]);
    a.arrive(&[2; 60]);
    assert_eq!(w.live_step(&clock, 1).unwrap().map(|s| s.packets), Some(1));
    let wall = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let wall = wall.unwrap().as_secs_f64();
    assert!((w.now().as_secs_f64() - wall).abs() < 5.0, "wall time");
}

#[test]
fn timers_take_place_while_nothing_comes() {
    let clock = Clock::start();
    let (a, b) = (Fake::new(1000), Fake::new(1000));
    let mut w = worker(&clock, &a, &b, 4);
    b.arrive(&[7; 60]);
    w.live_step(&clock, usize::MAX).unwrap();
    let begun = Instant::now();
    while a.left().is_empty() && begun.elapsed() < Duration::from_secs(10) {
        assert_eq!(w.live_step(&clock, usize::MAX).unwrap(), None);
        w.idle(&clock).unwrap();
        w.wait(&clock).unwrap();
    }
    assert_eq!(a.left(), [[7; 60]]);
    let late = begun.elapsed();
    assert!(late >= Duration::from_micros(1900), "{late:?}");
}

#[test]
fn what_waits_for_room_is_tried_again() {
    let clock = Clock::start();
    let (a, b) = (Fake::new(1000), Fake::new(2));
    let mut w = worker(&clock, &a, &b, 8);
    for i in 0..5u8 {
        a.arrive(&[i; 60]);
    }
    w.live_step(&clock, usize::MAX).unwrap();
    assert_eq!(b.left().len(), 2);
    b.0.lock().unwrap().room = 2;
    w.idle(&clock).unwrap();
    assert_eq!(b.left().len(), 4);
    // at the end, too, but nobody waits for ever
    let begun = Instant::now();
    w.drain(Duration::from_millis(20)).unwrap();
    assert!(begun.elapsed() >= Duration::from_millis(20));
    b.0.lock().unwrap().room = 2;
    w.drain(Duration::from_secs(10)).unwrap();
    let frames: Vec<u8> = b.left().iter().map(|f| f[0]).collect();
    assert_eq!(frames, [0, 1, 2, 3, 4]);
    assert!(begun.elapsed() < Duration::from_secs(9));
}

#[test]
fn each_way_of_polling_sleeps_when_it_says() {
    assert!(!Rhythm::new(Polling::Busy).idle().sleep);
    assert!(Rhythm::new(Polling::Interrupt).idle().sleep);
    let mut r = Rhythm::new(Polling::Adaptive);
    let begun = Instant::now();
    let first = r.idle().sleep;
    assert!(!first || begun.elapsed() >= SPIN);
    std::thread::sleep(SPIN * 2);
    assert!(r.idle().sleep);
    r.busy();
    let begun = Instant::now();
    assert!(!r.idle().sleep || begun.elapsed() >= SPIN);
    // behind packets it pauses once, and sleeps if there are none then
    let mut r = Rhythm::new(Polling::Moderate);
    for _ in 0..2 {
        let pause = r.idle();
        assert_eq!((pause.sleep, pause.pause), (false, Some(MODERATION)));
        let sleep = r.idle();
        assert_eq!((sleep.sleep, sleep.pause), (true, None));
        r.busy();
    }
}

/// A device with a few frames of its own, which packets arrive in.
#[derive(Clone)]
struct Lender {
    frames: FramePool,
    fake: Fake,
}

impl Port for Lender {
    fn next_at(&mut self) -> Option<Timestamp> {
        None
    }
    fn receive(&mut self, _: &mut Vec<Pkt>, _: &mut Vec<Pkt>, _: Timestamp, _: usize) {}
    fn is_live(&self) -> bool {
        true
    }
    fn lends_frames(&self) -> bool {
        true
    }
    fn start(&mut self, _: bool) -> Result<(), PortError> {
        Ok(())
    }
    fn poll(
        &mut self,
        free: &mut Vec<Pkt>,
        batch: &mut Vec<Pkt>,
        n: usize,
    ) -> Result<(), PortError> {
        let mut wire = self.fake.0.lock().unwrap();
        let mut frames = Vec::new();
        self.frames.take(n.min(wire.arriving.len()), &mut frames);
        for mut frame in frames {
            let f = wire.arriving.pop_front().unwrap();
            frame[64..64 + f.len()].copy_from_slice(&f);
            let mut p = free.pop().unwrap();
            p.attach(frame, 64..64 + f.len());
            batch.push(p);
        }
        Ok(())
    }
    fn transmit(&mut self, packets: &mut Vec<Pkt>, now: Timestamp) -> Result<(), PortError> {
        self.fake.transmit(packets, now)
    }
    fn finish(&mut self) -> Result<(), PortError> {
        Ok(())
    }
}

/// Whatever becomes of packets (they leave elsewhere, are dropped, or held for a while), their frames go back to the
/// device as soon as it is done: what is kept for later has none of them.
#[test]
fn frames_go_back_to_whom_they_belong() {
    const CHAIN: &str = "
        FromDevice(a) -> c :: Classifier(0/01, 0/02, 0/03, -);
        c[0] -> ToDevice(b); c[1] -> Discard; c[2] -> Queue(100) -> DelayUnqueue(0.2) -> ToDevice(b);
        c[3] -> ToDevice(nowhere);";
    let flat = onefold_click::load(CHAIN.as_bytes(), "test.click", &[], &Default::default());
    let spec = spec_from_flat(&flat.unwrap());
    for batch in [1, 8, 64] {
        let clock = Clock::start();
        let options = BuildOptions {
            start: clock.origin(),
            ..Default::default()
        };
        let graph = Graph::build(spec.clone(), &options).unwrap();
        let a = Lender {
            frames: FramePool::new(FrameLayout {
                frames: 10,
                stride: 512,
                skip: 0,
            }),
            fake: Fake::default(),
        };
        let b = Fake::new(usize::MAX);
        let port = |name: &str, port: Box<dyn Port>| PortSpec {
            name: name.to_string(),
            entry: graph.source(name),
            sinks: graph.sinks(name),
            port: Some(port),
        };
        let ports = vec![
            port("a", Box::new(a.clone())),
            port("b", Box::new(b.clone())),
        ];
        let mut w = Worker::new(graph, ports, batch);
        w.start(clock.now()).unwrap();
        b.0.lock().unwrap().started = true;
        let mut held = 0;
        for i in 0..1000u32 {
            let kind = [1, 2, 1, 4, if held < 5 { 3 } else { 2 }][i as usize % 5];
            held += u32::from(kind == 3);
            a.fake.arrive(&[kind; 60]);
            if i % 7 == 0 {
                while w.live_step(&clock, usize::MAX).unwrap().is_some() {}
                assert_eq!(
                    a.frames.free(),
                    10 - held as usize,
                    "{i}: all but those held"
                );
                assert!(a.fake.0.lock().unwrap().arriving.is_empty());
            }
        }
        while w.live_step(&clock, usize::MAX).unwrap().is_some() {}
        let begun = Instant::now();
        while a.frames.free() < 10 && begun.elapsed() < Duration::from_secs(5) {
            w.idle(&clock).unwrap();
        }
        assert_eq!(a.frames.free(), 10);
        assert_eq!(
            b.left().len(),
            405,
            "those that leave, and five that were held"
        );
    }
}
