//! The library as programs use it: compiled by a C compiler with its strictest warnings and sanitizers, and launched.

mod place;

use onefold_nf::Waker;
use onefold_nf::native::{ENVIRONMENT, Hello};
use place::{Place, compile, frame, has_compiler, here};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::Ordering;

#[test]
fn the_header_is_strict_c_and_cpp() {
    if !has_compiler() {
        return;
    }
    let file = Path::new(env!("CARGO_TARGET_TMPDIR")).join("header.c");
    std::fs::write(
        &file,
        "#include <onefold_nf.h>\nint main(void) { return 0; }\n",
    )
    .unwrap();
    for (language, standard) in [("c", "-std=c99"), ("c", "-std=c11"), ("c++", "-std=c++17")] {
        let made = Command::new("cc")
            .args([
                "-x",
                language,
                standard,
                "-Wall",
                "-Wextra",
                "-Wpedantic",
                "-Werror",
            ])
            .args(["-fsyntax-only", "-I"])
            .arg(here("include"))
            .arg(&file)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&made.stderr).into_owned();
        // a compiler without C++ says so
        let absent = language == "c++" && said.contains("cc1plus");
        assert!(made.status.success() || absent, "{standard}: {said}");
    }
}

fn mirrored(i: u8) -> Vec<u8> {
    let f = frame(i);
    [&f[6..12], &f[..6], &f[12..]].concat()
}

/// Packets both ways, in order, more than there are slots; short ones are dropped; it ends when it is told to.
fn mirrors(program: Command) {
    let mut place = Place::launch(program);
    for round in 0..40u8 {
        for i in 0..20 {
            place.send(0, &frame(round ^ i));
            place.send(1, &frame(i));
        }
        place.send(0, &[1, 2, 3]);
        let there = place.receive(1, 20);
        let back = place.receive(0, 20);
        for (i, (there, back)) in (0..20).zip(there.iter().zip(&back)) {
            assert_eq!(*there, mirrored(round ^ i));
            assert_eq!(*back, mirrored(i));
        }
        place.seat.take_returns();
    }
    // the last short one is read and leaves nowhere
    place.wait("all are read", |p| {
        p.region
            .nf(1)
            .unwrap()
            .said()
            .received
            .load(Ordering::Relaxed)
            == 1640
    });
    let report = place.stop();
    assert!(
        report.contains("\"packets_in\":1640,\"packets_out\":1600"),
        "{report}"
    );
    assert!(report.contains("\"dropped by the program\":40"), "{report}");
}

#[test]
fn a_program_in_c_mirrors_frames() {
    if has_compiler()
        && let Some(program) = compile("mirror.c", "mirror", &["-O2"])
    {
        mirrors(Command::new(program));
    }
}

#[test]
fn a_program_in_c_under_sanitizers() {
    if !has_compiler() {
        return;
    }
    let options = [
        "-g",
        "-O1",
        "-fsanitize=address,undefined",
        "-fno-sanitize-recover=all",
    ];
    if let Some(program) = compile("misuse.c", "misuse-sanitized", &options) {
        mirrors(Command::new(program));
    }
}

#[test]
fn who_was_not_launched_is_told_so() {
    if has_compiler()
        && let Some(program) = compile("mirror.c", "mirror-alone", &[])
    {
        let o = Command::new(program)
            .env_remove(ENVIRONMENT)
            .output()
            .unwrap();
        assert_eq!(o.status.code(), Some(2));
        let said = String::from_utf8_lossy(&o.stderr);
        assert!(said.contains("is to be launched by onefold run"), "{said}");
    }
}

#[test]
fn messages_that_are_none_are_refused() {
    for wrong in [
        "",
        "onefold-nf 2\n",
        "onefold-nf 1\n1 0\n",
        "onefold-nf 1\n-1 0 1\n0 0\n",
        "onefold-nf 1\n1 0 99999\n",
        "onefold-nf 1\n1 0 1\nx 0\n",
        "onefold-nf 1\n1 0 1\n0 1\n2 0 64 256 2112 1\n",
    ] {
        assert!(Hello::of_text(wrong).is_err(), "{wrong}");
    }
    // how a program is woken is not its affair
    drop(Waker::Futex);
}
