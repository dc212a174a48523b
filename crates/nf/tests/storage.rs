//! A function whose buffers are all full gives its core up, says so to its launcher, and goes on when one of them has
//! been carried out.

use nix::fcntl::{FcntlArg, OFlag, fcntl};
use onefold_nf::native::{Hello, Native};
use onefold_nf::storage::{FileBytes, Settings, Storage};
use onefold_nf::{Channel, Memory, Plan, Region, Seat, Shape};
use std::fs::File;
use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
/// The least that a pipe holds.
const PIPE: usize = 4096;

/// A launcher's seat, and the place of a function with a port.
fn place() -> (Seat, Arc<Region>, Native, Channel) {
    let shape = Shape {
        nfs: 2,
        rings: 0,
        places: 64,
        slots: 128,
        slot_bytes: 2112,
    };
    let plan = Plan::new(shape, &[(0, 1), (1, 0)]).unwrap();
    let (memory, fd) = Memory::create(plan.bytes, false).unwrap();
    let region = Arc::new(Region::new(memory, plan.shape).unwrap());
    let seat = Seat::new(region.clone(), &plan, 0, vec![]).unwrap();
    let (mut channel, theirs) = Channel::pair().unwrap();
    let hello = Hello {
        me: 1,
        live: true,
        ports: vec![(Some(0), Some(1))],
        plan,
    };
    let event: OwnedFd = fd.try_clone().unwrap();
    let fds = [fd.as_fd(), event.as_fd()];
    channel.send(hello.to_text().as_bytes(), &fds).unwrap();
    let native = Native::attach(theirs).unwrap();
    (seat, region, native, channel)
}

fn until(what: &str, mut is: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is() {
        assert!(begun.elapsed() < PATIENCE, "{what}");
        std::thread::sleep(Duration::from_micros(100));
    }
}

/// A pipe that nobody reads is a disk that is slow: as long as it is full, the function does not run, though packets
/// wait for it; what it had written to its port before has left.
#[test]
fn a_function_with_full_buffers_sleeps_and_says_so() {
    let (mut seat, region, mut native, _channel) = place();
    let (mut read, write) = std::io::pipe().unwrap();
    fcntl(&write, FcntlArg::F_SETPIPE_SZ(PIPE as i32)).unwrap();
    let file = Arc::new(File::from(OwnedFd::from(write)));
    let settings = Settings {
        batch: 2,
        ..Settings::default()
    };
    let mut storage = Storage::new(settings, Some(native.bell()));
    if storage.engine() == "thread" {
        // a thread writes at offsets, which a pipe has none of
        eprintln!("not seen here: {}", storage.why().unwrap_or_default());
        return;
    }
    let send = |seat: &mut Seat| {
        let frame = seat.take_slot().unwrap();
        let d = seat.describe(frame, 64, 60).unwrap();
        seat.queue(0, d);
        seat.flush().unwrap();
    };
    (0..3).for_each(|_| send(&mut seat));
    let mut batch = Vec::new();
    assert_eq!(native.read(&mut batch, 2).unwrap(), 2);
    let held = batch.pop().unwrap();
    assert!(native.write(batch.pop().unwrap(), 0));
    let page = |n: usize| FileBytes {
        file: file.clone(),
        bytes: vec![n as u8; PIPE],
        context: n,
    };
    let mut n = 0;
    // the first page fills the pipe
    while !storage.is_full() {
        assert!(n < 20, "a pipe of a page takes no more");
        storage.write(page(n), (n * PIPE) as u64).unwrap();
        n += 1;
    }
    let said = || region.nf(1).unwrap().said();
    assert_eq!(said().storage_waits.load(Ordering::Relaxed), 0);
    let reads = std::thread::scope(|s| {
        let launcher = s.spawn(|| {
            until("it says that it waits", || {
                said().in_storage.load(Ordering::Relaxed) == 1
            });
            let mut arrived = Vec::new();
            until("what it had written has left", || {
                seat.receive(0, &mut arrived, 8).unwrap();
                arrived.len() == 1
            });
            // the other one is still its own
            assert_eq!(said().waiting.load(Ordering::Acquire), 1);
            std::thread::sleep(Duration::from_millis(20));
            assert_eq!(said().in_storage.load(Ordering::Relaxed), 1);
            let flags = fcntl(&read, FcntlArg::F_GETFL).unwrap();
            let flags = OFlag::from_bits_retain(flags) | OFlag::O_NONBLOCK;
            fcntl(&read, FcntlArg::F_SETFL(flags)).unwrap();
            let (mut got, mut some) = (Vec::new(), [0; PIPE]);
            until("it goes on", || {
                if let Ok(n) = read.read(&mut some) {
                    got.extend_from_slice(&some[..n]);
                }
                said().in_storage.load(Ordering::Relaxed) == 0
            });
            (got, read)
        });
        native.yield_to_storage(&mut storage, 1).unwrap();
        launcher.join().unwrap()
    });
    assert_eq!(said().storage_waits.load(Ordering::Relaxed), 1);
    assert!(!storage.is_full());
    assert!(native.write(held, 0));
    // the packet that came meanwhile is there, and what is left of the pages comes
    assert_eq!(native.read(&mut batch, 8).unwrap(), 1);
    let (mut got, mut read) = reads;
    let mut done = Vec::new();
    until("everything is written", || {
        let mut some = [0; PIPE];
        if let Ok(n) = read.read(&mut some) {
            got.extend_from_slice(&some[..n]);
        }
        storage.take_done(&mut done);
        got.len() == n * PIPE
    });
    assert!((0..n).all(|i| got[i * PIPE..(i + 1) * PIPE].iter().all(|b| *b == i as u8)));
    until("everything is told", || {
        storage.take_done(&mut done);
        done.len() == n
    });
    let well = |(i, d): (usize, &onefold_nf::storage::Done<FileBytes<usize>>)| {
        d.data.context == i && d.result.as_ref().is_ok_and(|n| *n == PIPE)
    };
    assert!(done.iter().enumerate().all(well));
}
