//! Functions that write files while packets go on: what is in the file is whole and in order, however they end, and a
//! disk that is full is told to them.

mod place;
#[path = "../examples/logger.rs"]
#[allow(dead_code, reason = "its main function is that of the example")]
mod rust;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use place::{Place, compile, frame, has_compiler};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Tells this test's own program that it is to be the logger, and where to.
const LOGGER_FILE: &str = "ONEFOLD_TEST_LOGGER";

fn temp(name: &str) -> PathBuf {
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    let _ = std::fs::remove_file(&file);
    file
}

/// The example in C, under sanitizers.
fn logger(name: &str) -> Option<PathBuf> {
    let options = [
        "-D_POSIX_C_SOURCE=200809L",
        "-g",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ];
    has_compiler()
        .then(|| compile("logger.c", name, &options))
        .flatten()
}

fn log_to(program: &Path, file: &Path, more: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.arg(file).args(more);
    command
}

/// So many packets go in, in batches of 20, and come out.
fn pass(place: &mut Place, from: u32, n: u32) {
    for round in (from..from + n).step_by(20) {
        for i in round..round + 20 {
            place.send(0, &frame(i as u8));
        }
        assert_eq!(place.receive(1, 20).len(), 20);
        place.seat.take_returns();
    }
}

/// Records of so many packets, in their order.
fn records(n: u32) -> Vec<u8> {
    let one = |i: u32| [&i.to_ne_bytes(), &60u32.to_ne_bytes(), &frame(i as u8)[..8]].concat();
    (0..n).flat_map(one).collect()
}

/// Every packet leaves, and every record is in the file, in order, by the kernel's rings as by a thread, with buffers
/// of one record and of many.
#[test]
fn what_a_program_in_c_writes_is_whole_and_in_order() {
    let Some(program) = logger("logger") else {
        return;
    };
    for (name, more) in [("logger-256", "256"), ("logger-1", "1")] {
        let file = temp(name);
        let mut place = Place::launch(log_to(&program, &file, &[more, "500"]));
        pass(&mut place, 0, 1000);
        let report = place.stop();
        assert!(
            report.contains("\"packets_in\":1000,\"packets_out\":1000"),
            "{report}"
        );
        assert!(std::fs::read(&file).unwrap() == records(1000), "{name}");
    }
    let file = temp("logger-thread");
    let mut command = log_to(&program, &file, &["16", "500"]);
    without_io_uring(&mut command);
    let said = temp("logger-said");
    command.stderr(std::fs::File::create(&said).unwrap());
    let mut place = Place::launch(command);
    pass(&mut place, 0, 1000);
    place.stop();
    assert!(std::fs::read(&file).unwrap() == records(1000));
    let said = std::fs::read_to_string(&said).unwrap();
    let once = said
        .matches("by a thread: io_uring: Operation not permitted")
        .count();
    assert!(once == 1 && said.contains("logger: by thread"), "{said}");
}

/// The system calls of io_uring fail in the program.
fn without_io_uring(command: &mut Command) {
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter};
    use std::os::unix::process::CommandExt;
    let rules = [(libc::SYS_io_uring_setup, vec![])].into_iter().collect();
    let no = SeccompAction::Errno(libc::EPERM as u32);
    let arch = std::env::consts::ARCH.try_into().unwrap();
    let filter = SeccompFilter::new(rules, SeccompAction::Allow, no, arch).unwrap();
    let filter: BpfProgram = filter.try_into().unwrap();
    // SAFETY: a system call, with a program that was made before.
    unsafe {
        command.pre_exec(move || {
            seccompiler::apply_filter(&filter).map_err(|_| std::io::ErrorKind::Other.into())
        });
    }
}

/// A program that is ended by SIGTERM has written what it has read, and the one that is launched in its place goes on
/// behind it.
#[test]
fn a_program_that_is_ended_by_a_signal_has_written_everything() {
    let Some(program) = logger("logger-signal") else {
        return;
    };
    let file = temp("logger-ended");
    for (from, n) in [(0, 500), (500, 300)] {
        // buffers that would wait for a minute
        let mut place = Place::launch(log_to(&program, &file, &["4096", "60000000"]));
        pass(&mut place, from, n);
        kill(Pid::from_raw(place.process.id() as i32), Signal::SIGTERM).unwrap();
        let (report, status) = place.ends();
        assert!(status.success(), "{status}");
        let all = format!("\"packets_in\":{n},\"packets_out\":{n}");
        assert!(report.contains(&all), "{report}");
        assert!(std::fs::read(&file).unwrap() == records(from + n));
    }
}

/// What a full device says goes to who has written, packet by packet; packets go on.
#[test]
fn a_full_device_is_told() {
    let Some(program) = logger("logger-full") else {
        return;
    };
    let said = temp("logger-full-said");
    let mut command = log_to(&program, Path::new("/dev/full"), &["8", "500"]);
    command.stderr(std::fs::File::create(&said).unwrap());
    let mut place = Place::launch(command);
    pass(&mut place, 0, 200);
    place.order_stop();
    let (report, status) = place.ends();
    assert_eq!(status.code(), Some(1));
    assert!(report.contains("\"packets_out\":200"), "{report}");
    let said = std::fs::read_to_string(&said).unwrap();
    assert!(
        said.contains("0 records written, 200 failed, 0 left out")
            && said.contains("No space left on device"),
        "{said}"
    );
}

/// A small file system that is gone with the value.
struct Disk(PathBuf);

impl Disk {
    fn new(bytes: u32) -> Option<Disk> {
        if !nix::unistd::geteuid().is_root() {
            onefold_testing::skip("a file system of its own takes root");
            return None;
        }
        let at = Path::new(env!("CARGO_TARGET_TMPDIR")).join("onefold-storage-disk");
        std::fs::create_dir_all(&at).unwrap();
        let options = format!("size={bytes}");
        let none: Option<&str> = None;
        let flags = nix::mount::MsFlags::empty();
        nix::mount::mount(none, &at, Some("tmpfs"), flags, Some(options.as_str())).unwrap();
        Some(Disk(at))
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        let _ = nix::mount::umount2(&self.0, nix::mount::MntFlags::MNT_DETACH);
        let _ = std::fs::remove_dir(&self.0);
    }
}

/// A disk that fills up: what it has room for is there, whole and in order, and the rest is told.
#[test]
fn a_disk_that_fills_up_has_what_it_has_room_for() {
    let (Some(program), Some(disk)) = (logger("logger-fills"), Disk::new(16384)) else {
        return;
    };
    let file = disk.0.join("log");
    let said = temp("logger-fills-said");
    let mut command = log_to(&program, &file, &["64", "500"]);
    command.stderr(std::fs::File::create(&said).unwrap());
    let mut place = Place::launch(command);
    pass(&mut place, 0, 1500);
    place.order_stop();
    let (report, status) = place.ends();
    assert_eq!(status.code(), Some(1));
    assert!(report.contains("\"packets_out\":1500"), "{report}");
    assert!(std::fs::read(&file).unwrap() == records(1024));
    let said = std::fs::read_to_string(&said).unwrap();
    assert!(
        said.contains("1024 records written, 476 failed, 0 left out"),
        "{said}"
    );
}

/// The example in Rust: this test's own program, launched again.
#[test]
fn what_a_program_in_rust_writes_is_whole_and_in_order() {
    if let Ok(file) = std::env::var(LOGGER_FILE) {
        rust::log(&file).unwrap();
        return;
    }
    let file = temp("logger-rust");
    let name = "what_a_program_in_rust_writes_is_whole_and_in_order";
    for (from, n) in [(0, 1000), (1000, 60)] {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", name, "--test-threads", "1"]);
        command.env(LOGGER_FILE, &file);
        let mut place = Place::launch(command);
        pass(&mut place, from, n);
        place.stop();
        assert!(std::fs::read(&file).unwrap() == records(from + n));
    }
}
