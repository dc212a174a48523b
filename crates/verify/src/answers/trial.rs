//! Packets that answer a question with yes, looked for and tried on the chain itself.

use super::ask::{Answer, Candidate, Question};
use super::behind::Back;
use super::differ::Compared;
use super::filters::{Exists, exists};
use super::tries::leaves;
use crate::generate::directed::Directed;
use crate::generate::hints::Hints;
use crate::generate::read::Seen;
use crate::generate::solve::Maker;
use crate::generate::tables::Tables;
use crate::generate::traffic::Traffic;
use crate::generate::{Port, Source};
use crate::reach::Reach;
use crate::reach::proved::Proved;
use crate::rng::Rng;
use crate::subject::Outputs;
use onefold_element::ElemId;
use onefold_packet::Timestamp;
use onefold_synth::Program;
use onefold_synth::program::{Filter, Stage};
use std::sync::Arc;

/// Frames that are tried for one class.
const FRAMES: usize = 12;
/// Packets made for classes behind others.
const HUNTED: u64 = 20_000;
/// Of those, such as are tried by themselves.
const TRIED: u64 = 4_000;

/// Packets through the chain as it begins.
pub(super) struct Trial<'a> {
    c: &'a Compared<'a>,
    q: &'a Question,
    packets: &'a [Filter],
    maker: Maker,
}

impl<'a> Trial<'a> {
    pub(super) fn new(c: &'a Compared<'a>, q: &'a Question, packets: &'a [Filter]) -> Trial<'a> {
        let mut maker = Maker::default();
        maker.tables = Tables::of(c.graph, c.program);
        Trial {
            c,
            q,
            packets,
            maker,
        }
    }

    fn port(&self, source: ElemId) -> Option<&'a str> {
        let p = self.c.ports.iter().find(|p| p.source == Some(source));
        p.map(|p| p.name.as_str())
    }

    /// Is it one of the packets that are asked about?
    fn asked(&self, frame: &[u8]) -> bool {
        let seen = Seen::arrive(frame, 0);
        self.packets.iter().any(|f| seen.fits(f).is_ok())
    }

    /// Is what left what was asked for?
    fn wanted(&self, port: &str, frame: &[u8]) -> bool {
        if !self.q.to.iter().any(|t| t == port) {
            return false;
        }
        let Some(v) = crate::frame::view(frame) else {
            return false;
        };
        let kind = if self.q.six { 0x86dd } else { 0x0800 };
        let seen = Seen::arrive(frame, 0);
        v.ether_type == kind
            && self.q.delivered.iter().all(|(f, set)| {
                let (bit, bits) = f.place(self.q.six);
                set.contains(seen.bits(v.net as i32 * 8 + bit, bits))
            })
    }

    fn yes(&self, source: ElemId, frame: &[u8]) -> Option<Answer> {
        let port = self.port(source)?;
        if !self.asked(frame) {
            return None;
        }
        let out = leaves(self.c, port, frame);
        let leaves = out.iter().any(|(p, b)| self.wanted(p, b));
        leaves.then(|| Answer::Yes {
            port: port.to_string(),
            frame: frame.to_vec(),
            out,
        })
    }

    /// A packet for a class of an entry's stage.
    pub(super) fn straight(
        &self,
        p: &Program,
        stage: &Stage,
        k: &Candidate,
        source: ElemId,
    ) -> Option<Answer> {
        let earlier: Vec<&Filter> = (stage.rules.iter().take(k.rule))
            .map(|r| &r.filter)
            .filter(|f| !f.is_disjoint(&k.cube))
            .collect();
        let mut rng = Rng::new(0xa5c);
        let (mut found, mut tries) = (None, FRAMES * 4);
        let searched = exists(p, &k.cube, &earlier, &mut |part| {
            for i in 0..FRAMES {
                let frame = match i {
                    0 => self.maker.frame(part, &mut rng),
                    _ => self.maker.random_frame(part, &mut rng),
                };
                found = frame.and_then(|f| self.yes(source, &f));
                tries -= 1;
                if found.is_some() || tries == 0 {
                    return true;
                }
            }
            false
        });
        debug_assert!(found.is_none() || matches!(searched, Exists::Yes(_)));
        found
    }

    /// A packet for a class of a stage behind others.
    pub(super) fn behind(&self, back: &mut Back<'_>, k: &Candidate) -> Option<Answer> {
        let mut rng = Rng::new(0xbac);
        let (mut found, mut tries) = (None, FRAMES * 16);
        back.seek((k.stage, k.rule), &k.cube, &mut |source, part| {
            for i in 0..FRAMES {
                let frame = match i {
                    0 => self.maker.frame(part, &mut rng),
                    _ => self.maker.random_frame(part, &mut rng),
                };
                found = frame.and_then(|f| self.yes(source, &f));
                tries -= 1;
                if found.is_some() || tries == 0 {
                    return true;
                }
            }
            false
        });
        found
    }

    /// A packet for classes behind others: many are made for all of the program's rules, and tried one by one.
    pub(super) fn hunt(
        &self,
        program: &Arc<Program>,
        reach: Reach,
        go_on: &mut dyn FnMut() -> bool,
    ) -> Option<Answer> {
        let start = Timestamp::from_secs(1_000);
        let ports: Vec<Port> = (self.c.ports.iter())
            .filter(|p| self.q.from.contains(&p.name))
            .cloned()
            .collect();
        let hints = Hints::of(self.c.graph.spec());
        let traffic = Traffic::new(&ports, hints, 7, HUNTED, start, 1)?;
        let mut source = Directed::new(program.clone(), traffic, &ports, 7, HUNTED, start)
            .with_proved(Proved::of(reach))
            .with_tables(self.maker.tables.clone());
        let mut tried = 0;
        // Bound: so many packets
        while let Some(e) = source.next() {
            if tried >= TRIED || !go_on() {
                return None;
            }
            let Some(from) = e.source else { continue };
            if self.asked(&e.bytes) {
                tried += 1;
                if let Some(yes) = self.yes(from, &e.bytes) {
                    return Some(yes);
                }
            }
            source.seen(std::slice::from_ref(&e), &Outputs::default(), &[]);
        }
        None
    }
}
