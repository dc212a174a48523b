//! A benchmark as a table for people, at most 100 columns wide.

use crate::common::thousands;
use onefold_bench::measure::{ChainReport, Report, Spread};
use std::fmt::Write;

/// Widest name of a chain.
const NAME: usize = 28;

/// A figure that has as many digits as it deserves.
pub fn number(v: f64) -> String {
    match v.abs() {
        a if a < 100.0 => format!("{v:.1}"),
        a if a < 10_000.0 => format!("{v:.0}"),
        _ => thousands(v.round().max(0.0) as u64),
    }
}

fn median(s: Option<Spread>) -> String {
    s.map_or("-".into(), |s| number(s.median))
}

fn cut(s: &str) -> String {
    match s.chars().count() > NAME {
        false => s.to_string(),
        true => {
            let tail: String = s.chars().skip(s.chars().count() + 1 - NAME).collect();
            format!("\u{2026}{tail}")
        }
    }
}

/// What all figures have in common, in words.
pub fn conditions(r: &Report) -> String {
    let p = &r.parameters;
    let size = match p.size.parse::<u32>() {
        Ok(n) => format!("{n} bytes"),
        Err(_) => format!("sizes of '{}'", p.size),
    };
    let flows = match p.flows {
        1 => "1 flow".to_string(),
        n => format!("{} flows", thousands(n as u64)),
    };
    let order = match p.zipf > 0.0 {
        true => format!("Zipf {}", p.zipf),
        false => "in random order".into(),
    };
    let pings = match p.icmp > 0.0 {
        true => format!(", {:.0}% pings", p.icmp * 100.0),
        false => String::new(),
    };
    let both = if p.replies {
        ", half of them answers"
    } else {
        ""
    };
    format!(
        "{size}, {flows} {order}, {:.0}% TCP{pings}{both}; batches of {}; {} slices of {} s each, in alternation",
        p.tcp * 100.0,
        p.batch,
        p.repeats,
        p.seconds
    )
}

/// What became of a chain's packets, in words.
pub fn fate(c: &ChainReport) -> String {
    let a = &c.account;
    let t = &c.traffic;
    let known = match c.misses {
        0 if c.misses_flows() => format!("of {} of the flows", thousands(c.flows_measured as u64)),
        0 => "of all flows".to_string(),
        n => format!("hits {}, misses {}", thousands(c.hits), thousands(n)),
    };
    let mut parts = vec![
        format!("{} packets", thousands(c.packets)),
        known,
        format!(
            "{} flows ({} TCP) opened from port {}",
            thousands(t.flows as u64),
            thousands(t.tcp_flows as u64),
            t.entry
        ),
    ];
    for (n, what) in [
        (a.dropped, "dropped"),
        (a.punted, "punted"),
        (a.created, "made"),
    ] {
        if n > 0 {
            parts.push(format!("{} {what}", thousands(n)));
        }
    }
    if a.held != 0 {
        parts.push(format!("{} held", a.held));
    }
    if let (Some(hit), Some(all)) = (c.classes_hit, c.classes) {
        parts.push(format!(
            "{} of {} classes",
            thousands(hit as u64),
            thousands(all as u64)
        ));
    }
    if let Some(f) = &c.flow_table {
        let all = (f.hits + f.misses + f.others + f.shed).max(1);
        parts.push(format!(
            "flow table: knew {:.2}% of the packets while the clock ran, {:.2}% of all",
            f.measured_hits as f64 * 100.0 / f.measured_packets.max(1) as f64,
            f.hits as f64 * 100.0 / all as f64
        ));
        if f.by_class > 0 {
            parts.push(format!(
                "{:.2}% without an entry ({} ways)",
                f.by_class as f64 * 100.0 / all as f64,
                thousands(f.classes as u64)
            ));
        }
        if f.by_class < f.hits {
            parts.push(format!(
                "{} entries in {} places of {} bytes",
                thousands(f.entries as u64),
                thousands(f.places as u64),
                f.bytes_per_place
            ));
        }
        if f.shed > 0 {
            // warm-up included, as the counts are
            let ns = c.ns_per_packet.as_ref().map_or(f64::INFINITY, |s| s.median);
            parts.push(format!(
                "{} dropped at the door: of no known flow; {} packets of unknown flows let in each second",
                thousands(f.shed),
                thousands((f.misses as f64 * 1e9 / (all as f64 * ns)) as u64)
            ));
        }
        for (why, n) in f.not_remembered.iter().filter(|c| c.1 * 100 > all) {
            parts.push(format!("{} not remembered: {why}", thousands(*n)));
        }
    }
    if !c.conserved {
        parts.push("NOT ALL PACKETS ACCOUNTED FOR".into());
    }
    parts.join(", ")
}

/// What the payload matcher takes of a packet's time, in words.
pub fn matcher(c: &ChainReport) -> Option<String> {
    let m = c.matcher.as_ref()?;
    let share = c.matcher_share.map_or(String::new(), |s| {
        format!(" ({:.0}% of what is above the ceiling)", s * 100.0)
    });
    Some(format!(
        "{} {}: payload matcher alone {} ns per packet{share}: {:.2} payloads of {} bytes, {} ns each; {}",
        c.name,
        c.mode,
        number(m.ns_per_packet.median),
        m.scans_per_packet,
        number(m.bytes_per_scan),
        number(m.ns_per_scan.median),
        m.engines.join("; "),
    ))
}

/// Lines of at most 100 columns, those after the first indented.
pub fn wrapped(s: &str) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in s.split(' ') {
        let n = word.chars().count();
        if column > 0 && column + 1 + n > 100 {
            out.push_str("\n    ");
            column = 4;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += n;
    }
    out
}

/// The table.
pub fn table(r: &Report) -> String {
    let mut t = String::new();
    let m = &r.machine;
    let core = m
        .core
        .map_or("not bound to a core".into(), |c| format!("on core {c}"));
    // writing to a String cannot fail
    let _ = writeln!(t, "{}", wrapped(&conditions(r)));
    let _ = writeln!(t, "{}", wrapped(&format!("{}; {core}", m.line())));
    let name = r.chains.iter().map(|c| c.name.chars().count()).max();
    let name = name.unwrap_or(0).clamp(5, NAME);
    let _ = writeln!(
        t,
        "\nnanoseconds of processor time per packet\n\
         {:name$} {:11} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6}",
        "chain",
        "mode",
        "above",
        "median",
        "min",
        "max",
        "ceiling",
        "swap",
        "cycles",
        "Mpps",
        "left"
    );
    for c in &r.chains {
        let spread = c.ns_per_packet;
        let _ = writeln!(
            t,
            "{:name$} {:11} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>7} {:>6} {:>6}",
            cut(&c.name),
            c.mode,
            median(c.above_ceiling_ns),
            median(spread),
            spread.map_or("-".into(), |s| number(s.min)),
            spread.map_or("-".into(), |s| number(s.max)),
            median(c.ceiling_ns),
            median(c.mac_swap_ns),
            c.cycles_per_packet
                .map_or("-".into(), |s| format!("{:.0}", s.median)),
            c.mpps.map_or("-".into(), |s| format!("{:.2}", s.median)),
            format!("{:.1}%", c.share_out * 100.0),
        );
    }
    let _ = writeln!(
        t,
        "\nabove: less the ceiling of the same round. ceiling: the same packets, copied and looked at; swap:\n\
         their MAC addresses exchanged. cycles: of the time stamp counter (no hardware counter is read)."
    );
    for c in &r.chains {
        let _ = writeln!(
            t,
            "{}",
            wrapped(&format!("{} {}: {}", c.name, c.mode, fate(c)))
        );
    }
    for c in &r.chains {
        if let Some(m) = matcher(c) {
            let _ = writeln!(t, "{}", wrapped(&m));
        }
    }
    if r.interrupted {
        let _ = writeln!(
            t,
            "interrupted: {} of {} rounds",
            r.rounds, r.parameters.repeats
        );
    }
    t
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_few_digits() {
        let all: Vec<String> = [1.25, 99.94, 123.4, 9999.0, 22_931.2].map(number).into();
        assert_eq!(all, ["1.2", "99.9", "123", "9999", "22,931"]);
        let long = wrapped(&"word ".repeat(60));
        assert!(long.lines().count() == 4 && long.lines().all(|l| l.chars().count() <= 100));
        assert_eq!(cut(&"x".repeat(40)).chars().count(), NAME);
    }
}
