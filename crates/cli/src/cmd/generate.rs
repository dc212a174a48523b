//! `onefold gen`: captures and rule sets.

use crate::common;
use crate::progress::Progress;
use anyhow::Result;
use onefold_bench::{GenArgs, run as generate};

/// Options of `onefold gen`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    gen_args: GenArgs,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
    /// No progress bar
    #[arg(long, short)]
    quiet: bool,
}

struct Bar(Option<Progress>, bool);

impl onefold_bench::Progress for Bar {
    fn packets(&mut self, done: u64, total: u64) -> bool {
        let quiet = self.1;
        let bar = self.0.get_or_insert_with(|| Progress::new(total, quiet));
        bar.at(done, || format!("{} packets", common::thousands(done)));
        if done >= total {
            bar.finish();
        }
        true
    }
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let summary = generate(&args.gen_args, &mut Bar(None, args.quiet))?;
    if args.json {
        return common::print_json(&summary);
    }
    for f in &summary.files {
        crate::say!(
            "wrote {}: {} {}",
            f.path.display(),
            common::thousands(f.items),
            f.what
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
