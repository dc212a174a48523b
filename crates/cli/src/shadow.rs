//! Shadow mode as `onefold run` has it: what is compared, and where differences are told.

use crate::counterexample::hex;
use crate::deploy::{Verdict, Verification};
use anyhow::{Context, Result};
use onefold_capture::{CaptureWriter, Format, LinkType};
use onefold_chain::Chain;
use onefold_engine::shadow::{Mismatch, Options, Report, Shadow};
use onefold_synth::Program;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Rate for classes that are not proved, when no other is asked for.
const DEFAULT_RATE: f64 = 0.01;
/// Differences that are told on standard error.
const TOLD: u64 = 10;
/// Differences that are kept for `--json`, and written to the capture.
const KEPT: usize = 1000;
/// Packets back to which it is known where they came from: more than a window has.
const MEMORY: usize = 8192;

/// Options of shadow mode.
#[derive(clap::Args, Debug, Clone)]
pub struct ShadowArgs {
    /// Share of the packets that also go through the reference graph, on a copy of the state, and are compared: 0 to 1,
    /// `all`, `off`. A class with a difference falls back to the reference graph. Without this option: a hundredth of
    /// the packets of classes that are not proved
    #[arg(long, value_name = "RATE", value_parser = rate)]
    shadow: Option<f64>,
    /// Packets with which program and reference graph differ go there; .pcapng or .pcap
    #[arg(long, value_name = "FILE")]
    shadow_pcap: Option<PathBuf>,
    /// Plants a fault, for tests of what must notice it
    #[cfg(debug_assertions)]
    #[arg(long, hide = true)]
    pub fault: Option<crate::program::Fault>,
}

impl ShadowArgs {
    /// The option that asks for what cannot be: a comparison where only the reference graph runs (`alone`), or
    /// differences of packets that nobody compares.
    pub fn in_vain(&self, alone: bool) -> Option<&'static str> {
        match (self.shadow, &self.shadow_pcap) {
            (Some(r), _) if alone && r > 0.0 => Some("--shadow"),
            (_, Some(_)) if alone || self.shadow == Some(0.0) => Some("--shadow-pcap"),
            _ => None,
        }
    }
}

fn rate(s: &str) -> Result<f64, String> {
    match s {
        "all" => Ok(1.0),
        "off" => Ok(0.0),
        _ => match s.parse::<f64>() {
            Ok(r) if (0.0..=1.0).contains(&r) => Ok(r),
            _ => Err("expected a number from 0 to 1, 'all' or 'off'".to_string()),
        },
    }
}

/// What to compare for the program that a verdict is about.
#[derive(Debug, Clone, Copy)]
pub struct Policy {
    rate: Option<f64>,
    seed: u64,
}

impl Policy {
    /// As asked for.
    pub fn new(args: &ShadowArgs, seed: u64) -> Policy {
        Policy {
            rate: args.shadow,
            seed,
        }
    }

    /// The same for `trace` and others that run nothing: never.
    fn rate_for(self, v: &Verification) -> Option<f64> {
        match (self.rate, v.verdict) {
            (Some(0.0), _) => None,
            (Some(r), _) => Some(r),
            (None, Verdict::Unknown) => Some(DEFAULT_RATE),
            (None, _) => None,
        }
    }

    /// Begins to compare.
    pub fn watch(self, shadow: &mut Shadow, program: &Program, v: &Verification) {
        let Some(rate) = self.rate_for(v) else {
            return;
        };
        let options = Options {
            rate,
            // who asks for a rate means every class
            classes: self.rate.is_none().then(|| v.unknown.clone()),
            seed: self.seed,
            keep: KEPT,
            ..Options::default()
        };
        shadow.watch(program, options);
    }

    /// What is said before the run about classes that are not proved.
    pub fn say(self, v: &Verification) {
        match self.rate_for(v) {
            None if v.verdict == Verdict::Unknown => eprintln!(
                "warning: --shadow off: classes that are not proved run without being compared"
            ),
            None => {}
            Some(r) => eprintln!(
                "shadow mode: {:.4}% of the packets of {} are compared with the reference graph",
                r * 100.0,
                match self.rate {
                    Some(_) => "every class".to_string(),
                    None => "what is not proved".to_string(),
                }
            ),
        }
    }
}

/// Tells differences as they are found.
pub struct ShadowLog {
    /// The chain as it was given, and the program.
    command: String,
    /// Port and file of every input.
    inputs: Vec<(String, String)>,
    /// Elements' names of the ports, for packets of which nothing else is known.
    ports: Vec<(u32, String)>,
    /// Packets are frames of the files, one by one.
    plain: bool,
    /// By the packet's number: input, and which packet of it.
    came: Vec<(usize, u64)>,
    counts: Vec<u64>,
    number: u64,
    told: u64,
    written: usize,
    writer: Option<(String, CaptureWriter<File>)>,
}

impl ShadowLog {
    /// For a run of these inputs; `adapted`: the frames come in other forms, too. `part`: packets with differences go
    /// there (as pcapng), and the capture is made of it later.
    ///
    /// # Errors
    /// When the capture cannot be made.
    pub fn new(
        args: &ShadowArgs,
        chain: &Chain,
        command: String,
        inputs: &[(String, String)],
        adapted: bool,
        part: Option<File>,
    ) -> Result<ShadowLog> {
        let writer = match &args.shadow_pcap {
            None => None,
            Some(f) => {
                let name = f.display().to_string();
                let w = match part {
                    Some(own) => CaptureWriter::new(own, Format::PcapNg, LinkType::ETHERNET, 0),
                    None => CaptureWriter::create_for(f, LinkType::ETHERNET),
                };
                Some((name.clone(), w.with_context(|| format!("'{name}'"))?))
            }
        };
        let ports = chain.ports.iter();
        let ports = ports.filter_map(|p| Some((p.source? as u32, p.name.clone())));
        Ok(ShadowLog {
            command,
            inputs: inputs.to_vec(),
            ports: ports.collect(),
            plain: !adapted,
            came: Vec::new(),
            counts: vec![0; inputs.len()],
            number: 0,
            told: 0,
            written: 0,
            writer,
        })
    }

    /// Another executor runs another chain from now on; it has found nothing yet.
    pub fn goes_on(&mut self, chain: &Chain, command: String) {
        let ports = chain.ports.iter();
        let ports = ports.filter_map(|p| Some((p.source? as u32, p.name.clone())));
        self.ports = ports.collect();
        self.command = command;
        (self.told, self.written) = (0, 0);
    }

    /// So many packets of this input have come.
    pub fn came(&mut self, input: usize, packets: usize) {
        for _ in 0..packets {
            self.came_one(input);
        }
    }

    fn came_one(&mut self, input: usize) {
        self.number += 1;
        let Some(n) = self.counts.get_mut(input) else {
            return;
        };
        *n += 1;
        let (at, entry) = ((self.number as usize) % MEMORY, (input, *n));
        match self.came.get_mut(at) {
            Some(c) => *c = entry,
            None => {
                // the first place is that of the last number of a round
                self.came.resize(at, (usize::MAX, 0));
                self.came.push(entry);
            }
        }
    }

    /// Port, file and number in it of a packet.
    fn origin(&self, m: &Mismatch) -> Option<(&str, &str, u64)> {
        let recent = self.number.checked_sub(m.number)? < MEMORY as u64;
        let (input, n) = *self.came.get((m.number as usize) % MEMORY)?;
        let (port, file) = self.inputs.get(input)?;
        recent.then_some((port, file, n))
    }

    /// Tells what has been found since the last time.
    ///
    /// # Errors
    /// When the capture cannot be written.
    #[inline]
    pub fn tell(&mut self, shadow: &Shadow) -> Result<()> {
        match shadow.mismatches() == self.told {
            true => Ok(()),
            false => self.tell_new(shadow),
        }
    }

    #[cold]
    fn tell_new(&mut self, shadow: &Shadow) -> Result<()> {
        for m in shadow.kept().get(self.written..).unwrap_or_default() {
            if self.told < TOLD {
                eprintln!("{}", self.text(m));
            }
            if let Some((name, w)) = &mut self.writer {
                w.write(m.at.0, &m.frame, m.frame.len() as u32)
                    .with_context(|| format!("'{name}'"))?;
            }
        }
        self.written = shadow.kept().len();
        if self.told <= TOLD && shadow.mismatches() > TOLD {
            eprintln!("shadow mode: more differences are only counted");
        }
        self.told = shadow.mismatches();
        Ok(())
    }

    fn text(&self, m: &Mismatch) -> String {
        let classes: Vec<String> = (m.fallen.iter()).map(|(s, a)| format!("{s}.{a}")).collect();
        let fallen = match classes.is_empty() {
            true => "no class is left to fall back".to_string(),
            false => format!(
                "class {} falls back to the reference graph",
                classes.join(", ")
            ),
        };
        let mut s = format!(
            "shadow mode: packet {}{}: {} at {}: reference {}, program {}; {fallen}\n",
            m.number,
            if m.located {
                ""
            } else {
                " or one of those before it"
            },
            m.what,
            m.place,
            m.reference,
            m.program
        );
        let command = &self.command;
        match self.origin(m) {
            Some((port, file, n)) if self.plain => {
                s += &format!("  onefold trace {command} --in {port}={file}#{n}");
            }
            _ => {
                let port = self.port(m);
                s += &format!("  onefold trace {command} --hex {port}={}", hex(&m.frame));
            }
        }
        s
    }

    fn port(&self, m: &Mismatch) -> &str {
        let p = self.ports.iter().find(|p| p.0 == m.source.0);
        p.map_or("?", |p| &p.1)
    }

    /// The capture is complete.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn finish(&mut self) -> Result<()> {
        match self.writer.take() {
            Some((name, w)) => w.finish().map(|_| ()).with_context(|| format!("'{name}'")),
            None => Ok(()),
        }
    }

    /// As documented in docs/json.md.
    pub fn json(&self, r: &Report, capture: Option<&Path>) -> serde_json::Value {
        let found: Vec<_> = (r.kept.iter())
            .map(|m| {
                serde_json::json!({
                    "number": m.number,
                    "port": self.port(m),
                    "seconds": m.at.to_string(),
                    "packet": hex(&m.frame),
                    "what": m.what.to_string(),
                    "place": m.place,
                    "reference": m.reference,
                    "program": m.program,
                    "located": m.located,
                    "fallen": m.fallen.iter()
                        .map(|(s, a)| serde_json::json!({ "stage": s, "action": a })).collect::<Vec<_>>(),
                })
            })
            .collect();
        serde_json::json!({
            "windows": r.windows,
            "compared_packets": r.compared,
            "compared_states": r.states,
            "classes_watched": r.watched,
            "classes_compared": r.seen,
            "differences": r.mismatches,
            "classes_fallen": r.fallen,
            "found": found,
            "capture": capture.map(|p| p.display().to_string()),
        })
    }
}

impl ShadowArgs {
    /// Are packets compared by wish?
    pub fn compares(&self) -> bool {
        self.shadow.is_some_and(|r| r > 0.0)
    }

    /// Where packets with differences go.
    pub fn capture(&self) -> Option<&Path> {
        self.shadow_pcap.as_deref()
    }
}
