//! `run --dispatch tag`: programs in front of `xdp:` ports that say by a frame's tag whose it is.

use crate::ports::Live;
use anyhow::{Context, Result};
use onefold_port_xdp::Loaded;
use onefold_runtime::FirstTag;
use onefold_synth::program::{Program, StageId};
use onefold_xdp_program::{Count, Dispatch, Input, Options, Tag, generate};

/// Puts such a program in front of each of these ports, which have so many sockets. Frames without a tag go to the
/// first one, which asks the partition.
///
/// # Errors
/// The kernel refuses it.
pub fn look_at_tags(live: &[Live], first: FirstTag, workers: usize) -> Result<()> {
    let tag = |n: usize| {
        let vlan = first.vlan(n).map(Tag::Vlan);
        Some((vlan.or(first.mac(n).map(Tag::Mac))?, n as u32))
    };
    let tags: Vec<(Tag, u32)> = (0..workers).filter_map(tag).collect();
    let options = Options {
        early_drop: false,
        dispatch: Dispatch::Tags {
            tags: &tags,
            undecided: 0,
        },
        ..Options::default()
    };
    // nothing is dropped: no rule of the chain is asked
    let input = Input {
        program: &Program::default(),
        entry: StageId(0),
        waits: &|_, _| false,
        trusts: &|_, _| false,
        assign: &|_, _| None,
    };
    for l in live {
        let Some((offload, _)) = &l.offload else {
            continue;
        };
        let about = || format!("--dispatch tag: port '{}'", l.port);
        let g = generate(&input, &options).with_context(about)?;
        let loaded = Loaded::new(&g.code, (0, Count::WORDS), g.places).with_context(about)?;
        offload.install(loaded).with_context(about)?;
    }
    Ok(())
}
