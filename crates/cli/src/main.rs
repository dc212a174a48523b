//! The `onefold` command: thin; the crates below do the work.
//!
//! Exit status: 0 what was asked holds, 1 it does not, 2 wrong use or bad input, 130 and 143 it holds as far as it went
//! until Ctrl-C or SIGTERM.
#![forbid(unsafe_code)]

mod account;
mod alerts;
mod answers;
mod bench;
mod bindings;
mod cache;
mod classifier;
mod cmd;
mod common;
mod control;
mod counterexample;
mod deploy;
mod dropped;
mod explain;
mod files;
mod gate;
mod gen_live;
mod graphview;
mod health;
mod history;
mod html;
mod links;
mod live;
mod log;
mod merge;
mod ports;
mod program;
mod progress;
mod rules;
mod runner;
mod sandbox;
mod schema;
mod servers;
mod service;
mod shadow;
mod xdp;

use anyhow::Context;
use clap::{CommandFactory, Parser, Subcommand};
use std::process::ExitCode;

/// Runs chains of network functions.
#[derive(Parser)]
#[command(
    name = "onefold",
    version,
    about = "Runs chains of network functions (firewall, router, NAT, load balancer, DPI ...) on captures and network interfaces",
    long_about = "Runs chains of network functions.\n\n\
        A chain is a YAML file (see `onefold schema`) or the name of an example (see `onefold show --list`). Functions are \
        Click configurations or Onefold's own kinds: firewall, router, nat, load-balancer, dpi, monitor, vlan.",
    after_help = "First steps:\n  \
        onefold show --list                                              the examples\n  \
        onefold gen --for isp-edge --out lan.pcap --packets 100000       packets that the chain lets pass\n  \
        onefold run isp-edge --in lan=lan.pcap --out wan=out.pcap        what becomes of them\n  \
        onefold trace isp-edge --in lan=lan.pcap#1                       why, for one of them\n  \
        onefold show isp-edge --html chain.html                          the chain, drawn\n\n\
        ONEFOLD_CHAINS names a folder with more examples, ONEFOLD_CACHE the folder in which proofs are kept (empty: none),\n\
        ONEFOLD_ISA the most that is used of the processor (avx512, avx2, any), ONEFOLD_MATCHER who looks for patterns in\n\
        payloads (auto, portable, vectorscan).\n\
        Exit status: 0 what was asked holds, 1 it does not, 2 wrong use or bad input, 130 Ctrl-C and 143 SIGTERM\n\
        (what there was until then is printed).",
    subcommand_required = true,
    arg_required_else_help = true
)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Checks a chain: every error at once, with its place
    Check(cmd::check::Args),
    /// Shows a chain's stitched graph
    Show(cmd::show::Args),
    /// Runs captures, or what arrives at network interfaces, through a chain
    Run(Box<cmd::run::Args>),
    /// One process of a chain whose functions run in several: `run` launches it
    #[command(hide = true)]
    Segment(Box<cmd::run::processes::segment::Args>),
    /// The first process of a black box's namespaces: `run` launches it
    #[command(hide = true)]
    Box(cmd::run::processes::outside::inner::Args),
    /// A network function that costs processor time and does nothing else: a program of a chain, for experiments
    #[command(hide = true)]
    Burn(cmd::burn::Args),
    /// Says how a running chain stands
    Status(cmd::status::Args),
    /// Shows how a running chain stands, again and again: rates, drops, load
    Top(cmd::top::Args),
    /// Puts another chain, or the same one read again, in the place of the one that runs
    Reload(cmd::reload::Args),
    /// Adds or removes a rule of a running chain's firewall
    Rule(cmd::reload::EditArgs),
    /// Adds or removes a route of a running chain's router
    Route(cmd::reload::EditArgs),
    /// Adds or removes a server of a running chain's load balancer
    Backend(cmd::reload::EditArgs),
    /// Says how many workers a running chain has
    Scale(cmd::scale::Args),
    /// Says, or changes, how functions in processes of their own share cores; `list` explains all policies
    #[command(visible_alias = "policy")]
    Schedule(cmd::schedule::Args),
    /// Writes down packets of a running chain: of a port, a traffic class, or a drop reason
    Capture(cmd::capture::Args),
    /// Follows one packet through a chain: every decision, with the rule that made it
    Trace(cmd::trace::Args),
    /// Explains what a chain became: traffic classes, what is done to each, which rules made them, what is punted
    Explain(cmd::explain::Args),
    /// Tells what two chains, or two rule files, do differently: classes of packets, not lines
    Diff(cmd::diff::Args),
    /// Answers whether packets can get somewhere: no, proved; or yes, with a packet and its way
    Ask(cmd::ask::Args),
    /// Compares executions of a chain, packet by packet
    Verify(cmd::verify::Args),
    /// Compares a chain with what else can do the same: `kernel`, Linux with the same rules and routes
    Compare(cmd::compare::Args),
    /// Measures what a packet costs in chains, beside what it costs to touch a packet at all
    Bench(Box<cmd::bench::Args>),
    /// Generates traffic: captures and rule sets, or packets on network interfaces that are counted and timed
    Gen(Box<cmd::generate::Args>),
    /// Runs a Click configuration as Click's user-level driver does
    #[command(disable_help_flag = true)]
    Click(cmd::click::Args),
    /// Keeps privilege for a run (which starts it)
    #[command(name = sandbox::NAME, hide = true)]
    Privileged(cmd::privileged::Args),
    /// Prints a JSON Schema: of the chain file, or of what a command prints with --json
    Schema {
        /// Which one; --list names them
        #[arg(value_name = "NAME", default_value = schema::CHAIN, value_parser = schema::names())]
        name: String,
        /// Names all schemas
        #[arg(long)]
        list: bool,
    },
    /// Writes manual pages (onefold.1, onefold-run.1 ...) into a folder
    Man {
        /// The folder, which is there
        folder: std::path::PathBuf,
    },
    /// Prints a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    if let Err(e) = onefold_classify::check_environment() {
        eprintln!("onefold: {e}");
        return ExitCode::from(common::BAD_INPUT);
    }
    if let Err(e) = onefold_elements::payload::scan::check_environment() {
        eprintln!("onefold: {e}");
        return ExitCode::from(common::BAD_INPUT);
    }
    let result = match cli.command {
        Command::Check(a) => cmd::check::run(&a),
        Command::Show(a) => cmd::show::run(&a),
        Command::Run(a) => cmd::run::run(&a),
        Command::Segment(a) => cmd::run::processes::segment::run(&a),
        Command::Box(a) => cmd::run::processes::outside::inner::run(&a),
        Command::Burn(a) => cmd::burn::run(&a),
        Command::Status(a) => cmd::status::run(&a),
        Command::Top(a) => cmd::top::run(&a),
        Command::Reload(a) => cmd::reload::run(&a),
        Command::Rule(a) => cmd::reload::edit(onefold_control::EditKind::Rule, &a),
        Command::Route(a) => cmd::reload::edit(onefold_control::EditKind::Route, &a),
        Command::Backend(a) => cmd::reload::edit(onefold_control::EditKind::Backend, &a),
        Command::Scale(a) => cmd::scale::run(&a),
        Command::Schedule(a) => cmd::schedule::run(&a),
        Command::Capture(a) => cmd::capture::run(&a),
        Command::Trace(a) => cmd::trace::run(&a),
        Command::Explain(a) => cmd::explain::run(&a),
        Command::Diff(a) => cmd::diff::run(&a),
        Command::Ask(a) => cmd::ask::run(&a),
        Command::Verify(a) => cmd::verify::run(&a),
        Command::Compare(a) => cmd::compare::run(&a),
        Command::Bench(a) => cmd::bench::run(&a),
        Command::Gen(a) => cmd::generate::run(&a),
        Command::Click(a) => cmd::click::run(&a),
        Command::Privileged(a) => cmd::privileged::run(&a),
        Command::Schema { list: true, .. } => {
            for name in schema::names() {
                say!("{name}");
            }
            Ok(common::HOLDS)
        }
        Command::Schema { name, .. } => match schema::of(&name) {
            Some(s) => common::print_json(&s),
            None => Err(anyhow::anyhow!("there is no schema '{name}'")),
        },
        Command::Man { folder } => clap_mangen::generate_to(Cli::command(), &folder)
            .map(|()| common::HOLDS)
            .with_context(|| format!("'{}'", folder.display())),
        Command::Completions { shell } => {
            clap_complete::generate(
                shell,
                &mut Cli::command(),
                "onefold",
                &mut std::io::stdout(),
            );
            Ok(common::HOLDS)
        }
    };
    match result {
        Ok(status) => ExitCode::from(runner::status(status)),
        // the reader has gone: nobody to tell
        Err(e)
            if e.chain().any(|e| {
                e.downcast_ref::<std::io::Error>()
                    .is_some_and(|e| e.kind() == std::io::ErrorKind::BrokenPipe)
            }) =>
        {
            ExitCode::from(common::HOLDS)
        }
        Err(e) => {
            eprintln!("onefold: {e:#}");
            ExitCode::from(common::BAD_INPUT)
        }
    }
}
