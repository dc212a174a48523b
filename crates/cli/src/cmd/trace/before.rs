//! The packet that is to be followed, and those that pass the chain before it: of its own capture, and of those at
//! other ports.

use crate::{files, runner};
use anyhow::{Context, Result, bail};
use onefold_capture::Merge;
use onefold_chain::Chain;
use onefold_element::ElemId;
use onefold_packet::Timestamp;

/// A packet that comes before.
pub struct Before {
    /// Where it arrives.
    pub source: ElemId,
    /// Its bytes.
    pub frame: Vec<u8>,
    /// When.
    pub at: Timestamp,
}

/// All of them, in order.
pub type Frames = Vec<Before>;

/// The packet that is asked for: its port, the packets before it, and itself.
pub type Asked = (String, Frames, (Vec<u8>, Timestamp));

/// Ports and captures.
type Inputs = Vec<(String, String)>;

/// Which packet `PORT=FILE#N` names: the captures without the number, which one of them, and the number.
///
/// # Errors
/// None has a number, or several have.
pub fn named(inputs: &[(String, String)]) -> Result<(Inputs, (usize, u64))> {
    let mut which = None;
    let mut all = Vec::with_capacity(inputs.len());
    for (i, (port, spec)) in inputs.iter().enumerate() {
        let Some((file, n)) = spec.rsplit_once('#') else {
            all.push((port.clone(), spec.clone()));
            continue;
        };
        let n: u64 = (n.parse().ok().filter(|n| *n > 0))
            .context("expected a packet's number, from 1, behind '#'")?;
        if which.replace((i, n)).is_some() {
            bail!("one packet is followed: only one --in has '#N'");
        }
        all.push((port.clone(), file.to_string()));
    }
    let which = which.context(
        "expected PORT=FILE#N; hint: which packet of the capture, from 1, as in lan=lan.pcap#1",
    )?;
    Ok((all, which))
}

/// Packet number `n` of one of the captures, with what comes before it by time; at equal times the first capture's
/// packets come first.
///
/// # Errors
/// A capture cannot be read, or it has no such packet.
pub fn until(
    chain: &Chain,
    inputs: &[(String, String)],
    (which, n): (usize, u64),
) -> Result<Asked> {
    let (mut readers, mut sources) = (Vec::new(), Vec::new());
    for (port, file) in inputs {
        let p = runner::find_port(chain, port, true)?;
        let source = chain.ports.get(p).and_then(|p| p.source);
        sources.push(ElemId(source.unwrap_or(0) as u32));
        readers.push(files::open(file)?);
    }
    let mut merge = Merge::new(readers);
    let (mut before, mut frame, mut seen) = (Vec::new(), Vec::new(), 0);
    while let Some(next) = merge.next_into(&mut frame) {
        let (input, meta) = next?;
        let at = Timestamp(meta.ts_ns);
        if input == which {
            seen += 1;
        }
        if input == which && seen == n {
            let port = inputs
                .get(which)
                .map_or_else(String::new, |(p, _)| p.clone());
            return Ok((port, before, (frame, at)));
        }
        before.push(Before {
            source: sources.get(input).copied().unwrap_or(ElemId(0)),
            frame: frame.clone(),
            at,
        });
    }
    let file = inputs.get(which).map_or("", |(_, f)| f);
    bail!("{} has only {seen} packets", files::told(file))
}
