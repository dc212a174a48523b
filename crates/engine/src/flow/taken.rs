//! Which level takes a packet, and why: for those who want to know of one.

use crate::flow::policy::admission::OVERLOAD;
use crate::flow::runner::FlowRunner;
use crate::flow::stats::FlowStats;
use crate::level::Level;
use crate::program::report::PuntCount;
use crate::program::report::Report;
use onefold_element::ElemId;
use onefold_packet::Timestamp;

/// The level that took a packet, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Taken {
    /// Where it went in.
    pub level: Level,
    /// Why there, and what is remembered of it, in words.
    pub why: String,
}

impl FlowRunner {
    /// As [`FlowRunner::inject`]. Which level took the packet?
    pub fn inject_and_tell(&mut self, source: ElemId, data: &[u8], at: Timestamp) -> Taken {
        let (stats, causes) = (self.stats, self.causes.clone());
        let (report, levels) = (self.report(), self.levels());
        self.inject(source, data, at);
        let after = self.levels();
        let level = (Level::ALL.into_iter()).find(|l| after[*l as usize] > levels[*l as usize]);
        let level = level.unwrap_or(Level::Reference);
        let cause = self.causes.iter().find(|(why, n)| {
            let before = causes.iter().find(|c| c.0 == *why);
            *n > before.map_or(0, |c| c.1)
        });
        let why = match level {
            Level::Flow if self.stats.by_class > stats.by_class => {
                "all packets of its class go one way, which is known".to_string()
            }
            Level::Flow => "the way of its flow is known".to_string(),
            Level::Reference if self.stats.shed > stats.shed => OVERLOAD.to_string(),
            Level::Reference if self.report().chosen > report.chosen => {
                "it costs least for the packets of this port".to_string()
            }
            Level::Reference => "there is no program for the graph as it is".to_string(),
            Level::Program => self.why_program(&stats, &report, cause.map(|c| c.0)),
        };
        Taken { level, why }
    }

    /// Why the program took a packet, and what is remembered of it.
    fn why_program(&self, stats: &FlowStats, report: &Report, cause: Option<&str>) -> String {
        let now = &self.stats;
        let mut why = match cause {
            _ if now.passed_by > stats.passed_by => {
                "the flow table is not asked for the packets of this port".to_string()
            }
            _ if now.others > stats.others => {
                "it is of no flow that the table could hold (no IP, options, a fragment, a length that lies)"
                    .to_string()
            }
            _ if now.made > stats.made => {
                "the first packet of its flow; the next ones go as it went".to_string()
            }
            Some(why) => format!("the way that it goes is not remembered: {why}"),
            None => "its flow is not known".to_string(),
        };
        let punts = self.report().punts.into_iter().filter(|p| {
            let same =
                |q: &&PuntCount| q.element == p.element && q.cause == p.cause && q.asked == p.asked;
            p.packets > report.punts.iter().find(same).map_or(0, |q| q.packets)
        });
        for p in punts {
            why += &match p.asked {
                true => format!("; {} was asked: {}", p.element, p.cause),
                false => format!(
                    "; the reference graph took over at {}: {}",
                    p.element, p.cause
                ),
            };
        }
        why
    }
}
