//! NFVnice (Kulkarni et al., SIGCOMM 2017): TCP beside UDP that does not give way, and functions that write to a disk.

use super::nfvnice::{FULL, LIGHT, MEDIUM};
use super::results::{Line, Results};
use super::{Chain, Experiment, Function, Kind, Load, Run, Setting, nfvnice};

/// Costs are so many times those of other experiments, which are ten times the paper's, and loads as many times less:
/// the functions' core is what there is too little of, and not the one that hosts and generator share.
const MORE: u64 = 3;
/// What the third function of UDP's chains takes for a packet: with 60-byte packets, a thirtieth of the paper's 280
/// Mb/s.
const SLOW: u64 = 62_000 * MORE;
/// Flows of UDP, a chain each, as the paper has them.
const FLOWS: u64 = 10;
/// Settings whose connection has no more to send than this, in Mb/s: a third of what the core of hosts, generator and
/// launcher can do, which is busy throughout in the other ones.
const PACED: [&str; 2] = ["paced, alone", "paced, beside UDP"];
const LESS: u32 = 400;

/// Figure 13.
pub const TCP: Experiment = Experiment {
    name: "nfvnice-13",
    title: "TCP beside UDP that does not give way",
    shows: "A TCP connection between two hosts (namespaces) at the chain's network interfaces passes a light and a \
        medium function on one core; ten flows of UDP pass both, too, and a third one that is far slower. Without \
        backpressure UDP, most of which the third function drops, takes core and rings from TCP; with it, UDP is shed \
        where it enters. TCP negotiates ECN.",
    shrunk: "Costs are thirty times the paper's. Client, server, generator, launcher and policy share the other core, \
        so that TCP has less than the paper's 4 Gb/s by itself: what is judged is the part of its own rate that it \
        keeps; client and server go before others there, as they stand for other machines. The third \
        function sleeps for as long as it would compute on its core. In the paper UDP comes from 15 to 40 s \
        of one run; here there is a run with it and one without. Each flow of UDP is a port, at a fixed rate, as what \
        is shed is told apart by port; chains have rings of their own, so that TCP has its part of functions' turns \
        even where nobody sheds (in the paper all flows share a function's ring). The connection is Onefold's own, \
        not iperf3's: it writes and reads 64 KiB at a time. That other core bounds TCP, alone and beside UDP: a \
        second connection has 400 Mb/s to send, and no more.",
    published: &[(
        "NFVnice, fig. 13",
        "1 TCP, 10 UDP: TCP 4 Gb/s -> 10-30 Mb/s under the default (less than 1%), 3.3 Gb/s under NFVnice; UDP 280 \
         Mb/s both",
    )],
    axis: "load",
    plot: "TCP Mb/s",
    columns: &[
        "Mpps udp",
        "shed/s udp",
        "shed/s tcp",
        "wasted/s",
        "switches/s",
    ],
    settings: |_| {
        let runs = || {
            vec![
                Run::sleeping("normal", "normal", Kind::Apart),
                Run::sleeping("batch", "batch", Kind::Apart),
                nfvnice("nfvnice", "", Kind::Apart),
                nfvnice("nfvnice, no marks", ",ecn-above=1", Kind::Apart),
            ]
        };
        let tcp = |most| Chain {
            load: Load::Tcp(most),
            ..Chain::new("tcp", [0, 1], 1)
        };
        let mut functions = vec![
            Function::burn("low", &[MORE * LIGHT]),
            Function::burn("medium", &[MORE * MEDIUM]),
        ];
        let alone = |name: &str, most| Setting {
            chains: vec![tcp(most)],
            ..Setting::line(0.0, name, functions.clone(), 1)
        };
        let alone = [alone("alone", None), alone(PACED[0], Some(LESS))];
        functions.push(Function::asleep("high", SLOW));
        let each = FULL / 2 / MORE / FLOWS;
        let beside = |name: &str, most| {
            let udp = (0..FLOWS).map(|n| Chain::new(format!("udp-{n}"), [0, 1, 2], each));
            Setting {
                chains: std::iter::once(tcp(most)).chain(udp).collect(),
                ..Setting::line(1.0, name, functions.clone(), 1)
            }
        };
        let beside = [beside("beside UDP", None), beside(PACED[1], Some(LESS))];
        let all = alone.into_iter().chain(beside);
        all.map(|s| Setting { longer: 2.0, ..s }.with(runs()))
            .collect()
    },
    lines: |r| {
        let of = |at: &str, run: &str| r.median(at, run, "TCP Mb/s");
        // a policy that holds TCP up when it is alone is not to be praised for it
        let alone = of("alone", "normal").zip(of("alone", "nfvnice"));
        let alone = alone.map(|(a, b)| a.max(b));
        let kept = |run: &str| {
            let (alone, beside) = alone.zip(of("beside UDP", run))?;
            let share = beside / alone.max(1e-9) * 100.0;
            Some((
                format!("{alone:.0} -> {beside:.1} Mb/s: {share:.1}%"),
                share,
            ))
        };
        let nfvnice = kept("nfvnice").map(|(t, s)| (t, s >= 80.0));
        let starves = kept("normal").map(|(t, s)| (t, s < 50.0));
        vec![
            Line::of(
                "under NFVnice TCP keeps 80% of what it has alone (under the default or NFVnice, whichever is more)",
                nfvnice,
            ),
            Line::of(
                "the default starves it (paper: less than 1% is left)",
                starves,
            ),
            udp(r),
            paced(r),
        ]
    },
};

/// Where the core of hosts, generator and launcher is not what TCP lacks.
fn paced(r: &Results) -> Line {
    let [alone, beside] = PACED.map(|at| r.median(at, "nfvnice", "TCP Mb/s"));
    let default = r.median(PACED[1], "normal", "TCP Mb/s");
    let got = alone.zip(beside).zip(default).map(|((a, b), d)| {
        let share = b / a.max(1e-9) * 100.0;
        (
            format!("{a:.0} -> {b:.0} Mb/s: {share:.1}% (default: {d:.0})"),
            share >= 80.0,
        )
    });
    Line::of(
        "TCP that has no more to send than fits on the hosts' core keeps 80% of it under NFVnice",
        got,
    )
}

/// UDP has what its slowest function lets through, whoever schedules.
fn udp(r: &Results) -> Line {
    let of = |run: &str| r.median("beside UDP", run, "Mpps udp");
    let got = of("normal").zip(of("nfvnice"));
    let got = got.map(|(a, b)| (format!("{a:.4} -> {b:.4} Mpps"), b >= a * 0.9));
    Line::of(
        "UDP keeps 90% of what it has under the default (paper: all)",
        got,
    )
}

/// Sizes of frames, without check sequence.
const SIZES: [&[u16]; 5] = [&[60], &[252], &[508], &[1020], &[1514]];

/// Figure 14.
pub const STORAGE: Experiment = Experiment {
    name: "nfvnice-14",
    title: "A function that writes packets to a disk",
    shows: "Two flows pass one function, which writes the packets of one of them to a file whose bytes are on the disk \
        when a write is done (O_DSYNC): waiting for each, or behind them (`write_data`: io_uring, two buffers of 1,024 \
        packets). Under SCHED_BATCH, packets of 64 to 1,518 bytes.",
    shrunk: "20,000 packets a second of each flow, which this machine's disk has to be able to take in large writes \
        and not one by one: the paper's loads need its disks. The file is in the folder for temporary files (TMPDIR): \
        where that is memory, nothing waits, and nothing is seen. Costs are ten times the paper's.",
    published: &[(
        "NFVnice, fig. 14",
        "two flows, one of them logged, SCHED_BATCH: higher throughput at all sizes of packets; the flow that is not \
         logged goes on",
    )],
    axis: "bytes",
    plot: "Mpps",
    columns: &[
        "Mpps logged",
        "Mpps other",
        "storage waits/s",
        "p50 us",
        "p99 us",
        "cpu log",
    ],
    settings: |quick| {
        let sizes: &[&'static [u16]] = match quick {
            true => &[SIZES[0], SIZES[4]],
            false => &SIZES,
        };
        let setting = |bytes: &&'static [u16]| {
            let flow = |name: &str| Chain {
                sizes: bytes,
                ..Chain::new(name, [0], 20_000)
            };
            let n = bytes.first().copied().unwrap_or_default();
            let functions = vec![Function::logger("log", LIGHT, 0)];
            let how = |label: &str, behind| Run {
                behind,
                ..Run::sleeping(label, "batch", Kind::Apart)
            };
            let runs = vec![how("waiting", false), how("behind", true)];
            Setting {
                chains: vec![flow("logged"), flow("other")],
                // a disk that others use may have nothing done for tenths of a second
                longer: 2.0,
                ..Setting::line(f64::from(n), (n + 4).to_string(), functions, 1)
            }
            .with(runs)
        };
        sizes.iter().map(setting).collect()
    },
    lines: |r| {
        let line = |at: &&str| {
            let of = |run: &str, f: &str| r.median(at, run, f);
            let all = of("waiting", "Mpps").zip(of("behind", "Mpps"));
            let got = all.zip(of("waiting", "Mpps other").zip(of("behind", "Mpps other")));
            let got = got.map(|((a, b), (c, d))| {
                let text = format!("{a:.4} -> {b:.4} Mpps; the other flow {c:.4} -> {d:.4}");
                (text, b > a && d > c)
            });
            Line::of(
                format!(
                    "{at} bytes: written behind, both flows and the one that is not logged have more"
                ),
                got,
            )
        };
        r.settings().iter().map(line).collect()
    },
};
