//! All interleavings of a ring's two ends, and of who sleeps with who wakes, as far as the memory model lets processes
//! see each other's writes: explored by loom.

use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
use loom::sync::{Arc, Condvar, Mutex};
use loom::thread;
use onefold_nf::atomics::{Atomics, Word};
use onefold_nf::bell;
use onefold_nf::ring::WORDS;
use onefold_nf::{Consumer, Descriptor, Producer, RingMemory};

struct L32(AtomicU32);
struct L64(AtomicU64);

macro_rules! word {
    ($word:ty, $value:ty) => {
        impl Word<$value> for $word {
            fn load(&self, order: Ordering) -> $value {
                self.0.load(order)
            }
            fn store(&self, value: $value, order: Ordering) {
                self.0.store(value, order)
            }
            fn swap(&self, value: $value, order: Ordering) -> $value {
                self.0.swap(value, order)
            }
        }
    };
}
word!(L32, u32);
word!(L64, u64);

struct Loom;
impl Atomics for Loom {
    type U32 = L32;
    type U64 = L64;
    fn fence() {
        fence(Ordering::SeqCst);
    }
}

const PLACES: u32 = 2;

/// All executions in which a process is interrupted where it need not be three times at most.
fn explore(f: impl Fn() + Send + Sync + 'static) {
    let mut model = loom::model::Builder::new();
    model.preemption_bound = Some(3);
    model.check(f);
}

struct Words {
    tail: L32,
    taken: L32,
    head: L32,
    places: [[L64; WORDS]; PLACES as usize],
    sleeping: L32,
    /// What a futex does: the look at the word and falling asleep are one, seen from who wakes.
    kernel: Mutex<()>,
    woken: Condvar,
}

#[derive(Clone)]
struct Ring(Arc<Words>);

impl Ring {
    fn new(start: u32) -> Ring {
        let word = |v| L32(AtomicU32::new(v));
        Ring(Arc::new(Words {
            tail: word(start),
            taken: word(start),
            head: word(start),
            places: std::array::from_fn(|_| std::array::from_fn(|_| L64(AtomicU64::new(0)))),
            sleeping: word(0),
            kernel: Mutex::new(()),
            woken: Condvar::new(),
        }))
    }

    fn futex_wait(&self) {
        let guard = self.0.kernel.lock().unwrap();
        if self.0.sleeping.load(Ordering::SeqCst) == bell::ASLEEP {
            drop(self.0.woken.wait(guard).unwrap());
        }
    }

    fn futex_wake(&self) {
        let guard = self.0.kernel.lock().unwrap();
        self.0.woken.notify_one();
        drop(guard);
    }
}

impl RingMemory for Ring {
    type A = Loom;
    fn places(&self) -> u32 {
        PLACES
    }
    fn tail(&self) -> &L32 {
        &self.0.tail
    }
    fn taken(&self) -> &L32 {
        &self.0.taken
    }
    fn head(&self) -> &L32 {
        &self.0.head
    }
    fn place(&self, number: u32) -> &[L64; WORDS] {
        &self.0.places[(number % PLACES) as usize]
    }
}

fn packet(n: u32) -> Descriptor {
    Descriptor {
        slot: n,
        len: n + 1,
        offset: n as u16,
        flags: 0,
        tag: !n,
        time: -i64::from(n),
        came: u64::from(n) << 40,
    }
}

/// The counters run over in the middle of it.
const START: u32 = u32::MAX - 1;

#[test]
fn what_comes_out_is_what_was_put_in() {
    const ALL: u32 = 3;
    explore(|| {
        let ring = Ring::new(START);
        let (mut p, mut c) = (
            Producer::attach(ring.clone()).unwrap(),
            Consumer::attach(ring).unwrap(),
        );
        let producer = thread::spawn(move || {
            let mut next = 0;
            while next < ALL {
                let batch: Vec<_> = (next..ALL.min(next + 2)).map(packet).collect();
                match p.push(&batch).unwrap() {
                    0 => thread::yield_now(),
                    n => next += n as u32,
                }
            }
        });
        let (mut got, mut next) = (Vec::new(), 0);
        while next < ALL {
            if c.take(&mut got, 2).unwrap() == 0 {
                thread::yield_now();
                continue;
            }
            c.claim();
            for d in got.drain(..) {
                assert_eq!(d, packet(next));
                next += 1;
            }
            c.release();
        }
        producer.join().unwrap();
        assert!(c.is_empty());
    });
}

#[test]
fn nobody_sleeps_while_something_is_there() {
    explore(|| {
        let ring = Ring::new(START);
        let mut p = Producer::attach(ring.clone()).unwrap();
        let waker = ring.clone();
        let producer = thread::spawn(move || {
            for n in 0..2 {
                assert_eq!(p.push(&[packet(n)]), Ok(1));
                if bell::ring::<Loom>(&waker.0.sleeping) {
                    waker.futex_wake();
                }
            }
        });
        let mut c = Consumer::attach(ring.clone()).unwrap();
        let (mut got, mut n) = (Vec::new(), 0);
        // a wake-up that is lost is a deadlock, which loom tells
        while n < 2 {
            n += c.take(&mut got, 2).unwrap();
            c.release();
            if n < 2 {
                bell::lie_down::<Loom>(&ring.0.sleeping);
                if c.is_empty() {
                    ring.futex_wait();
                }
                bell::get_up::<Loom>(&ring.0.sleeping);
            }
        }
        producer.join().unwrap();
        assert_eq!(got, [packet(0), packet(1)]);
    });
}

/// What a launcher counts on when it asks whether nothing is under way: what a function makes of a packet is in its
/// output before its input is empty.
#[test]
fn an_empty_input_means_that_the_output_is_there() {
    explore(|| {
        let (first, second) = (Ring::new(0), Ring::new(0));
        let mut p = Producer::attach(first.clone()).unwrap();
        p.push(&[packet(7)]).unwrap();
        let (input, output) = (first.clone(), second.clone());
        let function = thread::spawn(move || {
            let mut c = Consumer::attach(input).unwrap();
            let mut p = Producer::attach(output).unwrap();
            let mut got = Vec::new();
            c.take(&mut got, 2).unwrap();
            c.claim();
            p.push(&got).unwrap();
            c.release();
        });
        let tail = first.tail().load(Ordering::Acquire);
        let done = first.head().load(Ordering::Acquire) == tail;
        if done {
            assert_eq!(second.tail().load(Ordering::Acquire), 1);
        }
        function.join().unwrap();
    });
}
