//! `onefold diff`: what two chains, or two rule files, do differently.

use crate::answers::subject::Subject;
use crate::answers::{Told, packet};
use crate::common;
use crate::explain::Explained;
use crate::progress::Busy;
use crate::runner;
use anyhow::Result;
use onefold_synth::text::Words;
use onefold_verify::answers::actions::Like;
use onefold_verify::answers::differ::{Change, Differences, Does, differences};
use serde_json::{Value, json};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Classes that are printed unless all are asked for.
const SHOWN: usize = 12;
/// Filters and rules of a class that are printed.
const PARTS: usize = 4;

/// Options of `onefold diff`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "What is compared is what packets meet, not lines: rules may be moved, joined, split or written \
    differently. Each class of packets that is treated differently is told with a packet of it, and what both do with \
    that packet. Both chains are looked at for all packets; of state (flows of NATs, balancers) it is taken for \
    granted that both have the same.\n\n\
    A rule file alone stands for a firewall that has nothing but its rules: its ports are `inside` and `outside`.\n\n\
    Examples:\n  \
    onefold diff old.rules new.rules\n  \
    onefold diff isp-edge my-edge.yaml\n  \
    onefold diff isp-edge isp-edge --set-new rules=my.rules --trace\n\n\
    Exit status: 0 both do the same with every packet, 1 they do not, 2 it is not known, or wrong use or bad input."
)]
pub struct Args {
    /// Chain or rule file before
    #[arg(value_name = "OLD")]
    old: String,
    /// Chain or rule file after
    #[arg(value_name = "NEW")]
    new: String,
    /// Sets a parameter of both chains
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = common::key_value)]
    set: Vec<(String, String)>,
    /// Sets a parameter of the old chain
    #[arg(long = "set-old", value_name = "KEY=VALUE", value_parser = common::key_value)]
    set_old: Vec<(String, String)>,
    /// Sets a parameter of the new chain
    #[arg(long = "set-new", value_name = "KEY=VALUE", value_parser = common::key_value)]
    set_new: Vec<(String, String)>,
    /// Prints both traces of each class's packet
    #[arg(long)]
    trace: bool,
    /// Prints all classes
    #[arg(long)]
    all: bool,
    /// First proves that each program that is compared is its chain, for at most so long each
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60")]
    prove: Option<u32>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Two chains, and what is said of them.
struct Both {
    old: Subject,
    new: Subject,
    found: Differences,
    /// Both programs are proved, where that was asked.
    proved: Option<bool>,
    seconds: f64,
}

impl Both {
    fn verdict(&self) -> &'static str {
        let f = &self.found;
        match f.changes.is_empty() && f.gone.is_empty() && f.added.is_empty() {
            false => "different",
            true if f.some_unknown() || self.proved == Some(false) => "unknown",
            true => "same",
        }
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let begun = Instant::now();
    let busy = Busy::new("loading and synthesizing both", args.json);
    let with = |more: &[(String, String)]| [&args.set[..], more].concat();
    let old = Subject::load(&args.old, &with(&args.set_old));
    let new = Subject::load(&args.new, &with(&args.set_new));
    drop(busy);
    let (Some(old), Some(new)) = (old, new) else {
        return Ok(common::BAD_INPUT);
    };
    let busy = Busy::new("comparing both for all packets", args.json);
    runner::catch_interrupt();
    let mut go_on = || !runner::interrupted().load(Ordering::SeqCst);
    let found = differences(&old.compared(), &new.compared(), &mut go_on);
    drop(busy);
    let proved = args.prove.map(|s| {
        let _busy = Busy::new("proving that both programs are their chains", args.json);
        let limit = Duration::from_secs(s.into());
        old.is_proved(limit) && new.is_proved(limit)
    });
    let both = Both {
        old,
        new,
        found,
        proved,
        seconds: begun.elapsed().as_secs_f64(),
    };
    match args.json {
        true => {
            common::print_json(&both.json()?)?;
        }
        false => both.print(args)?,
    }
    Ok(match both.verdict() {
        "same" => common::HOLDS,
        "different" => common::HOLDS_NOT,
        _ => common::BAD_INPUT,
    })
}

/// One side of a change in words.
struct Side<'a> {
    subject: &'a Subject,
    explained: &'a Explained<'a>,
}

impl Side<'_> {
    fn outcome(&self, d: &Does) -> String {
        let class = self.explained.classes.iter();
        let mut class = class.filter(|c| c.stage == d.stage && c.action == d.action);
        class.next().map_or_else(String::new, |c| c.does.join("; "))
    }

    fn rules(&self, d: &Does) -> Vec<Told> {
        let spec = &self.subject.chain.graph;
        let mut all: Vec<Told> = Vec::new();
        for r in &d.rules {
            let told = Told::deciding(spec, &self.subject.program, d.stage, *r);
            all.extend(told.filter(|t| !all.contains(t)));
        }
        all
    }
}

/// What differs, in words.
fn what(l: &Like) -> &'static str {
    match l {
        Like::Verdict => "verdict",
        Like::Port => "port",
        Like::Rewriting => "rewriting",
        Like::Same(_) | Like::Unknown(_) => "unknown",
    }
}

impl Both {
    fn explained(&self) -> (Explained<'_>, Explained<'_>) {
        fn one(s: &Subject) -> Explained<'_> {
            Explained::new(&s.chain, &s.program, 0.0, None)
        }
        (one(&self.old), one(&self.new))
    }

    /// Filters of its packets, and what of them others take.
    fn filters(&self, c: &Change) -> (Vec<String>, Vec<String>) {
        let p = &self.old.program;
        let Some(stage) = p.stages.get(c.old.stage) else {
            return (Vec::new(), Vec::new());
        };
        let mut words = Words::for_stage(p, stage);
        let one = |f: &onefold_synth::program::Filter| words.with(f).filter(f);
        let filters = c.filters.iter().map(one).collect();
        if let Some(f) = c.filters.first() {
            words = words.with(f);
        }
        (filters, c.except.iter().map(|f| words.filter(f)).collect())
    }

    fn change(&self, c: &Change, sides: (&Side<'_>, &Side<'_>)) -> Result<Value> {
        let side = |s: &Side<'_>, d: &Does| {
            json!({
                "outcome": s.outcome(d),
                "rules": s.rules(d).iter().map(Told::json).collect::<Vec<_>>(),
            })
        };
        let (class, except) = self.filters(c);
        let mut v = json!({
            "port": c.port,
            "what": what(&c.what),
            "some": c.some,
            "class": class,
            "except": except,
            "pairs": c.pairs,
            "before": side(sides.0, &c.old),
            "after": side(sides.1, &c.new),
            "packet": c.frame.as_ref().map(|f| crate::counterexample::hex(f)),
        });
        if let Some(f) = &c.frame {
            v["summary"] = packet::line(f).into();
            v["before"]["trace"] = self.old.trace(&c.port, f)?.0["steps"].take();
            v["after"]["trace"] = self.new.trace(&c.port, f)?.0["steps"].take();
        }
        Ok(v)
    }

    fn json(&self) -> Result<Value> {
        let (x, y) = self.explained();
        let sides = (
            &Side {
                subject: &self.old,
                explained: &x,
            },
            &Side {
                subject: &self.new,
                explained: &y,
            },
        );
        let all = |l: &[Change]| -> Result<Vec<Value>> {
            l.iter().map(|c| self.change(c, sides)).collect()
        };
        Ok(json!({
            "old": self.old.name,
            "new": self.new.name,
            "same": self.verdict() == "same",
            "verdict": self.verdict(),
            "programs": match self.proved {
                None => "synthesized",
                Some(true) => "proved",
                Some(false) => "not proved",
            },
            "changes": all(&self.found.changes)?,
            "perhaps": all(&self.found.perhaps)?,
            "more": self.found.more,
            "unknown": self.found.unknown,
            "ports": { "gone": self.found.gone, "added": self.found.added },
            "stages": self.found.stages,
            "seconds": self.seconds,
            "peak_bytes": common::peak_memory(),
        }))
    }

    fn print(&self, args: &Args) -> Result<()> {
        let f = &self.found;
        let seconds = self.seconds;
        let n = f.changes.len();
        let both = format!("{} and {}", self.old.name, self.new.name);
        match self.verdict() {
            "same" => {
                crate::say!("{both} do the same with every packet: proved ({seconds:.1} s)");
            }
            "different" => {
                let classes = if n == 1 { "class" } else { "classes" };
                let least = if f.more > 0 { "at least " } else { "" };
                crate::say!(
                    "{both}: {least}{n} {classes} of packets are treated differently ({seconds:.1} s)"
                );
            }
            _ => crate::say!(
                "{both}: no packet was found that is treated differently, but it is not proved ({seconds:.1} s)"
            ),
        }
        for (list, word) in [(&f.gone, "old"), (&f.added, "new")] {
            if !list.is_empty() {
                crate::say!(
                    "  packets come in at {} in the {word} one only",
                    list.join(", ")
                );
            }
        }
        let (x, y) = self.explained();
        let sides = (
            &Side {
                subject: &self.old,
                explained: &x,
            },
            &Side {
                subject: &self.new,
                explained: &y,
            },
        );
        let most = if args.all { usize::MAX } else { SHOWN };
        for (i, c) in f.changes.iter().enumerate().take(most) {
            self.print_change(i + 1, c, sides, args.trace)?;
        }
        if n > most {
            crate::say!("... and {} more classes (--all, --json)", n - most);
        }
        if f.more > 0 {
            crate::say!(
                "... and {} classes more of rules that differ, of which no packet was made",
                f.more
            );
        }
        for c in f.perhaps.iter().take(most) {
            crate::say!("perhaps, behind a state that no single packet makes, or of no packets:");
            self.print_change(0, c, sides, false)?;
        }
        for u in &f.unknown {
            crate::say!("not compared: {u}");
        }
        match self.proved {
            Some(true) => crate::say!("both programs are proved to be their chains"),
            Some(false) => crate::say!("that both programs are their chains was not proved"),
            None => {}
        }
        Ok(())
    }

    fn print_change(
        &self,
        number: usize,
        c: &Change,
        sides: (&Side<'_>, &Side<'_>),
        trace: bool,
    ) -> Result<()> {
        let what = match c.what {
            Like::Verdict => "let through by one, dropped by the other",
            Like::Port => "leave at another port",
            _ => "are rewritten differently",
        };
        let head = if number == 0 {
            String::new()
        } else {
            format!("{number}. ")
        };
        let some = if c.some { "some of the " } else { "" };
        crate::say!("\n{head}{some}packets that come in at {}: {what}", c.port);
        let (filters, except) = self.filters(c);
        for f in filters.iter().take(PARTS) {
            crate::say!("   with {f}");
        }
        if c.pairs > PARTS.min(filters.len()) {
            crate::say!("   ... {} filters in all", c.pairs);
        }
        for f in except.iter().take(PARTS) {
            crate::say!("   but not {f}");
        }
        if except.len() > PARTS {
            crate::say!("   ... and not what more rules take before");
        }
        for (word, side, does) in [("before", sides.0, &c.old), ("after ", sides.1, &c.new)] {
            crate::say!("   {word} {}", side.outcome(does));
            let rules = side.rules(does);
            for r in rules.iter().take(PARTS) {
                crate::say!("          by {}", r.words());
            }
            if rules.len() > PARTS {
                crate::say!("          and more rules");
            }
        }
        let Some(f) = &c.frame else { return Ok(()) };
        crate::say!("   such as {}", packet::line(f));
        let port = &c.port;
        let hex = crate::counterexample::hex(f);
        if !trace {
            match self.old.rules {
                true => crate::say!("   packet  {port}={hex}"),
                false => crate::say!("   onefold trace {} --hex {port}={hex}", self.old.name),
            }
            return Ok(());
        }
        for (word, s) in [("before", &self.old), ("after", &self.new)] {
            crate::say!("   {word}:");
            for line in s.trace(port, f)?.1 {
                crate::say!("     {line}");
            }
        }
        Ok(())
    }
}
