//! `onefold gen` as a library: options in, files out.

use std::path::{Path, PathBuf};

use clap::Parser;
use onefold_bench::{GenArgs, GenError, NoProgress, Progress, first_match, parse_rules, run};
use onefold_capture::{CaptureReader, Merge};

#[derive(Parser)]
#[command(name = "gen", no_binary_name = true)]
struct Cli {
    #[command(flatten)]
    args: GenArgs,
}

/// A folder that goes away.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let dir =
            std::env::temp_dir().join(format!("onefold-command-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn file(&self, name: &str) -> String {
        self.0.join(name).to_str().unwrap().to_owned()
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn parse(options: &[&str]) -> GenArgs {
    match Cli::try_parse_from(options) {
        Ok(c) => c.args,
        Err(e) => panic!("{e}"),
    }
}

fn frames(path: impl AsRef<Path>) -> usize {
    CaptureReader::open(path)
        .unwrap()
        .map(Result::unwrap)
        .count()
}

#[test]
fn two_directions_on_one_clock() {
    let dir = Folder::new("directions");
    let (out, back) = (dir.file("out.pcap"), dir.file("back.pcapng"));
    let args = parse(&[
        "--out",
        &out,
        "--reverse",
        &back,
        "--packets",
        "20000",
        "--flows",
        "500",
        "--pps",
        "1000",
    ]);
    struct Count(Vec<u64>);
    impl Progress for Count {
        fn packets(&mut self, done: u64, total: u64) -> bool {
            assert_eq!(total, 20_000);
            self.0.push(done);
            true
        }
    }
    let mut progress = Count(Vec::new());
    let s = run(&args, &mut progress).unwrap();
    assert_eq!(progress.0, [8192, 16_384, 20_000]);
    assert_eq!(s.packets, 20_000);
    assert_eq!(s.flows, 500);
    assert_eq!(s.files.iter().map(|f| f.items).sum::<u64>(), 20_000);
    assert_eq!(frames(&out) as u64, s.counts.forward);
    assert_eq!(frames(&back) as u64, s.counts.reverse);
    assert!(s.counts.reverse > 8_000, "{:?}", s.counts);
    let both = vec![
        CaptureReader::open(&out).unwrap(),
        CaptureReader::open(&back).unwrap(),
    ];
    let times: Vec<i64> = Merge::new(both).map(|f| f.unwrap().1.ts_ns).collect();
    assert!(times.windows(2).all(|w| w[1] - w[0] == 1_000_000));
    let json = serde_json::to_value(&s).unwrap();
    assert_eq!(json["counts"]["tcp"].as_u64(), Some(s.counts.tcp));

    struct Stop;
    impl Progress for Stop {
        fn packets(&mut self, _: u64, _: u64) -> bool {
            false
        }
    }
    // whole as far as it goes
    let s = run(&args, &mut Stop).unwrap();
    assert!(s.stopped && s.packets == 8192, "{s:?}");
    assert_eq!(frames(&out) + frames(&back), 8192);
}

#[test]
fn rules_and_traffic_for_them() {
    let dir = Folder::new("rules");
    let (set, headers, params) = (dir.file("acl.rules"), dir.file("h.txt"), dir.file("p.json"));
    let s = run(
        &parse(&[
            "--rules",
            "acl",
            "--count",
            "150",
            "--out",
            &set,
            "--headers",
            &headers,
            "--packets",
            "900",
            "--write-rule-params",
            &params,
            "--deny",
            "0.5",
        ]),
        &mut NoProgress,
    )
    .unwrap();
    let rules = parse_rules(&std::fs::read_to_string(&set).unwrap()).unwrap();
    assert_eq!(rules.len(), 150);
    let summary = s.rules.unwrap();
    assert_eq!(summary.count, 150);
    assert!(summary.deny.unwrap().abs_diff(75) < 30);
    assert_eq!(
        summary.exercised.unwrap() + summary.unreached.len() as u64,
        150
    );
    assert_eq!(s.files.len(), 3);
    assert!(std::fs::read_to_string(&headers).unwrap().lines().count() > 850);

    // The written parameters give the same set again.
    let again = dir.file("again.rules");
    run(
        &parse(&[
            "--rules",
            "fw",
            "--rule-params",
            &params,
            "--count",
            "150",
            "--out",
            &again,
        ]),
        &mut NoProgress,
    )
    .unwrap();
    assert_eq!(std::fs::read(&set).unwrap(), std::fs::read(&again).unwrap());

    for (format, word) in [("click", "allow "), ("classbench-verdicts", "\tdeny")] {
        let file = dir.file(format);
        run(
            &parse(&[
                "--rules",
                "ipc",
                "--count",
                "50",
                "--rule-format",
                format,
                "--out",
                &file,
            ]),
            &mut NoProgress,
        )
        .unwrap();
        let text = std::fs::read_to_string(&file).unwrap();
        assert_eq!(text.lines().count(), 50);
        assert!(text.contains(word));
    }

    let capture = dir.file("t.pcap");
    let s = run(
        &parse(&[
            "--from-rules",
            &set,
            "--packets",
            "1500",
            "--out",
            &capture,
            "--headers",
            &headers,
        ]),
        &mut NoProgress,
    )
    .unwrap();
    let reached = s.rules.unwrap().exercised.unwrap();
    assert_eq!(s.flows, 10 * reached);
    assert_eq!(frames(&capture), 1500);
    for line in std::fs::read_to_string(&headers).unwrap().lines() {
        let c: Vec<u64> = line.split('\t').map(|c| c.parse().unwrap()).collect();
        let h = onefold_bench::Header {
            src: c[0] as u32,
            dst: c[1] as u32,
            ports: matches!(c[4], 6 | 17).then_some((c[2] as u16, c[3] as u16)),
            proto: c[4] as u8,
            flags: c[5] as u16,
        };
        assert_eq!(first_match(&rules, &h), Some(c[6] as usize));
    }
}

#[test]
fn files_of_prefixes_and_models() {
    let dir = Folder::new("files");
    let (prefixes, models, out) = (dir.file("p.txt"), dir.file("m.json"), dir.file("o.pcap"));
    std::fs::write(&prefixes, "# two sites\n192.0.2.0/28\n198.51.100.7\n").unwrap();
    std::fs::write(&models, r#"{"models":[{"name":"big","peaks_ip":[986]}]}"#).unwrap();
    run(
        &parse(&[
            "--out",
            &out,
            "--dst",
            &format!("@{prefixes}"),
            "--size",
            "big",
            "--size-models",
            &models,
            "--protocols",
            "udp",
            "--packets",
            "200",
            "--flows",
            "50",
        ]),
        &mut NoProgress,
    )
    .unwrap();
    for f in CaptureReader::open(&out).unwrap() {
        let d = f.unwrap().data;
        assert_eq!(d.len(), 1000);
        assert!(d[30..33] == [192, 0, 2] || d[30..34] == [198, 51, 100, 7]);
    }
}

#[test]
fn wrong_options_say_which_and_why() {
    let dir = Folder::new("wrong");
    let out = dir.file("x.pcap");
    let rules = dir.file("bad.rules");
    std::fs::write(&rules, "@1.2.3.4/32 nonsense\n@\n").unwrap();
    let cases: [(&[&str], &str); 10] = [
        (&["--size", "imx"], "--size: no size model `imx`"),
        (&["--size", "10"], "--size: frames of 10 bytes"),
        (&["--dst", "10.0.0.0/40"], "--dst: `10.0.0.0/40`"),
        (&["--src", "@/nonexistent"], "/nonexistent: "),
        (&["--src6", "10.0.0.0/8"], "the IPv6 source list"),
        (&["--exceptions", "2"], "the share of exceptions is 2"),
        (
            &["--from-rules", &rules],
            "bad.rules:1:13: expected an IPv4 address",
        ),
        (
            &["--headers", "h"],
            "--headers: expected --rules or --from-rules",
        ),
        (
            &["--rules", "acl", "--count", "0"],
            "rule parameters: 0 rules",
        ),
        (
            &["--rules", "acl", "--nesting", "3"],
            "rule parameters: nesting is 3",
        ),
    ];
    for (options, message) in cases {
        let mut all = vec!["--out", &out];
        all.extend(options);
        let e = run(&parse(&all), &mut NoProgress).unwrap_err();
        assert!(e.to_string().contains(message), "{options:?}: {e}");
        assert!(!Path::new(&out).exists(), "{options:?} left a file");
    }
    let e = run(
        &parse(&["--out", &out, "--from-rules", &rules]),
        &mut NoProgress,
    )
    .unwrap_err();
    assert_eq!(e.to_string().lines().count(), 2, "both lines are reported");
    let same = run(&parse(&["--out", &out, "--reverse", &out]), &mut NoProgress);
    assert!(matches!(
        same,
        Err(GenError::Usage {
            flag: "--reverse",
            ..
        })
    ));
    for options in [
        &["--out", "x", "--rules", "acl", "--from-rules", "y"][..],
        &["--out", "x", "--count", "4"],
        &["--out", "x", "--src-mac", "1:2"],
        &["--out", "x", "--protocols", "sctp"],
    ] {
        assert!(Cli::try_parse_from(options).is_err(), "{options:?}");
    }
    // live ports need no file
    let nowhere = run(&parse(&["--packets", "4"]), &mut NoProgress);
    assert!(matches!(
        nowhere,
        Err(GenError::Usage { flag: "--out", .. })
    ));
}

#[test]
fn the_help_is_consistent() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
    let help = Cli::command().render_long_help().to_string();
    for word in [
        "--reverse",
        "--from-rules",
        "--exceptions",
        "How much",
        "Rule sets",
    ] {
        assert!(help.contains(word), "{word}");
    }
}
