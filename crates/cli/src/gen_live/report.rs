//! What is told of the traffic.

use super::frames::Made;
use crate::cmd::generate::Args;
use crate::common::thousands;
use onefold_packet::EtherAddr;
use onefold_traffic::{Bound, Histogram, Rate, Trial, Tried};
use serde_json::{Value, json};

/// What a search has found: packets a second, why no more, and its trials.
pub type Searched = (Option<f64>, Bound, Vec<Tried>);

/// What is known besides the trial.
pub struct Told<'a> {
    /// The frames.
    pub made: &'a Made,
    /// As asked for.
    pub args: &'a Args,
    /// By port: its MAC address, and the one that frames are sent to.
    pub ports: Vec<(EtherAddr, Option<EtherAddr>)>,
    /// Packets that opened flows.
    pub openings: u64,
    /// Different frames.
    pub frames: usize,
    /// Flows.
    pub flows: usize,
    /// Mean length.
    pub mean_size: f64,
    /// Frames that were made longer.
    pub longer: u64,
    /// Of a search.
    pub found: Option<Searched>,
}

/// A sender that sends less than this share of what was asked for is said to be behind.
const KEPT_UP: f64 = 0.98;
/// Where the plot has a line.
const SHARES: [(&str, f64); 9] = [
    ("50", 0.5),
    ("75", 0.75),
    ("90", 0.9),
    ("95", 0.95),
    ("99", 0.99),
    ("99.5", 0.995),
    ("99.9", 0.999),
    ("99.99", 0.9999),
    ("100", 1.0),
];
/// Characters of the longest line of the plot.
const WIDE: f64 = 40.0;

/// A trial of a search, in a line.
pub fn tried(n: usize, t: &Tried) -> String {
    let asked = t.asked_pps.map_or("max".to_string(), pps);
    let verdict = match (t.passed, t.lost) {
        (true, _) => "passed".to_string(),
        (false, 0) => format!("{:.0} ms behind at the end", t.queued_seconds * 1e3),
        (false, _) => "too much lost".to_string(),
    };
    format!(
        "trial {n:>2}: {asked:>11} pps asked, {:>11} sent, {:>9} of {} lost ({:.3}%): {verdict}",
        pps(t.sent_pps),
        thousands(t.lost),
        thousands(t.sent),
        t.loss * 100.0
    )
}

fn pps(rate: f64) -> String {
    match rate < 10_000.0 {
        true => format!("{rate:.1}"),
        false => thousands(rate.round() as u64),
    }
}

/// Nanoseconds in a unit that suits them.
fn time(ns: u64) -> String {
    match ns {
        0..10_000 => format!("{ns} ns"),
        10_000..10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        10_000_000..10_000_000_000 => format!("{:.1} ms", ns as f64 / 1e6),
        _ => format!("{:.1} s", ns as f64 / 1e9),
    }
}

/// The percentiles of latency as lines, whose lengths are logarithms.
fn plot(intended: &Histogram, sent: &Histogram) -> Vec<String> {
    let values = SHARES.map(|(name, share)| {
        let of = |h: &Histogram| h.percentile(share).unwrap_or(0);
        (name, of(intended), of(sent))
    });
    let log = |v: u64| (v.max(1) as f64).ln();
    let (least, most) = (log(values[0].1) - 0.5, log(values[8].1));
    let mut lines = vec!["  %        from intended     from sent".to_string()];
    for (name, a, b) in values {
        let n = (log(a) - least) / (most - least).max(0.01) * WIDE;
        let bar = "#".repeat(n.round().clamp(1.0, WIDE) as usize);
        lines.push(format!(
            "  {name:<6} {:>15} {:>13}  {bar}",
            time(a),
            time(b)
        ));
    }
    lines
}

impl Told<'_> {
    fn asked(&self) -> Option<f64> {
        match self.args.live.rate {
            Some(Rate::Pps(p)) => Some(p),
            _ => None,
        }
    }

    /// Says on standard error what is to be known before a figure is believed.
    pub fn warn(&self, t: &Trial) {
        let mut all = self.made.warnings.clone();
        let c = &t.counts;
        if let Some(asked) = self
            .asked()
            .filter(|a| self.found.is_none() && t.rate() < a * KEPT_UP)
            && !t.interrupted
        {
            let rest = self.args.live.seconds.is_some() || t.behind > 1_000_000_000;
            if rest {
                all.push(format!(
                    "{} packets per second were asked for and {} sent: the generator or its port is the bound",
                    pps(asked),
                    pps(t.rate())
                ));
            }
        }
        if t.own_losses() > 0 {
            let n = thousands(t.own_losses());
            all.push(format!(
                "{n} packets were lost at the generator's own ports (see below): they are counted as lost"
            ));
        }
        if c.sent == 0 && c.unstamped > 0 {
            all.push(
                "no packet had room for a stamp (18 bytes of payload): none is recognised".into(),
            );
        }
        if c.sent > 0 && c.received == 0 {
            all.push(
                "nothing has come back; is the chain running, do frames go to its MAC address (--to-mac, --gateway), \
                 and is the port at which they leave it one of --port?"
                    .into(),
            );
        }
        for w in all {
            eprintln!("warning: {w}");
        }
    }

    /// The JSON object.
    pub fn json(&self, t: &Trial) -> Value {
        let c = &t.counts;
        let mut ports = serde_json::Map::new();
        for (p, (mac, to)) in t.ports.iter().zip(&self.ports) {
            let lost: serde_json::Map<_, _> = (p.lost.iter())
                .map(|l| (l.reason.to_string(), l.packets.into()))
                .collect();
            ports.insert(
                p.name.clone(),
                json!({
                    "mac": mac.to_string(),
                    "to_mac": to.map(|m| m.to_string()),
                    "sent": { "packets": p.sent.0, "bytes": p.sent.1 },
                    "received": { "packets": p.received.0, "bytes": p.received.1 },
                    "lost": lost,
                }),
            );
        }
        let search = self.found.as_ref().map(|(pps, bound, trials)| {
            json!({
                "throughput_pps": pps,
                "bound": bound,
                "loss": self.args.live.loss,
                "step": self.args.live.step,
                "trial_seconds": self.args.live.trial.as_secs_f64(),
                "trials": trials,
            })
        });
        let received = c.received as f64 / t.seconds.max(1e-9);
        json!({
            "sent": c.sent,
            "received": c.received,
            "lost": c.lost(),
            "loss": c.loss(),
            "reordered": c.reordered,
            "reordered_in_flows": c.reordered_in_flows,
            "duplicates": c.duplicates,
            "corrupted": c.corrupted,
            "late": c.late,
            "unstamped": c.unstamped,
            "foreign": c.foreign,
            "openings": self.openings,
            "latency_ns": t.from_intended.told(),
            "latency_from_sent_ns": t.from_sent.told(),
            "behind_ns": t.behind,
            "rate": { "asked_pps": self.asked(), "sent_pps": t.rate(), "received_pps": received },
            "seconds": t.seconds,
            "flows": self.flows,
            "frames": self.frames,
            "mean_size": self.mean_size,
            "longer": self.longer,
            "seed": self.args.gen_args.seed,
            "for": self.made.aim.as_ref().map(|(chain, port)| json!({ "chain": chain, "port": port })),
            "ports": ports,
            "search": search,
            "interrupted": t.interrupted,
        })
    }

    /// The same for people.
    pub fn print(&self, t: &Trial) {
        let c = &t.counts;
        if let Some((rate, bound, _)) = &self.found {
            let lost = self.args.live.loss * 100.0;
            let why = match bound {
                Bound::Loss => "packets are lost at higher rates",
                Bound::Generator => "the generator or its port sends no more",
                Bound::Asked => "no more was asked for (--rate)",
                Bound::Nothing => "no rate that was tried passed",
            };
            match rate {
                Some(r) => crate::say!(
                    "throughput at {lost}% loss at most: {} packets per second; {why}",
                    pps(*r)
                ),
                None => crate::say!("throughput at {lost}% loss at most: not found; {why}"),
            }
        }
        let asked = self.asked().filter(|_| self.found.is_none());
        let asked = asked.map_or(String::new(), |a| format!(" ({} asked for)", pps(a)));
        crate::say!(
            "sent        {:>13} packets of {} flows, {:.0} bytes on average, {} per second{asked}, {:.2} s",
            thousands(c.sent + c.unstamped),
            thousands(self.flows as u64),
            self.mean_size,
            pps(t.rate()),
            t.seconds
        );
        crate::say!("received    {:>13}", thousands(c.received));
        crate::say!(
            "lost        {:>13}  {:.4}%",
            thousands(c.lost()),
            c.loss() * 100.0
        );
        crate::say!(
            "reordered   {:>13}  in flows {}",
            thousands(c.reordered),
            thousands(c.reordered_in_flows)
        );
        crate::say!("duplicates  {:>13}", thousands(c.duplicates));
        crate::say!("corrupted   {:>13}", thousands(c.corrupted));
        let more = [
            (
                "late        ",
                c.late,
                "came after a million more had been sent, counted as lost",
            ),
            (
                "unstamped   ",
                c.unstamped,
                "sent without a stamp, not recognised",
            ),
            ("foreign     ", c.foreign, "others' packets that came"),
            ("opening     ", self.openings, "sent before, to open flows"),
            (
                "made longer ",
                self.longer,
                "frames, so that a stamp has room",
            ),
        ];
        for (name, n, what) in more.iter().filter(|m| m.1 > 0) {
            crate::say!("{name}{:>13}  {what}", thousands(*n));
        }
        for p in &t.ports {
            for l in &p.lost {
                crate::say!(
                    "port {} lost {} packets: {}",
                    p.name,
                    thousands(l.packets),
                    l.reason
                );
            }
        }
        if !t.from_intended.is_empty() {
            crate::say!(
                "latency (the latest packet was sent {} after its time)",
                time(t.behind)
            );
            for line in plot(&t.from_intended, &t.from_sent) {
                crate::say!("{line}");
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plot_is_as_wide_as_said_and_grows() {
        let mut h = Histogram::default();
        for v in [1000, 2000, 3000, 1_000_000] {
            h.record(v);
        }
        let lines = plot(&h, &h);
        let bars: Vec<usize> = lines.iter().map(|l| l.matches('#').count()).collect();
        assert_eq!(bars[0], 0);
        assert!(bars[1..].windows(2).all(|w| w[0] <= w[1]), "{bars:?}");
        assert_eq!(bars[9], WIDE as usize);
        assert!(lines[9].contains("1000.0 us"), "{}", lines[9]);
        // nothing but one value
        let mut one = Histogram::default();
        one.record(0);
        assert_eq!(plot(&one, &one).len(), 10);
    }
}
