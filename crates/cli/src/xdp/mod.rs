//! XDP programs made from a chain: made for its entry ports, and what they have dropped accounted for.

mod offload;
mod subject;
mod tags;

pub use offload::{DroppedEarly, Entries, Offloader, Offloading, Offloads, Prepared};
pub use subject::{Asked, Early, Told};
pub use tags::look_at_tags;

use anyhow::{Context, Result};
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_engine::{Discarded, Graph};
use onefold_synth::Program;
use onefold_xdp_program::{
    Class, Count, Generated, Input, Left, Options, Summary, Trusts, generate,
};

/// The program of a port.
#[derive(Debug, Clone)]
pub struct PortProgram {
    /// The chain's port.
    pub port: String,
    /// Where its packets enter.
    pub entry: ElemId,
    /// The program.
    pub generated: Generated,
}

/// A program for each port that packets enter at.
///
/// # Errors
/// One would be longer than the kernel takes.
pub fn programs(
    chain: &Chain,
    graph: &Graph,
    program: &Program,
    trusts: Trusts<'_>,
    options: &Options<'_>,
) -> Result<Vec<PortProgram>> {
    let mut all = Vec::new();
    for p in &chain.ports {
        let Some(source) = p.source else { continue };
        let made = of_entry(graph, program, ElemId(source as u32), trusts, options);
        let made = made.with_context(|| format!("the XDP program of port '{}'", p.name))?;
        all.extend(made.map(|generated| PortProgram {
            port: p.name.clone(),
            entry: ElemId(source as u32),
            generated,
        }));
    }
    Ok(all)
}

/// The program of an entry; `None`: the chain's program has no such entry.
///
/// # Errors
/// It would be longer than the kernel takes.
pub fn of_entry(
    graph: &Graph,
    program: &Program,
    entry: ElemId,
    trusts: Trusts<'_>,
    options: &Options<'_>,
) -> Result<Option<Generated>> {
    let Some(e) = program.entries.iter().find(|e| e.source == entry) else {
        return Ok(None);
    };
    let waits = |e, tag| graph.tells_later(e, tag);
    let input = Input {
        program,
        entry: e.stage,
        waits: &waits,
        trusts,
        assign: &|_, _| None,
    };
    Ok(Some(generate(&input, options)?))
}

/// Tells the chain of packets that were dropped in front of it. False: it does not take the reason.
pub fn account(graph: &mut Graph, class: &Class, count: Count) -> bool {
    let counts = class.counts.iter();
    let decisions = class.decisions.iter();
    graph.account_discarded(&Discarded {
        elem: class.elem,
        reason: &class.reason,
        packets: count.packets,
        counts: counts
            .map(|(e, tag, len)| (*e, *tag, count.bytes_at(*len)))
            .collect(),
        decisions: decisions
            .map(|(e, arg, len)| (*e, *arg, count.bytes_at(*len)))
            .collect(),
    })
}

/// What became of a port's rules, in words.
pub fn told(s: &Summary) -> String {
    let given_up = match s.given_up {
        0 => String::new(),
        n => format!(" ({n} found no room at some place: frames that come there pass)"),
    };
    let left: String = (Left::ALL.iter().zip(s.left))
        .filter(|(_, n)| *n > 0)
        .map(|(why, n)| format!("; {n} more drop, but stay with the chain: {}", why.name()))
        .collect();
    format!(
        "{} rules, {} of them drop early, as {} classes{given_up}{left}; {} instructions, {} questions at most",
        s.rules, s.dropping, s.classes, s.instructions, s.depth
    )
}

/// Rules that drop, but stay with the chain, by why.
pub fn left_json(s: &Summary) -> serde_json::Map<String, serde_json::Value> {
    let all = Left::ALL.iter().zip(s.left).filter(|(_, n)| *n > 0);
    all.map(|(why, n)| (why.name().to_string(), n.into()))
        .collect()
}
