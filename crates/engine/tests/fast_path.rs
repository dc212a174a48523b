//! What a packet of a known flow costs besides time: no allocation and no system call, which are counted.

#[allow(dead_code)]
#[path = "program/harness.rs"]
mod harness;

use harness::{Frame, build};
use onefold_engine::flow::FlowRunner;
use onefold_engine::program::ProgramRunner;
use onefold_packet::{Pkt, Timestamp};
use onefold_synth::{Budget, synthesize};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Read;
use std::process::{Command, Stdio};

struct Counting;

thread_local! {
    /// Calls of this thread.
    static CALLS: Cell<u64> = const { Cell::new(0) };
}

fn count() {
    CALLS.with(|c| c.set(c.get() + 1));
}

// SAFETY: everything is the system allocator's; calls are counted beside it.
#[allow(unsafe_code)]
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, l: Layout) -> *mut u8 {
        count();
        unsafe { System.alloc(l) }
    }
    unsafe fn dealloc(&self, p: *mut u8, l: Layout) {
        count();
        unsafe { System.dealloc(p, l) }
    }
    unsafe fn realloc(&self, p: *mut u8, l: Layout, n: usize) -> *mut u8 {
        count();
        unsafe { System.realloc(p, l, n) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Two translators in a row, a firewall between them.
const CHAIN: &str = "
    a :: IPRewriter(pattern 203.0.113.1 1024-65535# - - 0 0, drop);
    b :: IPRewriter(pattern 203.0.113.2 1024-65535# - - 0 0, drop);
    FromDevice(in) -> Strip(14) -> CheckIPHeader -> IPClassifier(tcp or udp) -> [0] a;
    a [0] -> IPFilter(deny dst port 99, allow all) -> DecIPTTL -> [0] b;
    Idle -> [1] a; Idle -> [1] b;
    b [0] -> EtherEncap(0x0800, 2:0:0:0:0:9, 2:0:0:0:0:a) -> ToDevice(out);";

struct Rig {
    flow: FlowRunner,
    frames: Vec<Vec<u8>>,
    free: Vec<Pkt>,
    batch: Vec<Pkt>,
    now: Timestamp,
}

impl Rig {
    fn new() -> Rig {
        let g = build(CHAIN);
        let program = synthesize(&g.synthesis_input(), Budget::default());
        let runner = ProgramRunner::with_program(g, &program).unwrap();
        let frame = |i: u16| {
            Frame {
                dst_mac: [2, 0, 0, 0, 0, 2],
                src_mac: [2, 0, 0, 0, 0, 1],
                src: [10, 0, (i >> 8) as u8, i as u8],
                dst: [8, 8, 8, 8],
                proto: if i.is_multiple_of(4) { 6 } else { 17 },
                ttl: 64,
                ports: (i + 1, if i.is_multiple_of(16) { 99 } else { 53 }),
                flags: 0x18,
                payload: 10,
            }
            .bytes()
        };
        let mut flow = FlowRunner::new(runner, 4096).always();
        let free = (0..64).map(|_| flow.make_packet(&[])).collect();
        let mut r = Rig {
            flow,
            frames: (0..1000).map(frame).collect(),
            free,
            batch: Vec::with_capacity(64),
            now: Timestamp::from_secs(1),
        };
        // everything is known, and every list has had its length
        for _ in 0..8 {
            r.round();
        }
        r
    }

    /// Every frame once, in batches.
    fn round(&mut self) {
        let source = self.flow.graph().source("in").unwrap();
        for frames in self.frames.chunks(50) {
            for f in frames {
                let mut p = match self.free.pop() {
                    Some(p) => p,
                    None => self.flow.make_packet(&[]),
                };
                p.refill(f);
                self.batch.push(p);
            }
            self.now = Timestamp(self.now.0 + 3350);
            self.flow.inject_batch(source, &mut self.batch, self.now);
            self.flow.collect_transmitted(&mut self.free);
        }
    }
}

#[test]
fn no_allocation() {
    let mut r = Rig::new();
    let hits = r.flow.stats().hits;
    let before = CALLS.with(Cell::get);
    for _ in 0..20 {
        r.round();
    }
    let calls = CALLS.with(Cell::get) - before;
    assert_eq!(r.flow.stats().hits - hits, 20_000, "{:?}", r.flow.causes());
    assert_eq!(calls, 0, "calls of the allocator for 20,000 packets");
}

/// In the mode that the child below enters, the kernel ends whoever calls anything but read, write and exit. That a lock waits for
/// nobody follows: waiting is a call.
#[cfg(target_os = "linux")]
#[test]
fn no_system_call() {
    if std::env::var_os("ONEFOLD_IN_STRICT_MODE").is_some() {
        in_strict_mode();
    }
    let exe = std::env::current_exe().unwrap();
    let mut child = Command::new(exe)
        .args(["--exact", "no_system_call", "--nocapture"])
        .env("ONEFOLD_IN_STRICT_MODE", "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut out = child.stdout.take().unwrap();
    let (mut text, mut buf) = (Vec::new(), [0; 256]);
    // Bound: the child ends, or says one of the two words
    loop {
        let n = out.read(&mut buf).unwrap();
        text.extend_from_slice(&buf[..n]);
        let said = |w: &[u8]| text.windows(w.len()).any(|x| x == w);
        if n == 0 || said(b"<20000 hits>") || said(b"<other>") {
            break;
        }
    }
    let _ = child.kill();
    let _ = child.wait();
    let text = String::from_utf8_lossy(&text);
    assert!(
        text.contains("<20000 hits>"),
        "the kernel ended it at a system call, or packets were not hits: {text}"
    );
}

/// From now on a call of the kernel ends the process, but for `write` and `exit`. (Not seccomp's strict mode: that takes away the processor's clock as
/// well, and a batch in 512 packets is timed by it.) Did it work?
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn only_write_and_exit() -> bool {
    use libc::{BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W};
    // where the clock is the kernel's, asking for the time is a call
    let clock = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    let clock = std::fs::read_to_string(clock).unwrap_or_default();
    let own = [
        "tsc",
        "kvm-clock",
        "hyperv_clocksource_tsc_page",
        "arch_sys_counter",
    ];
    let time = match own.contains(&clock.trim()) {
        true => libc::SYS_exit,
        false => libc::SYS_clock_gettime,
    };
    let step = |code: u32, jt: u8, k: u32| libc::sock_filter {
        code: code as u16,
        jt,
        jf: 0,
        k,
    };
    let equal = |call: libc::c_long, skip: u8| step(BPF_JMP | BPF_JEQ | BPF_K, skip, call as u32);
    let mut steps = [
        // the number of the call
        step(BPF_LD | BPF_W | BPF_ABS, 0, 0),
        equal(libc::SYS_write, 3),
        equal(libc::SYS_exit, 2),
        equal(time, 1),
        step(BPF_RET | BPF_K, 0, libc::SECCOMP_RET_KILL_PROCESS),
        step(BPF_RET | BPF_K, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let program = libc::sock_fprog {
        len: steps.len() as u16,
        filter: steps.as_mut_ptr(),
    };
    // SAFETY: gives up the right to call most of the kernel, for this thread; the kernel copies the program, which lives.
    unsafe {
        libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
            && libc::prctl(
                libc::PR_SET_SECCOMP,
                libc::SECCOMP_MODE_FILTER,
                &raw const program,
            ) == 0
    }
}

#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn in_strict_mode() -> ! {
    let mut r = Rig::new();
    let before = r.flow.stats().hits;
    let strict = only_write_and_exit();
    for _ in 0..20 {
        r.round();
    }
    let right = strict && r.flow.stats().hits - before == 20_000;
    let text: &[u8] = if right { b"<20000 hits>" } else { b"<other>" };
    // SAFETY: writes to standard output from memory that lives, then ends the thread without the library's help, which would
    // call more than it may.
    unsafe {
        libc::write(1, text.as_ptr().cast(), text.len());
        libc::syscall(libc::SYS_exit, 0);
    }
    unreachable!("the thread has ended")
}
