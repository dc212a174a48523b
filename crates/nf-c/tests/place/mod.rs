//! Programs compiled by a C compiler with its strictest warnings, and a launcher for them that has their rings.

use onefold_nf::native::{ENVIRONMENT, Hello};
use onefold_nf::{Arrived, Channel, LIFE, Memory, Plan, Process, Region, Seat, Shape, State};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

pub const PATIENCE: Duration = Duration::from_secs(20);

pub fn here(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// The static library that cargo has built beside this test.
fn library() -> Option<PathBuf> {
    let test = std::env::current_exe().ok()?;
    let mut dirs = test.ancestors().skip(1).take(2);
    dirs.find_map(|d| {
        let file = d.join("libonefold_nf_c.a");
        file.exists().then_some(file)
    })
}

const WARNINGS: [&str; 12] = [
    "-std=c11",
    "-Wall",
    "-Wextra",
    "-Wpedantic",
    "-Werror",
    "-Wconversion",
    "-Wshadow",
    "-Wcast-align",
    "-Wstrict-prototypes",
    "-Wmissing-prototypes",
    "-Wundef",
    "-Wvla",
];

pub fn has_compiler() -> bool {
    let there = Command::new("cc").arg("--version").output().is_ok();
    if !there {
        onefold_testing::skip("no C compiler (cc)");
    }
    there
}

/// Compiles an example with these options besides; gives the program.
pub fn compile(example: &str, name: &str, options: &[&str]) -> Option<PathBuf> {
    let library = library().expect("cargo builds the library for its tests");
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    // of a library that is built with a sanitizer (scripts/sanitize-nf.sh)
    let more = std::env::var("ONEFOLD_NF_CFLAGS").unwrap_or_default();
    let made = Command::new("cc")
        .args(WARNINGS)
        .args(options)
        .args(more.split_whitespace())
        .arg("-I")
        .arg(here("include"))
        .arg(here("examples").join(example))
        .arg(library)
        .args(["-lpthread", "-ldl", "-lm", "-o"])
        .arg(&out)
        .output()
        .expect("cc runs");
    let said = String::from_utf8_lossy(&made.stderr).into_owned();
    assert!(made.status.success(), "{said}");
    Some(out)
}

/// A launcher and a program with two ports.
pub struct Place {
    pub seat: Seat,
    pub region: Arc<Region>,
    pub process: Process,
    channel: Channel,
    sent: u32,
}

impl Place {
    pub fn launch(program: Command) -> Place {
        let shape = Shape {
            nfs: 2,
            rings: 0,
            places: 64,
            slots: 256,
            slot_bytes: 2112,
        };
        let plan = Plan::new(shape, &[(0, 1), (0, 1), (1, 0), (1, 0)]).unwrap();
        let (memory, fd) = Memory::create(plan.bytes, false).unwrap();
        let region = Arc::new(Region::new(memory, plan.shape).unwrap());
        let seat = Seat::new(region.clone(), &plan, 0, vec![]).unwrap();
        let event: OwnedFd = fd.try_clone().unwrap();
        let (mut channel, theirs) = Channel::pair().unwrap();
        channel.patience(PATIENCE).unwrap();
        let hello = Hello {
            me: 1,
            live: false,
            ports: vec![(Some(0), Some(2)), (Some(1), Some(3))],
            plan,
        };
        assert_eq!(Hello::of_text(&hello.to_text()).unwrap(), hello);
        let process = Process::spawn(program, theirs, None, |command, fd| {
            command.env(ENVIRONMENT, fd.to_string());
        });
        let fds = [fd.as_fd(), event.as_fd()];
        channel.send(hello.to_text().as_bytes(), &fds).unwrap();
        let mut place = Place {
            seat,
            region,
            process: process.unwrap(),
            channel,
            sent: 0,
        };
        place.wait("it runs", |p| {
            let said = p.region.nf(1).unwrap().said();
            said.state.load(Ordering::Acquire) == State::Running as u32
        });
        place
    }

    pub fn wait(&mut self, what: &str, is: impl Fn(&Place) -> bool) {
        let begun = Instant::now();
        while !is(self) {
            let ended = self.process.ended();
            assert!(
                ended.is_none() && begun.elapsed() < PATIENCE,
                "{what}: {ended:?}"
            );
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    pub fn send(&mut self, port: usize, bytes: &[u8]) {
        let mut frame = self.seat.take_slot().expect("a slot");
        frame[64..64 + bytes.len()].copy_from_slice(bytes);
        let d = self.seat.describe(frame, 64, bytes.len()).unwrap();
        self.seat.queue(port, d);
        self.seat.flush().unwrap();
        self.sent += 1;
    }

    pub fn receive(&mut self, port: usize, n: usize) -> Vec<Vec<u8>> {
        let begun = Instant::now();
        let mut arrived: Vec<Arrived> = Vec::new();
        while arrived.len() < n {
            assert!(begun.elapsed() < PATIENCE, "{} of {n}", arrived.len());
            let left = n - arrived.len();
            self.seat.receive(port, &mut arrived, left).unwrap();
        }
        self.seat.release();
        let bytes = |a: &Arrived| {
            let (from, len) = (usize::from(a.descriptor.offset), a.descriptor.len as usize);
            a.frame[from..from + len].to_vec()
        };
        arrived.iter().map(bytes).collect()
    }

    /// Tells it to stop.
    pub fn order_stop(&self) {
        let orders = self.region.nf(1).unwrap().orders();
        orders.command.store(4 | LIFE[2].1, Ordering::Release);
        self.seat.ring(1);
    }

    /// Its report, and how it has ended: it was told to stop, or does so by itself.
    pub fn ends(mut self) -> (String, ExitStatus) {
        let (report, _) = self.channel.receive(1 << 16).unwrap();
        let begun = Instant::now();
        let status = loop {
            match self.process.ended() {
                Some(status) => break status,
                None => assert!(begun.elapsed() < PATIENCE),
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        (String::from_utf8(report).unwrap(), status)
    }

    /// Tells it to stop; its report, after it has ended well.
    pub fn stop(self) -> String {
        self.order_stop();
        let (report, status) = self.ends();
        assert!(status.success(), "{status}");
        report
    }
}

pub fn frame(i: u8) -> Vec<u8> {
    (0..60).map(|b| if b < 6 { i } else { b }).collect()
}
