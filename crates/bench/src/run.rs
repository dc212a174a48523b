//! `onefold gen`, less its terminal.

use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::Instant;

use serde::Serialize;

use crate::args::{GenArgs, RuleFormat};
use crate::error::GenError;
use crate::output;
use crate::ranges::Addresses;
use crate::rules::{
    Exercise, Generated, Header, Rule, RuleParams, Verdict, exercise, generate_rules, parse_rules,
    write_click_filter, write_headers, write_rules,
};
use crate::sizes::SizeModel;
use crate::traffic::{
    Counts, Direction, ExceptionKind, Generator, LinkAddresses, MAX_FLOWS, TcpStyle, TrafficError,
    TrafficParams,
};

/// Told how far generation has come.
pub trait Progress {
    /// So many packets of so many are written. Called every few thousand packets and at the end; `false` stops.
    fn packets(&mut self, done: u64, total: u64) -> bool;
}

/// Nobody is told.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoProgress;

impl Progress for NoProgress {
    fn packets(&mut self, _done: u64, _total: u64) -> bool {
        true
    }
}

/// A file that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct WrittenFile {
    /// Where.
    pub path: PathBuf,
    /// What it is: `capture`, `rules`, `headers` or `parameters`.
    pub what: &'static str,
    /// Frames, rules or headers in it.
    pub items: u64,
}

impl WrittenFile {
    /// What [`items`](Self::items) counts, as people say it.
    pub fn counts(&self) -> &'static str {
        match self.what {
            "capture" => "packets",
            what => what,
        }
    }
}

/// What is known about rules, generated or exercised.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RuleSummary {
    /// How many there are.
    pub count: u64,
    /// How many of them deny: of generated ones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deny: Option<u64>,
    /// How many are the first match of a header: if headers were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exercised: Option<u64>,
    /// Indices (from 0) of the rules that no header reaches, because earlier rules cover them or because they ask for
    /// ports of a protocol without ports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub unreached: Vec<usize>,
}

/// What was generated.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct GenSummary {
    /// The files.
    pub files: Vec<WrittenFile>,
    /// The seed.
    pub seed: u64,
    /// Frames, over all captures.
    pub packets: u64,
    /// Flows.
    pub flows: u64,
    /// Mean length of a frame.
    pub mean_size: f64,
    /// Frames by direction, protocol and exception.
    pub counts: Counts,
    /// Rules, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rules: Option<RuleSummary>,
    /// [`Progress`] wanted it to stop before all was written.
    pub stopped: bool,
    /// How long it took.
    pub seconds: f64,
}

impl GenSummary {
    /// Nothing yet.
    fn new(args: &GenArgs) -> GenSummary {
        GenSummary {
            files: Vec::new(),
            seed: args.seed,
            packets: 0,
            flows: 0,
            mean_size: 0.0,
            counts: Counts::default(),
            rules: None,
            stopped: false,
            seconds: 0.0,
        }
    }
}

/// Does what the options say.
///
/// # Errors
/// An option or a file is not as it should be, or a file cannot be written. A capture that could not be completed stays
/// behind, readable as far as it goes; stopped by [`Progress`] it is whole as far as it goes.
pub fn run(args: &GenArgs, progress: &mut dyn Progress) -> Result<GenSummary, GenError> {
    let start = Instant::now();
    let mut summary = GenSummary::new(args);
    if args.rules.is_some() {
        rules_file(args, &mut summary)?;
    } else if let Some(from) = &args.answers_to {
        let (file, mean, stopped) =
            crate::answers::answers(from, args.file()?, args.frames(), progress)?;
        summary.packets = file.items;
        summary.mean_size = mean;
        summary.stopped = stopped;
        summary.files.push(file);
    } else {
        captures(args, progress, &mut summary)?;
    }
    summary.seconds = start.elapsed().as_secs_f64();
    Ok(summary)
}

fn usage(flag: &'static str, e: impl ToString) -> GenError {
    GenError::Usage {
        flag,
        message: e.to_string(),
    }
}

fn read(path: &Path) -> Result<String, GenError> {
    fs::read_to_string(path).map_err(|source| GenError::File {
        path: path.to_path_buf(),
        source,
    })
}

/// Writes a text file in one go.
fn write_text(
    path: &Path,
    body: impl FnOnce(&mut BufWriter<File>) -> std::io::Result<()>,
) -> Result<(), GenError> {
    crate::output::file(path)
        .and_then(|f| {
            let mut out = BufWriter::new(f);
            body(&mut out)?;
            out.flush()
        })
        .map_err(|source| GenError::File {
            path: path.to_path_buf(),
            source,
        })
}

fn rules_file(args: &GenArgs, summary: &mut GenSummary) -> Result<(), GenError> {
    let Some(kind) = args.rules else {
        return Ok(());
    };
    if args.reverse.is_some() {
        return Err(usage(
            "--reverse",
            "a rule set has no answers; leave it out, or leave out --rules",
        ));
    }
    let mut params = match &args.rule_params {
        Some(path) => RuleParams::from_json(&read(path)?)?,
        None => RuleParams::preset(kind),
    };
    if let Some(deny) = args.deny {
        params.deny = deny;
    }
    if args.wildcards.is_some() {
        params.wildcards = args.wildcards;
    }
    if let Some(nesting) = args.nesting {
        params.nesting = nesting;
        params.reuse = params.reuse.min(1.0 - nesting.clamp(0.0, 1.0));
    }
    if args.inside.is_some() {
        params.inside = args.inside;
    }
    let set = generate_rules(&params, args.count, args.seed)?;
    write_text(args.file()?, |out| match args.rule_format {
        RuleFormat::Classbench => write_rules(out, &set.rules),
        RuleFormat::ClassbenchVerdicts => with_verdicts(out, &set),
        RuleFormat::Click => write_click_filter(out, &set),
    })?;
    summary.files.push(WrittenFile {
        path: args.file()?.to_path_buf(),
        what: "rules",
        items: set.rules.len() as u64,
    });
    let denied = set.verdicts.iter().filter(|&&v| v == Verdict::Deny).count();
    summary.rules = Some(RuleSummary {
        count: set.rules.len() as u64,
        deny: Some(denied as u64),
        exercised: None,
        unreached: Vec::new(),
    });
    if let Some(path) = &args.write_rule_params {
        // Plain data: it always has a JSON form.
        let json =
            serde_json::to_string_pretty(&params).map_err(|e| usage("--write-rule-params", e))?;
        write_text(path, |out| writeln!(out, "{json}"))?;
        summary.files.push(WrittenFile {
            path: path.clone(),
            what: "parameters",
            items: 1,
        });
    }
    if let Some(path) = &args.headers {
        let headers = args.frames();
        if headers > u64::from(MAX_FLOWS) {
            return Err(usage(
                "--packets",
                format!("{headers} headers, expected {MAX_FLOWS} at most"),
            ));
        }
        let found = exercise(&set.rules, headers as usize, args.seed, false);
        headers_file(path, &found, &set.rules, summary)?;
    }
    Ok(())
}

fn with_verdicts(out: &mut impl Write, set: &Generated) -> std::io::Result<()> {
    for (rule, verdict) in set.rules.iter().zip(&set.verdicts) {
        let word = match verdict {
            Verdict::Allow => "allow",
            Verdict::Deny => "deny",
        };
        writeln!(out, "{rule}\t{word}")?;
    }
    Ok(())
}

fn headers_file(
    path: &Path,
    found: &Exercise,
    rules: &[Rule],
    summary: &mut GenSummary,
) -> Result<(), GenError> {
    write_text(path, |out| write_headers(out, &found.headers))?;
    summary.files.push(WrittenFile {
        path: path.to_path_buf(),
        what: "headers",
        items: found.headers.len() as u64,
    });
    note_exercise(found, rules, summary);
    Ok(())
}

fn note_exercise(found: &Exercise, rules: &[Rule], summary: &mut GenSummary) {
    let mut hit = vec![false; rules.len()];
    for (_, rule) in &found.headers {
        if let Some(h) = hit.get_mut(*rule) {
            *h = true;
        }
    }
    let r = summary.rules.get_or_insert(RuleSummary {
        count: rules.len() as u64,
        deny: None,
        exercised: None,
        unreached: Vec::new(),
    });
    r.exercised = Some(hit.iter().filter(|&&h| h).count() as u64);
    r.unreached = found.unreached.clone();
}

fn addresses(flag: &'static str, text: &str) -> Result<Addresses, GenError> {
    let list = match text.strip_prefix('@') {
        Some(path) => Addresses::parse(&read(Path::new(path))?),
        None => Addresses::parse(text),
    };
    list.map_err(|e| usage(flag, e))
}

/// The parameters that the options stand for.
///
/// # Errors
/// An option or a file is not as it should be.
pub fn traffic(args: &GenArgs) -> Result<TrafficParams, GenError> {
    traffic_params(args, &mut GenSummary::new(args))
}

/// The parameters that the options stand for; `summary` learns about rules.
fn traffic_params(args: &GenArgs, summary: &mut GenSummary) -> Result<TrafficParams, GenError> {
    let models = args.size_models.as_deref().map(read).transpose()?;
    let sizes = SizeModel::parse(&args.size, models.as_deref()).map_err(|e| usage("--size", e))?;
    let headers = match &args.from_rules {
        Some(path) => Some(rule_headers(args, path, summary)?),
        None => {
            if args.headers.is_some() {
                return Err(usage(
                    "--headers",
                    "expected --rules or --from-rules with it",
                ));
            }
            None
        }
    };
    Ok(TrafficParams {
        packets: args.frames(),
        flows: args.flows.unwrap_or(10_000),
        seed: args.seed,
        sizes,
        zipf: args.zipf,
        protocols: args.protocols,
        ipv6: args.ipv6,
        tcp: if args.stateless {
            TcpStyle::Stateless
        } else {
            TcpStyle::Connections {
                segments: args.segments,
            }
        },
        replies: args.reverse.is_some(),
        src: addresses("--src", &args.src)?,
        dst: addresses("--dst", &args.dst)?,
        src6: addresses("--src6", &args.src6)?,
        dst6: addresses("--dst6", &args.dst6)?,
        sport: args.sport.clone(),
        dport: args.dport.clone(),
        forward: LinkAddresses {
            src: args.src_mac,
            dst: args.dst_mac,
        },
        reverse: LinkAddresses {
            src: args.reverse_src_mac.unwrap_or(args.dst_mac),
            dst: args.reverse_dst_mac.unwrap_or(args.src_mac),
        },
        reply_to: args.reply_to,
        vlan: args.vlan,
        ttl: args.ttl,
        dscp: args.dscp,
        pps: args.pps,
        start_ns: i64::from(args.start) * 1_000_000_000,
        payload: args.payload,
        needle: args
            .needle
            .as_ref()
            .map(|n| (n.clone().into_bytes(), args.needle_share)),
        exceptions: args.exceptions,
        exception_kinds: if args.exception_kinds.is_empty() {
            ExceptionKind::ALL.to_vec()
        } else {
            args.exception_kinds.clone()
        },
        headers,
    })
}

fn rule_headers(
    args: &GenArgs,
    path: &Path,
    summary: &mut GenSummary,
) -> Result<Vec<Header>, GenError> {
    let rules = parse_rules(&read(path)?).map_err(|errors| GenError::Rules {
        path: path.to_path_buf(),
        errors,
    })?;
    if rules.is_empty() {
        return Err(usage(
            "--from-rules",
            format!("{} holds no rule", path.display()),
        ));
    }
    let default = (rules.len() * 10).min(1_000_000).max(rules.len());
    let wanted = args.flows.map_or(default, |f| f as usize);
    if wanted > MAX_FLOWS as usize {
        return Err(usage(
            "--flows",
            format!("{wanted}, expected {MAX_FLOWS} at most"),
        ));
    }
    let found = exercise(&rules, wanted, args.seed, true);
    if found.headers.is_empty() {
        return Err(GenError::Traffic(TrafficError::TooFewFlows {
            found: 0,
            wanted: wanted as u64,
        }));
    }
    match &args.headers {
        Some(path) => headers_file(path, &found, &rules, summary)?,
        None => note_exercise(&found, &rules, summary),
    }
    Ok(found.headers.into_iter().map(|h| h.0).collect())
}

/// Frames between two calls of [`Progress::packets`].
const STEP: u64 = 8192;

fn captures(
    args: &GenArgs,
    progress: &mut dyn Progress,
    summary: &mut GenSummary,
) -> Result<(), GenError> {
    if args.reverse.is_some() && args.reverse == args.out {
        return Err(usage("--reverse", "the same file as --out"));
    }
    let params = traffic_params(args, summary)?;
    let mut generator = Generator::new(params)?;
    let mut forward = output::capture(args.file()?)?;
    let mut reverse = args.reverse.as_ref().map(output::capture).transpose()?;
    let mut frame = Vec::with_capacity(2048);
    let total = args.frames();
    while let Some(about) = generator.next_into(&mut frame) {
        let out = match (about.direction, &mut reverse) {
            (Direction::Reverse, Some(out)) => out,
            _ => &mut forward,
        };
        out.write(about.ts_ns, &frame, about.orig_len)?;
        let made = generator.made();
        if made.is_multiple_of(STEP) && !progress.packets(made, total) {
            summary.stopped = true;
            break;
        }
    }
    let mut note = |path: &Path, items| {
        summary.files.push(WrittenFile {
            path: path.to_path_buf(),
            what: "capture",
            items,
        });
    };
    note(args.file()?, forward.frames());
    forward.finish()?;
    if let (Some(path), Some(out)) = (&args.reverse, reverse) {
        note(path, out.frames());
        out.finish()?;
    }
    if !summary.stopped {
        progress.packets(generator.made(), total);
    }
    summary.packets = generator.made();
    summary.flows = generator.flows() as u64;
    summary.counts = generator.counts().clone();
    if summary.packets > 0 {
        summary.mean_size = summary.counts.bytes as f64 / summary.packets as f64;
    }
    Ok(())
}
