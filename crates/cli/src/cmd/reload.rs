//! `onefold reload`, `rule`, `route`, `backend`: a running chain is changed.

use super::status::{PATIENCE, Which, refused};
use crate::common;
use crate::control::named;
use crate::servers;
use anyhow::Result;
use onefold_control::{Change, Edit, EditKind, Request, default_folder, find};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Options of `onefold reload`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "The new chain is read, synthesized and verified while the old one runs, and takes its place \
    between two batches. Functions that have not changed keep their state: bindings of NATs, neighbours, counters. \
    Changes made with `onefold rule`, `route` and `backend` are forgotten.\n\n\
    Exit status: 0 the new chain runs; 1 it does not fit or is refuted, 2 it is wrong: the old one goes on."
)]
pub struct Args {
    /// The name of the run, and the chain: a file, or the name of an example. One argument is the chain if no run has
    /// that name; without a chain, the one that runs is read again
    #[arg(value_name = "[NAME] [CHAIN]", num_args = 0..=2)]
    what: Vec<String>,
    /// Its control socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Sets a parameter of the chain. Without any, those of the run hold if the chain stays the same
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = common::key_value)]
    set: Vec<(String, String)>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

impl Args {
    /// The run, and the chain.
    fn parts(&self) -> (Option<String>, Option<String>) {
        let runs = |name: &str| find(&default_folder(), Some(name)).is_ok();
        match self.what.as_slice() {
            [] => (None, None),
            [one] if self.socket.is_none() && runs(one) => (Some(one.clone()), None),
            [one] => (None, Some(one.clone())),
            [name, chain, ..] => (Some(name.clone()), Some(chain.clone())),
        }
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let (name, chain) = args.parts();
    let which = Which {
        name: name.filter(|_| args.socket.is_none()),
        socket: args.socket.clone(),
    };
    let request = Request::Reload {
        chain: chain.map(|c| named(&c)),
        set: args
            .set
            .iter()
            .map(|(k, v)| (k.clone(), of_here(v)))
            .collect(),
    };
    ask(&which, &request, args.json)
}

/// A value that is the name of a file here is its path: the run is elsewhere.
fn of_here(value: &str) -> String {
    match std::path::Path::new(value).is_file() {
        true => named(value),
        false => value.to_string(),
    }
}

/// Options of `onefold rule`, `route` and `backend`.
#[derive(clap::Args, Debug)]
#[command(
    after_help = "It takes effect at once, and lasts until the chain is reloaded or ends: what is to stay belongs \
    into its file. Packets take the reference graph until the program is made anew and verified.\n\n\
    Examples:\n  \
    onefold rule add 'deny tcp dst port 23'\n  \
    onefold rule remove 1 --nf fw\n  \
    onefold route add '10.9.0.0/16 via 192.0.2.2' --run edge\n  \
    onefold backend drain 10.0.0.3\n  \
    onefold backend list"
)]
pub struct EditArgs {
    /// What to do
    #[arg(value_enum)]
    what: What,
    /// The rule, route or server, as in the chain file; of a rule to be removed also its number, from 1
    #[arg(value_name = "TEXT")]
    text: Vec<String>,
    /// The network function; the only one that has such things if not given
    #[arg(long, value_name = "FUNCTION")]
    nf: Option<String>,
    /// Rules are added in front of the one with this number, from 1; if not given, in front of all
    #[arg(long, value_name = "NUMBER")]
    at: Option<usize>,
    /// It takes effect when the new program is made and verified
    #[arg(long)]
    verify_first: bool,
    /// The name of the run; the only one if not given
    #[arg(long, value_name = "NAME", conflicts_with = "socket")]
    run: Option<String>,
    /// Its control socket
    #[arg(long, value_name = "PATH")]
    socket: Option<PathBuf>,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
enum What {
    /// Add it.
    Add,
    /// Remove it.
    Remove,
    /// A server gets no new flows; those that it has go on, and it keeps its place
    Drain,
    /// A server that was drained gets new flows again
    Resume,
    /// All servers, each with the flows that it has: one that is drained and has none is not needed any more
    List,
}

/// Runs `onefold rule`, `route` or `backend`.
pub fn edit(kind: EditKind, args: &EditArgs) -> Result<u8> {
    if args.at.is_some() && (kind != EditKind::Rule || args.what != What::Add) {
        anyhow::bail!(
            "--at is for rules that are added; others have no order, or go by their number"
        );
    }
    let change = match args.what {
        What::Add => Change::Add,
        What::Remove => Change::Remove,
        What::Drain => Change::Drain,
        What::Resume => Change::Resume,
        What::List => return list(kind, args),
    };
    if args.text.is_empty() {
        anyhow::bail!("which one? Give the rule, route or server, as in the chain file");
    }
    if kind != EditKind::Backend && matches!(change, Change::Drain | Change::Resume) {
        anyhow::bail!("servers of load balancers are drained and resumed: onefold backend drain");
    }
    let which = Which {
        name: args.run.clone(),
        socket: args.socket.clone(),
    };
    let request = Request::Edit {
        edit: Edit {
            kind,
            function: args.nf.clone(),
            change,
            text: args.text.join(" "),
            at: args.at,
        },
        verify_first: args.verify_first,
    };
    ask(&which, &request, args.json)
}

/// The servers of load balancers.
fn list(kind: EditKind, args: &EditArgs) -> Result<u8> {
    if kind != EditKind::Backend || !args.text.is_empty() || args.verify_first {
        anyhow::bail!("'list' is of servers, and of all: onefold backend list [--nf FUNCTION]");
    }
    let which = Which {
        name: args.run.clone(),
        socket: args.socket.clone(),
    };
    let mut client = which.connect(Some(PATIENCE))?;
    let request = Request::Status {
        rules: false,
        servers: true,
    };
    let mut v = match client.ask(&request) {
        Ok(v) => v,
        Err(e) => return refused(e, args.json),
    };
    let mut all = match v["servers"].take() {
        Value::Array(all) => all,
        _ => Vec::new(),
    };
    all.retain(|s| args.nf.as_ref().is_none_or(|nf| s["nf"] == **nf));
    if args.json {
        return common::print_json(&json!({ "servers": all }));
    }
    for s in &all {
        crate::say!("{}", servers::line(s));
    }
    Ok(common::HOLDS)
}

fn ask(which: &Which, request: &Request, json: bool) -> Result<u8> {
    // proofs take as long as they may
    let mut client = which.connect(None)?;
    let v = match client.ask(request) {
        Ok(v) => v,
        Err(e) => return refused(e, json),
    };
    if json {
        return common::print_json(&v);
    }
    let ms = |key: &str| v[key].as_f64().unwrap_or(0.0) * 1e3;
    let text = |v: &Value| v.as_str().unwrap_or_default().to_string();
    crate::say!(
        "{} runs: {:.1} ms after it was asked for, no packet waited longer than {:.2} ms",
        text(&v["chain"]),
        ms("seconds"),
        ms("pause_seconds")
    );
    crate::say!("  verification: {}", text(&v["verification"]));
    crate::say!("  elements that go on with their state: {}", v["kept"]);
    for lost in v["lost"].as_array().into_iter().flatten() {
        crate::say!("  begins anew: {}", text(lost));
    }
    for w in v["warnings"].as_array().into_iter().flatten() {
        eprintln!("{}", text(w));
    }
    Ok(common::HOLDS)
}
