use crate::testing::{Bench, Setup};
use onefold_capture::{CaptureWriter, Format, LinkType};
use onefold_packet::{Timestamp, anno_field};
use std::path::PathBuf;

/// A capture in a file of its own that goes away with it.
struct Capture(PathBuf);

impl Capture {
    fn new(name: &str, link: LinkType, frames: &[(i64, &[u8], u32)]) -> Capture {
        let file = format!("onefold-from-dump-{}-{name}.pcap", std::process::id());
        let path = std::env::temp_dir().join(file);
        let mut w = CaptureWriter::create(&path, Format::PcapNs, link, 0).unwrap();
        for (t, data, len) in frames {
            w.write(*t, data, *len).unwrap();
        }
        w.finish().unwrap();
        Capture(path)
    }
    fn bench(&self, more: &str, noutputs: usize, pull: bool) -> Result<Bench, Vec<String>> {
        let setup = Setup {
            noutputs,
            pull,
            unbound: true,
            ..Setup::default()
        };
        let config = format!("{}{more}", self.0.display());
        Bench::with_setup(
            "FromDump",
            &config,
            setup,
            onefold_element::NameDb::builtin(),
        )
    }
}

impl Drop for Capture {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

const S: i64 = 1_000_000_000;

fn seconds(name: &str) -> Capture {
    let frames: Vec<(i64, &[u8], u32)> = vec![
        (10 * S, b"a", 1),
        (11 * S, b"b", 9),
        (12 * S, b"c", 1),
        (13 * S, b"d", 1),
    ];
    Capture::new(name, LinkType::ETHERNET, &frames)
}

/// All that comes out in so many turns.
fn run(b: &mut Bench) -> String {
    let mut out = String::new();
    for _ in 0..100 {
        for (port, p) in b.run_task() {
            assert_eq!(port, 0);
            out.push_str(&String::from_utf8_lossy(p.data()));
        }
    }
    out
}

#[test]
fn reads_all_then_stops() {
    let c = seconds("all");
    let mut b = c.bench(", STOP true", 1, false).unwrap();
    let out = b.run_task();
    assert_eq!(out.len(), 1);
    assert_eq!(out[0].1.anno.timestamp, Timestamp::from_secs(10));
    assert_eq!(out[0].1.mac_header_offset(), Some(0));
    assert_eq!(b.read("packet_filepos").unwrap(), "24");
    assert_eq!(b.read("filepos").unwrap(), "41");
    assert_eq!(b.read("filesize").unwrap(), "92");
    let second = &b.run_task()[0].1;
    assert_eq!(
        second
            .anno
            .u32(usize::from(anno_field::EXTRA_LENGTH.offset)),
        8
    );
    assert_eq!(run(&mut b), "cd");
    assert!(b.host.stopped);
    assert_eq!(b.read("count").unwrap(), "4");
    assert_eq!(b.read("active").unwrap(), "false");
    assert_eq!(b.read("encap").unwrap(), "ETHER");
    assert_eq!(b.read("sampling_prob").unwrap(), "1");
    // back to the second packet
    b.write("filepos", "41").unwrap();
    b.write("active", "true").unwrap();
    assert_eq!(run(&mut b), "bcd");
    assert!(b.write("filepos", "1000").is_err());
    assert!(b.write("filepos", "3").is_err());
}

#[test]
fn times() {
    let c = seconds("times");
    for (config, want) in [
        ("START 11", "bcd"),
        ("START_AFTER 1.5", "cd"),
        ("END 12", "ab"),
        ("END_AFTER 3", "abc"),
        ("START 11, INTERVAL 2", "bc"),
        ("FILEPOS 58", "cd"),
    ] {
        let mut b = c.bench(&format!(", {config}"), 1, false).unwrap();
        assert_eq!(run(&mut b), want, "{config}");
        assert!(!b.host.stopped);
    }
    let mut b = c.bench(", END 12, STOP true", 1, false).unwrap();
    assert_eq!(run(&mut b), "ab");
    assert!(b.host.stopped);
    b.write("extend_interval", "1").unwrap();
    // the packet at the end was read and is gone
    assert_eq!(run(&mut b), "");
}

#[test]
fn an_end_call_may_put_the_end_off() {
    let c = seconds("extend");
    let mut b = c
        .bench(", END 11, END_CALL extend_interval 2", 1, false)
        .unwrap();
    assert_eq!(run(&mut b), "abcd");
    let mut b = c.bench(", END 12, END_CALL x.y 1 2", 1, false).unwrap();
    // another element is told, and the source goes on
    assert_eq!(run(&mut b), "abcd");
    assert_eq!(b.host.writes[0], ("x.y".to_string(), "1 2".to_string()));
}

#[test]
fn timing_follows_the_clock() {
    let c = seconds("timing");
    let mut b = c.bench(", TIMING true", 1, false).unwrap();
    b.now = Timestamp::from_secs(100);
    assert_eq!(b.run_task().len(), 1);
    assert_eq!(b.run_task().len(), 0);
    assert_eq!(b.host.timers[&0], Timestamp::from_secs(101));
    assert_eq!(b.element.held(), 1);
    b.advance_to(Timestamp::from_secs(101));
    assert_eq!(b.host.woken, 1);
    assert_eq!(b.run_task()[0].1.data(), b"b");
}

#[test]
fn force_ip_splits() {
    let mut ip = [0u8; 20];
    ip[0] = 0x45;
    ip[16..].copy_from_slice(&[1, 2, 3, 4]);
    let frames: Vec<(i64, &[u8], u32)> = vec![(S, b"no", 2), (S, &ip, 20)];
    let c = Capture::new("raw", LinkType::RAW, &frames);
    let mut b = c.bench("", 2, false).unwrap();
    let out = b.run_task();
    assert_eq!((out[0].0, out[1].0), (1, 0));
    assert_eq!(out[1].1.anno.dst_ip(), [1, 2, 3, 4]);
    assert_eq!(out[1].1.network_header_offset(), Some(0));
    assert_eq!(b.read("encap").unwrap(), "IP");
    assert_eq!(b.read("count").unwrap(), "1");
    // nowhere to go
    let mut b = c.bench("", 1, true).unwrap();
    assert_eq!(b.pull(0).unwrap().len(), 20);
    assert_eq!(b.drops()[super::NOT_IP], 1);
    assert!(b.pull(0).is_none());
    let c = Capture::new("odd", LinkType(7), &frames);
    let e = c.bench(", FORCE_IP true", 1, false).err().unwrap();
    assert!(e[0].ends_with("unknown linktype 7; can't force IP packets"));
}

#[test]
fn sampling() {
    let frames: Vec<(i64, &[u8], u32)> = vec![(S, b"x", 1); 1000];
    let c = Capture::new("sample", LinkType::ETHERNET, &frames);
    let mut b = c.bench(", SAMPLE 0.25", 1, false).unwrap();
    assert_eq!(b.read("sampling_prob").unwrap(), "0.25");
    let mut n = 0;
    for _ in 0..1100 {
        n += b.run_task().len();
    }
    assert!((180..320).contains(&n), "{n}");
    let b = c.bench(", SAMPLE 2", 1, false).unwrap();
    assert_eq!(b.warnings, ["SAMPLE probability reduced to 1"]);
}

#[test]
fn wrong_files_and_arguments() {
    let e = |config: &str| {
        let setup = Setup {
            noutputs: 1,
            unbound: true,
            ..Setup::default()
        };
        Bench::with_setup(
            "FromDump",
            config,
            setup,
            onefold_element::NameDb::builtin(),
        )
        .err()
        .unwrap()
    };
    assert_eq!(e("/nowhere/x"), ["/nowhere/x: No such file or directory"]);
    assert_eq!(
        e("x, START 1, START_AFTER 2"),
        ["START and START_AFTER are mutually exclusive"]
    );
    assert_eq!(
        e("x, END 1, INTERVAL 2"),
        ["END, END_AFTER, and INTERVAL are mutually exclusive"]
    );
    let path = std::env::temp_dir().join(format!("onefold-from-dump-{}-bad", std::process::id()));
    for (bytes, want) in [
        (&b""[..], "empty file"),
        (b"\xd4\xc3\xb2\xa1\x02\0", "not a tcpdump file (too short)"),
        (
            b"something else altogether",
            "not a tcpdump file (bad magic number)",
        ),
    ] {
        std::fs::write(&path, bytes).unwrap();
        let text = path.display().to_string();
        assert_eq!(e(&text), [format!("{text}: {want}")]);
    }
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn a_copy_reads_nothing_and_a_bound_one_opens_nothing() {
    let c = seconds("copy");
    let mut b = c.bench("", 1, false).unwrap();
    assert_eq!(b.run_task().len(), 1);
    let copy = b.element.clone();
    let original = std::mem::replace(&mut b.element, copy);
    assert_eq!(run(&mut b), "");
    b.element = original;
    assert_eq!(run(&mut b), "bcd");
    let mut b = Bench::new("FromDump", "/nowhere/x, FORCE_IP true", 0, 2).unwrap();
    assert!(!b.element.has_task());
    assert_eq!(b.push(0, b"x")[0].0, 1);
}
