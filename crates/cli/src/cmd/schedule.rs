//! `onefold schedule`: the scheduling policy of a running chain whose functions are processes.

use super::status::{PATIENCE, Which, refused};
use crate::common::{self, thousands};
use anyhow::{Result, bail};
use onefold_control::Request;
use onefold_sched::KNOWN;
use onefold_sched::spec::Spec;
use serde_json::{Value, json};
use std::path::PathBuf;

/// Options of `onefold schedule`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "Functions in processes of their own (run: process, native) share cores. Who of them runs when is a \
    policy's affair: the chain file's (schedule: nfvnice), that of `onefold run --schedule POLICY`, or another one while \
    the chain runs.\n\n\
    Examples:\n  \
    onefold schedule list                          all policies, and what can be said of each\n  \
    onefold schedule                               the one at work in the only chain that runs\n  \
    onefold schedule edge nfvnice,high=70          another one, in the chain 'edge'\n  \
    onefold schedule edge kernel                   none\n\n\
    Exit status: 0 it is so; 1 the run has no functions in processes, 2 there is no such policy, or it does not fit."
)]
pub struct Args {
    /// `list`; or the name of the run, if several run, and a policy, if there is to be another one
    #[arg(value_name = "list|[NAME] [POLICY]", num_args = 0..=2)]
    what: Vec<String>,
    /// Its control socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let is_policy = |s: &str| {
        let name = s.split(',').next().unwrap_or_default();
        KNOWN.iter().any(|k| k.name == name)
    };
    let (name, policy) = match args.what.as_slice() {
        [list] if list == "list" && args.socket.is_none() => return list_all(args.json),
        [] => (None, None),
        [one] if is_policy(one) || args.socket.is_some() => (None, Some(one.clone())),
        [name] => (Some(name.clone()), None),
        [name, policy, ..] => (Some(name.clone()), Some(policy.clone())),
    };
    if let Some(Err(e)) = policy.as_deref().map(str::parse::<Spec>) {
        bail!("{e}; hint: onefold schedule list");
    }
    let which = Which {
        name: name.filter(|_| args.socket.is_none()),
        socket: args.socket.clone(),
    };
    let mut client = which.connect(Some(PATIENCE))?;
    let v = match client.ask(&Request::Schedule { policy }) {
        Ok(v) => v,
        Err(e) => return refused(e, args.json),
    };
    if args.json {
        return common::print_json(&v);
    }
    tell(&v);
    Ok(common::HOLDS)
}

fn tell(v: &Value) {
    let text = |k: &str| v[k].as_str().unwrap_or_default().to_string();
    let housekeeping = v["housekeeping"].as_u64();
    let core = housekeeping.map_or(String::new(), |c| format!(", housekeeping core {c}"));
    crate::say!("{}{core}", text("parameters"));
    for f in v["functions"].as_array().into_iter().flatten() {
        let n = |k: &str| thousands(f[k].as_u64().unwrap_or(0));
        let core = f["core"].as_u64();
        let core = core.map_or(String::new(), |c| format!("  core {c}"));
        crate::say!(
            "  {:<20} {:>5.1}% of{core}  switches {} voluntary, {} not  wasted {}",
            f["name"].as_str().unwrap_or_default(),
            f["cpu_share"].as_f64().unwrap_or(0.0) * 100.0,
            n("voluntary_switches"),
            n("involuntary_switches"),
            n("wasted")
        );
    }
    for (name, n) in v["shed"].as_object().into_iter().flatten() {
        let n = n.as_u64().unwrap_or(0);
        if n > 0 {
            crate::say!(
                "  {name:<20} {:>12} packets shed at the entry",
                thousands(n)
            );
        }
    }
    for r in v["remarks"].as_array().into_iter().flatten() {
        crate::say!("  {}", r.as_str().unwrap_or_default());
    }
}

/// All policies.
fn list_all(as_json: bool) -> Result<u8> {
    if as_json {
        let all = KNOWN.iter().map(|k| {
            let parameters = k
                .parameters
                .iter()
                .map(|(key, about, default)| json!({ "key": key, "about": about, "default": default }));
            json!({ "name": k.name, "about": k.about, "parameters": parameters.collect::<Vec<_>>() })
        });
        return common::print_json(&json!({ "policies": all.collect::<Vec<_>>() }));
    }
    for k in KNOWN {
        crate::say!("{}", k.name);
        for line in wrap(k.about, 100) {
            crate::say!("    {line}");
        }
        for (key, about, default) in k.parameters {
            crate::say!("    {key:<14} {about} [{default}]");
        }
    }
    crate::say!(
        "A policy is written NAME,KEY=VALUE,...: nfvnice,high=70,class=batch. Times have units: 50us, 10ms."
    );
    Ok(common::HOLDS)
}

/// Words in lines of so many characters at most.
fn wrap(text: &str, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(l) if l.len() + 1 + word.len() <= width => {
                l.push(' ');
                l.push_str(word);
            }
            _ => lines.push(word.to_string()),
        }
    }
    lines
}
