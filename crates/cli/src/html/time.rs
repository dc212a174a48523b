//! Plots of what happened when: bars whose labels are text of the page, so that they can be read at any width.

use super::esc;
use crate::common::thousands;
use crate::history::{History, Series};
use serde_json::{Value, json};
use std::fmt::Write;

/// Reasons with a colour of their own, those with most packets; all others share one.
const SHOWN: usize = 7;

/// A colour's packets, by stretch of time.
struct Layer<'a> {
    name: &'a str,
    counts: Vec<u64>,
}

impl Layer<'_> {
    fn at(&self, i: usize) -> u64 {
        self.counts.get(i).copied().unwrap_or(0)
    }
    fn sum(&self) -> u64 {
        self.counts.iter().sum()
    }
}

/// The reasons with most packets, and all others together.
fn layers(h: &History) -> Vec<Layer<'_>> {
    let mut all: Vec<(&String, &Series)> = h.drops.iter().filter(|(_, s)| s.sum() > 0).collect();
    all.sort_by_key(|(_, s)| std::cmp::Reverse(s.sum()));
    let few = all.len() <= SHOWN + 1;
    let (own, rest) = all.split_at(if few { all.len() } else { SHOWN });
    let own = own.iter().map(|(name, s)| Layer {
        name,
        counts: s.counts().to_vec(),
    });
    let mut layers: Vec<Layer<'_>> = own.collect();
    if !rest.is_empty() {
        let mut counts = vec![0; h.len()];
        for (_, s) in rest {
            for (sum, n) in counts.iter_mut().zip(s.counts()) {
                *sum += n;
            }
        }
        layers.push(Layer {
            name: "all others",
            counts,
        });
    }
    layers
}

/// A time, as short as it can be told beside others of this plot.
fn seconds(s: f64, width: f64) -> String {
    match width {
        w if w < 0.01 => format!("{s:.4} s"),
        w if w < 1.0 => format!("{s:.2} s"),
        _ => format!("{s:.0} s"),
    }
}

/// Packets a second.
fn rate(v: f64) -> String {
    match v {
        v if v >= 1e7 => format!("{:.1} million packets/s", v / 1e6),
        v if v >= 10.0 => format!("{} packets/s", thousands(v.round() as u64)),
        v => format!("{v:.2} packets/s"),
    }
}

/// The frame of a plot around what is drawn in it.
fn framed(b: &mut String, h: &History, (most, title): (u64, &str), drawn: &str) {
    let n = h.len();
    // writing to a String cannot fail
    let _ = write!(
        b,
        "<figure class=\"time\"><div class=\"axis\"><span>{}</span></div>\
         <svg viewBox=\"0 0 {n} 100\" preserveAspectRatio=\"none\" xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" \
         aria-label=\"{}\"><g class=\"grid\"><line x1=\"0\" x2=\"{n}\" y1=\"0\" y2=\"0\"/>\
         <line x1=\"0\" x2=\"{n}\" y1=\"50\" y2=\"50\"/></g>{drawn}</svg>\
         <div class=\"axis\"><span>0 s</span><span>{}</span><span>{}</span></div></figure>",
        rate(most as f64 / h.seconds()),
        esc(title),
        seconds(n as f64 * h.seconds() / 2.0, h.seconds()),
        seconds(n as f64 * h.seconds(), h.seconds()),
    );
}

/// What each colour is.
fn key<'a>(b: &mut String, names: impl Iterator<Item = (&'a str, u64, usize)>) {
    b.push_str("<ul class=\"key\">");
    for (name, sum, colour) in names {
        let _ = write!(
            b,
            "<li><i class=\"t{colour}\"></i>{} <b>{}</b></li>",
            esc(name),
            thousands(sum)
        );
    }
    b.push_str("</ul>");
}

/// Drops by reason, a bar for each stretch of time.
pub fn drops(b: &mut String, h: &History) {
    let layers = layers(h);
    let n = h.len();
    let height = |i: usize| layers.iter().map(|l| l.at(i)).sum::<u64>();
    let most = (0..n).map(height).max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let mut drawn = String::new();
    for i in 0..n {
        let mut below = 0;
        for (colour, l) in layers.iter().enumerate().filter(|(_, l)| l.at(i) > 0) {
            let count = l.at(i);
            let (low, high) = (below, below + count);
            below = high;
            let y = |v: u64| 100.0 - v as f64 * 100.0 / most as f64;
            let _ = write!(
                drawn,
                "<rect class=\"t{colour}\" data-n=\"{count}\" data-reason=\"{}\" \
                 x=\"{i}\" width=\"1\" y=\"{:.3}\" height=\"{:.3}\">\
                 <title>{} to {}: {}: {} packets</title></rect>",
                esc(l.name),
                y(high),
                y(low) - y(high),
                seconds(i as f64 * h.seconds(), h.seconds()),
                seconds((i + 1) as f64 * h.seconds(), h.seconds()),
                esc(l.name),
                thousands(count)
            );
        }
    }
    framed(b, h, (most, "drops over time"), &drawn);
    let names = layers.iter().enumerate();
    key(b, names.map(|(i, l)| (l.name, l.sum(), i)));
}

/// Packets in, out and dropped, a line for each.
pub fn packets(b: &mut String, h: &History) {
    let n = h.len();
    let mut dropped = Layer {
        name: "dropped",
        counts: vec![0; n],
    };
    for s in h.drops.values() {
        for (sum, c) in dropped.counts.iter_mut().zip(s.counts()) {
            *sum += c;
        }
    }
    let of = |name, s: &Series| Layer {
        name,
        counts: s.counts().to_vec(),
    };
    // colours that no reason for drops has in the plot above, and the first one of those
    let lines = [
        (of("in", &h.packets_in), 8),
        (of("out", &h.packets_out), 9),
        (dropped, 0),
    ];
    let each = || lines.iter().flat_map(|(l, _)| &l.counts);
    let most = each().copied().max().unwrap_or(0);
    if most == 0 {
        return;
    }
    let mut drawn = String::new();
    for (l, colour) in &lines {
        let _ = write!(drawn, "<polyline class=\"t{colour}\" points=\"");
        for i in 0..n {
            let y = 100.0 - l.at(i) as f64 * 100.0 / most as f64;
            let _ = write!(drawn, "{i},{y:.2} {},{y:.2} ", i + 1);
        }
        drawn.push_str("\"/>");
    }
    framed(b, h, (most, "packets over time"), &drawn);
    key(b, lines.iter().map(|(l, c)| (l.name, l.sum(), *c)));
}

/// The same for machines.
pub fn json(h: &History) -> Value {
    let drops = h.drops.iter().map(|(r, s)| (r.clone(), s.counts().into()));
    json!({
        "stretch_seconds": h.seconds(),
        "stretches": h.len(),
        "in": h.packets_in.counts(),
        "out": h.packets_out.counts(),
        "drops": drops.collect::<serde_json::Map<_, _>>(),
    })
}
