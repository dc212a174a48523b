//! `onefold ask`: can packets of some kind get somewhere? No, proved; or yes, with a packet.

mod question;

use crate::answers::subject::Subject;
use crate::answers::{Told, packet};
use crate::common;
use crate::counterexample::hex;
use crate::progress::Busy;
use anyhow::Result;
use onefold_verify::answers::ask::{Answer, LEAST_TTL, MTU, ask};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// Rules that are printed.
const SHOWN: usize = 6;

/// Options of `onefold ask`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = concat!(
        "The answer is yes with a packet and its way, or no for all packets, or not known.\n\n",
        "Asked about are IP packets in untagged Ethernet frames, of at most 1500 bytes, with 64 hops to live or more,\n\
        without options or extension headers, and no fragments. Flows (NAT, balancers): none is open but those that\n\
        such packets begin themselves, so that a reply to a flow from elsewhere does not count.\n\n\
        Examples:\n  \
        onefold ask isp-edge 'can wan reach 10.0.0.0/8 port 22?'\n  \
        onefold ask isp-edge can lan reach 8.8.8.8 udp port 53\n  \
        onefold ask my.rules 'can outside reach inside tcp port 80,443 source 192.0.2.0/24'\n\n\
        Exit status: 0 yes, 1 no, 2 it is not known, or wrong use or bad input."
    ),
    before_long_help = question::LANGUAGE
)]
pub struct Args {
    /// Chain, or rule file: a firewall of nothing but its rules, with the ports `inside` and `outside`
    #[arg(value_name = "CHAIN")]
    chain: String,
    /// The question
    #[arg(value_name = "QUESTION", required = true)]
    question: Vec<String>,
    /// Sets a parameter of the chain
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = common::key_value)]
    set: Vec<(String, String)>,
    /// First proves that the program that is asked is the chain, for at most so long
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "60")]
    prove: Option<u32>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// What was found.
struct Found {
    answer: &'static str,
    /// The packet that shows it: port, frame, what left.
    yes: Option<Packet>,
    by: Vec<Told>,
    reasons: BTreeSet<String>,
    state: bool,
}

type Packet = (String, Vec<u8>, Vec<(String, Vec<u8>)>);

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let begun = Instant::now();
    let busy = Busy::new("loading and synthesizing", args.json);
    let subject = Subject::load(&args.chain, &args.set);
    drop(busy);
    let Some(subject) = subject else {
        return Ok(common::BAD_INPUT);
    };
    let text = args.question.join(" ");
    let ports = |is: &dyn Fn(&onefold_chain::ChainPort) -> bool| -> Vec<String> {
        let all = subject.chain.ports.iter().filter(|p| is(p));
        all.map(|p| p.name.clone()).collect()
    };
    let inputs = ports(&|p| p.source.is_some());
    let outputs = ports(&|p| !p.sinks.is_empty());
    let asked = match question::read(&text, &inputs, &outputs) {
        Ok(a) => a,
        Err(d) => {
            common::print_diagnostics(&[*d]);
            return Ok(common::BAD_INPUT);
        }
    };
    let proved = args.prove.map(|s| {
        let _busy = Busy::new("proving that the program is the chain", args.json);
        subject.is_proved(Duration::from_secs(s.into()))
    });
    let busy = Busy::new("looking at all such packets", args.json);
    let mut found = answer(&subject, &asked.questions(&outputs));
    drop(busy);
    if found.answer == "no" && proved == Some(false) {
        found.answer = "unknown";
        found
            .reasons
            .insert("that the program is the chain was not proved".into());
    }
    let seconds = begun.elapsed().as_secs_f64();
    match args.json {
        true => {
            common::print_json(&told(&subject, &text, &found, proved, seconds)?)?;
        }
        false => print(&subject, &found, seconds)?,
    }
    Ok(match found.answer {
        "yes" => common::HOLDS,
        "no" => common::HOLDS_NOT,
        _ => common::BAD_INPUT,
    })
}

/// Asks one after the other, until one says yes.
fn answer(s: &Subject, all: &[onefold_verify::answers::ask::Question]) -> Found {
    let mut found = Found {
        answer: "no",
        yes: None,
        by: Vec::new(),
        reasons: BTreeSet::new(),
        state: false,
    };
    for q in all {
        let a = ask(&s.compared(), q, &mut || true);
        found.state |= a.state;
        match a.answer {
            Answer::Yes { port, frame, out } => {
                found.answer = "yes";
                found.yes = Some((port, frame, out));
                return found;
            }
            Answer::No { by } => {
                for o in by {
                    let told = Told::of(&s.chain.graph, &o);
                    if !found.by.contains(&told) {
                        found.by.push(told);
                    }
                }
            }
            Answer::Unknown(why) => {
                found.answer = "unknown";
                found.reasons.extend(why);
            }
        }
    }
    found
}

/// What an answer takes for granted.
fn assumed(f: &Found) -> Vec<String> {
    let mut all = vec![format!(
        "IP packets in untagged frames, of at most {MTU} bytes, {LEAST_TTL} hops to live or more, no options, \
         no fragments"
    )];
    if f.state {
        let state = "no flow is open but those that such packets begin: replies to flows from elsewhere do not \
                     count";
        all.push(state.into());
    }
    all
}

fn told(s: &Subject, text: &str, f: &Found, proved: Option<bool>, seconds: f64) -> Result<Value> {
    let mut v = json!({
        "chain": s.name,
        "question": text,
        "answer": f.answer,
        "proved": f.answer != "unknown",
        "program": match proved {
            None => "synthesized",
            Some(true) => "proved",
            Some(false) => "not proved",
        },
        "assumed": assumed(f),
        "by": f.by.iter().map(Told::json).collect::<Vec<_>>(),
        "reasons": f.reasons,
        "port": Value::Null,
        "packet": Value::Null,
        "seconds": seconds,
    });
    if let Some((port, frame, out)) = &f.yes {
        v["port"] = port.as_str().into();
        v["packet"] = hex(frame).into();
        v["summary"] = packet::line(frame).into();
        v["outputs"] = (out.iter())
            .map(|(p, b)| json!({"port": p, "packet": hex(b), "summary": packet::line(b)}))
            .collect();
        v["trace"] = s.trace(port, frame)?.0["steps"].take();
    }
    Ok(v)
}

fn print(s: &Subject, f: &Found, seconds: f64) -> Result<()> {
    match f.answer {
        "yes" => crate::say!("yes ({seconds:.1} s)"),
        "no" => crate::say!("no, proved for all such packets ({seconds:.1} s)"),
        _ => crate::say!("not known ({seconds:.1} s)"),
    }
    if let Some((port, frame, out)) = &f.yes {
        crate::say!("  comes in at {port}: {}", packet::line(frame));
        for (p, b) in out {
            crate::say!("  leaves at {p}: {}", packet::line(b));
        }
        for line in s.trace(port, frame)?.1 {
            crate::say!("    {line}");
        }
    }
    let by: Vec<&Told> = f.by.iter().filter(|t| t.line > 0).collect();
    if f.answer == "no" && !by.is_empty() {
        crate::say!("  they are dropped by");
        for t in by.iter().take(SHOWN) {
            crate::say!("    {}", t.words());
        }
        if by.len() > SHOWN {
            crate::say!("    and {} more", by.len() - SHOWN);
        }
    }
    for r in &f.reasons {
        crate::say!("  open: {r}");
    }
    for a in assumed(f) {
        crate::say!("  assumed: {a}");
    }
    Ok(())
}
