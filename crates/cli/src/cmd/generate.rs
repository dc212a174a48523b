//! `onefold gen`: captures and rule sets; on live ports: `crate::gen_live`.

use crate::common;
use crate::gen_live::LiveArgs;
use crate::progress::Progress;
use crate::runner;
use anyhow::Result;
use onefold_bench::{GenArgs, run as generate};
use std::sync::atomic::Ordering;

/// Options of `onefold gen`.
#[derive(clap::Args, Debug)]
pub struct Args {
    /// Aims at a chain: packets of flows that it lets pass, which enter at PORT (without it, at the first port from
    /// which any leave). MAC addresses, addresses and ports fit the chain; TCP flows are opened by a handshake. With
    /// --reverse, what comes back is written, too
    #[arg(long = "for", value_name = "CHAIN[:PORT]", help_heading = "For a chain",
          conflicts_with_all = ["rules", "from_rules", "answers_to", "headers", "src", "dst", "src6", "dst6", "sport", "dport",
              "ipv6", "segments", "stateless", "src_mac", "dst_mac", "reverse_src_mac", "reverse_dst_mac", "reply_to", "vlan",
              "ttl", "dscp", "payload", "needle", "needle_share", "exceptions", "exception_kinds"])]
    pub aim: Option<String>,
    /// Sets a parameter of that chain
    #[arg(long = "set", value_name = "KEY=VALUE", value_parser = common::key_value, requires = "aim",
          help_heading = "For a chain")]
    pub set: Vec<(String, String)>,
    #[command(flatten)]
    pub gen_args: GenArgs,
    #[command(flatten)]
    pub live: LiveArgs,
    /// Prints one JSON object
    #[arg(long)]
    pub json: bool,
    /// No progress bar
    #[arg(long, short)]
    pub quiet: bool,
}

/// A progress bar of packets.
pub struct Bar(Option<Progress>, bool);

impl Bar {
    /// One that has not been shown yet.
    pub fn new(quiet: bool) -> Bar {
        Bar(None, quiet)
    }
}

impl onefold_bench::Progress for Bar {
    fn packets(&mut self, done: u64, total: u64) -> bool {
        let quiet = self.1;
        let bar = self.0.get_or_insert_with(|| Progress::new(total, quiet));
        bar.at(done, || format!("{} packets", common::thousands(done)));
        if done >= total {
            bar.finish();
        }
        !runner::interrupted().load(Ordering::Relaxed)
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    if !args.live.ports.is_empty() {
        return crate::gen_live::run(args);
    }
    if let Some(chain) = &args.aim {
        return super::aimed::run(args, chain);
    }
    let files = [&args.gen_args.out, &args.gen_args.reverse];
    common::reserve_stdout(files.into_iter().flatten().filter_map(|f| f.to_str()))?;
    runner::catch_interrupt();
    let summary = generate(&args.gen_args, &mut Bar::new(args.quiet))?;
    if args.json {
        return common::print_json(&summary);
    }
    for f in &summary.files {
        crate::say!(
            "wrote {}: {} {}",
            f.path.display(),
            common::thousands(f.items),
            f.counts()
        );
    }
    if summary.packets > 0 {
        let flows = match summary.flows {
            0 => String::new(),
            n => format!(" of {} flows", common::thousands(n)),
        };
        crate::say!(
            "{} packets{flows}, {:.0} bytes on average, in {:.2} s",
            common::thousands(summary.packets),
            summary.mean_size,
            summary.seconds
        );
    }
    if let Some(r) = &summary.rules {
        let deny = r.deny.map_or(String::new(), |d| {
            format!(", {} deny", common::thousands(d))
        });
        let hit = r.exercised.map_or(String::new(), |n| {
            format!(", {} exercised", common::thousands(n))
        });
        crate::say!("{} rules{deny}{hit}", common::thousands(r.count));
    }
    Ok(common::HOLDS)
}
