//! What a benchmark tells: for machines as JSON, for others as whoever prints it likes.

use super::aim::Aimed;
use super::alternate::{Measured, Outcome, Sample};
use super::machine::Machine;
use super::matcher::MatcherReport;
use super::subject::Account;
use onefold_engine::flow::FlowStats;
use serde::Serialize;

/// Median and extremes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Spread {
    /// Half of the values are below it.
    pub median: f64,
    /// The least.
    pub min: f64,
    /// The greatest.
    pub max: f64,
}

impl Spread {
    /// Of these values; `None` of none.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Spread> {
        let mut v: Vec<f64> = values.into_iter().collect();
        v.sort_by(f64::total_cmp);
        let (min, max) = (*v.first()?, *v.last()?);
        let upper = v.get(v.len() / 2).copied()?;
        let median = match v.len() % 2 {
            1 => upper,
            _ => (v.get(v.len() / 2 - 1).copied()? + upper) / 2.0,
        };
        Some(Spread { median, min, max })
    }
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Parameters {
    /// Frame lengths: bytes, or the name of a model.
    pub size: String,
    /// Flows asked for.
    pub flows: usize,
    /// Skew; 0: rounds in which each flow comes once.
    pub zipf: f64,
    /// Share of flows that are TCP.
    pub tcp: f64,
    /// Share of flows that are pings.
    pub icmp: f64,
    /// Half of the packets are answers.
    pub replies: bool,
    /// Packets handed over together.
    pub batch: usize,
    /// Seconds of each slice.
    pub seconds: f64,
    /// Slices of each subject.
    pub repeats: usize,
    /// Seed.
    pub seed: u64,
    /// Buffers that packets are copied to in turn, and bytes from one to the next.
    pub buffers: usize,
    /// See `buffers`.
    pub buffer_stride: usize,
}

/// The packets of a chain.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct TrafficReport {
    /// The port that they enter at.
    pub entry: String,
    /// Flows that there are; all of them were opened before the clock started.
    pub flows: usize,
    /// Of these TCP, opened by a handshake.
    pub tcp_flows: usize,
    /// Different packets.
    pub templates: usize,
    /// Mean length of a packet.
    pub bytes: f64,
    /// Packets on the way back among them.
    pub replies: usize,
    /// Flows that were tried.
    pub tried: u64,
    /// Filters of classes that flows were aimed at, and how many of them took one.
    pub filters: usize,
    /// See `filters`.
    pub filters_hit: usize,
}

impl TrafficReport {
    /// Of traffic that enters at this port.
    pub fn new(a: &Aimed, entry: &str) -> TrafficReport {
        let templates: usize = a.lanes.iter().map(|l| l.templates.len()).sum();
        let bytes = (a.lanes.iter())
            .map(|l| {
                (0..l.templates.len())
                    .map(|i| l.templates.get(i).len())
                    .sum::<usize>()
            })
            .sum::<usize>();
        TrafficReport {
            entry: entry.to_string(),
            flows: a.flows,
            tcp_flows: a.tcp_flows,
            templates,
            bytes: bytes as f64 / templates.max(1) as f64,
            replies: a.lanes.iter().skip(1).map(|l| l.templates.len()).sum(),
            tried: a.tried,
            filters: a.spots.0,
            filters_hit: a.spots.1,
        }
    }
}

/// One chain in one mode.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ChainReport {
    /// The chain, as on the command line.
    pub name: String,
    /// How it was executed.
    pub mode: String,
    /// Million packets per second of processor time.
    pub mpps: Option<Spread>,
    /// Processor time.
    pub ns_per_packet: Option<Spread>,
    /// Time on the wall; above processor time where the machine had other work.
    pub wall_ns_per_packet: Option<Spread>,
    /// Processor time in cycles of the time stamp counter.
    pub cycles_per_packet: Option<Spread>,
    /// The same packets, copied and looked at.
    pub ceiling_ns: Option<Spread>,
    /// The same packets with their MAC addresses exchanged.
    pub mac_swap_ns: Option<Spread>,
    /// Processor time less the ceiling of the same round.
    pub above_ceiling_ns: Option<Spread>,
    /// Packets measured.
    pub packets: u64,
    /// How often each different packet came, on average, while the clock ran.
    pub rounds_of_packets: f64,
    /// Flows that these packets are of, of [`TrafficReport::flows`] that were opened.
    pub flows_measured: usize,
    /// Packets of flows that were opened before, and of others.
    pub hits: u64,
    /// See `hits`.
    pub misses: u64,
    /// Beside packets of flows that had not been opened: share of the others' packets that came out, in the buffers
    /// that they came in.
    pub opened_out: Option<f64>,
    /// What became of all packets, warm-up included.
    pub account: Account,
    /// Of those that came in, the share that left.
    pub share_out: f64,
    /// Is every packet accounted for?
    pub conserved: bool,
    /// Classes of the program that took packets, opening of flows included, of how many.
    pub classes_hit: Option<usize>,
    /// See `classes_hit`.
    pub classes: Option<usize>,
    /// What the flow table did, if there is one.
    pub flow_table: Option<FlowReport>,
    /// The payload matchers alone, if packets come to one.
    pub matcher: Option<MatcherReport>,
    /// Of the time above the ceiling (medians), what the payload matchers take.
    pub matcher_share: Option<f64>,
    /// The packets.
    pub traffic: TrafficReport,
    /// Slice by slice.
    pub samples: Vec<Sample>,
}

/// A flow table's packets, warm-up included where nothing else is said, and its size at the end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FlowReport {
    /// Packets whose way was known while the clock ran.
    pub measured_hits: u64,
    /// All packets that it was given while the clock ran.
    pub measured_packets: u64,
    /// Packets whose way was known.
    pub hits: u64,
    /// Of these, those that needed no entry.
    pub by_class: u64,
    /// Ways without entries.
    pub classes: usize,
    /// Packets that the program ran, and an entry could have been there for.
    pub misses: u64,
    /// Packets that cannot have an entry.
    pub others: u64,
    /// Packets of unknown flows that were dropped because these had had their share of time.
    pub shed: u64,
    /// Entries that had to make room.
    pub evicted: u64,
    /// Entries at the end.
    pub entries: usize,
    /// Places for entries.
    pub places: usize,
    /// Bytes of the whole table.
    pub bytes: usize,
    /// The most that they can be, whatever arrives.
    pub most_bytes: usize,
    /// Bytes of an entry with its share of the index and its last use.
    pub bytes_per_place: usize,
    /// Why packets that could have had an entry have none, most frequent first.
    pub not_remembered: Vec<(&'static str, u64)>,
}

impl FlowReport {
    fn new(
        (f, mut why): (FlowStats, Vec<(&'static str, u64)>),
        (measured_hits, measured_packets): (u64, u64),
    ) -> FlowReport {
        why.sort_by_key(|c| std::cmp::Reverse(c.1));
        FlowReport {
            measured_hits,
            measured_packets,
            hits: f.hits,
            by_class: f.by_class,
            classes: f.classes,
            misses: f.misses,
            others: f.others,
            shed: f.shed,
            evicted: f.evicted,
            entries: f.entries,
            places: f.places,
            bytes: f.bytes,
            most_bytes: f.most_bytes,
            bytes_per_place: f.bytes.div_ceil(f.places.max(1)),
            not_remembered: why,
        }
    }
}

impl ChainReport {
    /// Of what was measured.
    pub fn new(
        m: &Measured,
        traffic: TrafficReport,
        matcher: Option<MatcherReport>,
        classes: Option<usize>,
        tsc_ghz: Option<f64>,
    ) -> ChainReport {
        let of = |f: fn(&Sample) -> f64| Spread::of(m.samples.iter().map(f));
        let packets: u64 = m.samples.iter().map(|s| s.packets).sum();
        // what is known is how many of all that were sent; they come alike at all times
        let strange = m.strangers as f64 / m.offered.max(1) as f64;
        let strangers = ((packets as f64 * strange).round() as u64).min(packets);
        let above_ceiling_ns = of(|s| s.ns - s.ceiling_ns);
        let matcher_share = (matcher.as_ref().zip(above_ceiling_ns))
            .map(|(m, above)| m.ns_per_packet.median / above.median.max(1e-3));
        ChainReport {
            name: m.name.0.clone(),
            mode: m.name.1.to_string(),
            mpps: of(|s| 1000.0 / s.ns.max(1e-3)),
            ns_per_packet: of(|s| s.ns),
            wall_ns_per_packet: of(|s| s.wall_ns),
            cycles_per_packet: tsc_ghz.and_then(|g| Spread::of(m.samples.iter().map(|s| s.ns * g))),
            ceiling_ns: of(|s| s.ceiling_ns),
            mac_swap_ns: of(|s| s.mac_swap_ns),
            above_ceiling_ns,
            packets,
            rounds_of_packets: packets as f64 / traffic.templates.max(1) as f64,
            flows_measured: m.flows_seen,
            hits: packets - strangers,
            misses: strangers,
            opened_out: m.opened.map(|(sent, out)| out as f64 / sent as f64),
            account: m.account,
            share_out: m.account.share_out(),
            conserved: m.conserved,
            classes_hit: m.classes_hit,
            classes: m.classes_hit.and(classes),
            flow_table: (m.flow.clone())
                .map(|f| FlowReport::new(f, m.flow_hits.unwrap_or_default())),
            matcher,
            matcher_share,
            traffic,
            samples: m.samples.clone(),
        }
    }
}

impl ChainReport {
    /// The packets are of fewer flows than there are (strangers have none that could be counted).
    pub fn misses_flows(&self) -> bool {
        self.misses == 0 && self.packets > 0 && self.flows_measured < self.traffic.flows
    }
    /// Fewer packets than a million, and than ten of each kind.
    pub fn is_short(&self) -> bool {
        self.packets < 1_000_000 && self.rounds_of_packets < 10.0
    }
}

/// All of it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Every chain in every mode.
    pub chains: Vec<ChainReport>,
    /// What it ran on.
    pub machine: Machine,
    /// What was asked for.
    pub parameters: Parameters,
    /// Slices in the order in which they were measured.
    pub order: Vec<String>,
    /// Rounds that were finished.
    pub rounds: usize,
    /// It was stopped early.
    pub interrupted: bool,
    /// Remarks.
    pub warnings: Vec<String>,
}

impl Report {
    /// Names of slices in the order in which they were measured.
    pub fn order_of(o: &Outcome) -> Vec<String> {
        o.order.iter().map(|(c, s)| format!("{c} {s}")).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn medians_and_extremes() {
        let s = |v: &[f64]| Spread::of(v.iter().copied());
        assert_eq!(s(&[]), None);
        let one = Spread {
            median: 3.0,
            min: 3.0,
            max: 3.0,
        };
        assert_eq!(s(&[3.0]), Some(one));
        let odd = Spread {
            median: 2.0,
            min: 1.0,
            max: 9.0,
        };
        assert_eq!(s(&[9.0, 1.0, 2.0]), Some(odd));
        let even = Spread {
            median: 3.0,
            min: 1.0,
            max: 9.0,
        };
        assert_eq!(s(&[9.0, 1.0, 2.0, 4.0]), Some(even));
    }
}
