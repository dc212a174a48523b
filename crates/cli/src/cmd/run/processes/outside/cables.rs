//! Interfaces between processes: each process of a chain that is connected so has a network namespace of its own, and
//! for each neighbour a virtual interface there, whose other end is the neighbour's, or Open vSwitch's.

use super::{Wire, ip};
use anyhow::{Context, Result};
use onefold_chain::segments::Segments;
use onefold_nf::NetSpace;
use std::sync::Arc;

/// Longest frames that cross, in bytes, less the Ethernet header.
const MTU: u32 = 9000;
/// Packets that wait in an interface.
const QUEUE: u32 = 4096;

/// A cable between two processes, and which ports of their chains it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Cable {
    /// The segments at its ends.
    pub ends: [usize; 2],
    /// The cut that packets take from the first to the second end, by number; and back.
    pub cuts: [Option<usize>; 2],
}

impl Cable {
    /// All cables of a chain: the two directions between two segments share one.
    pub fn all(segments: &Segments) -> Vec<Cable> {
        let mut all: Vec<Cable> = Vec::new();
        for (n, cut) in segments.cuts.iter().enumerate() {
            let back = |c: &&mut Cable| c.ends == [cut.to, cut.from] && c.cuts[1].is_none();
            match all.iter_mut().find(back) {
                Some(cable) => cable.cuts[1] = Some(n),
                None => all.push(Cable {
                    ends: [cut.from, cut.to],
                    cuts: [Some(n), None],
                }),
            }
        }
        all
    }
}

/// What the interface of a cable's end is called in its namespace.
fn interface(cable: usize) -> String {
    format!("w{cable}")
}

/// The namespaces of a chain's processes, by segment, and the interfaces in them.
pub struct Cables {
    /// By segment.
    pub spaces: Vec<Arc<NetSpace>>,
    /// By segment: its interfaces.
    pub wires: Vec<Vec<Wire>>,
    /// Open vSwitch's namespace, if it connects them, and its interfaces by pairs that belong together.
    pub switch: Option<(Arc<NetSpace>, Vec<[String; 2]>)>,
}

impl Cables {
    /// Lays them, between neighbours or to a switch's namespace.
    ///
    /// # Errors
    /// Without privilege, or without `ip`.
    pub fn lay(segments: &Segments, switched: bool) -> Result<Cables> {
        let space = || -> Result<Arc<NetSpace>> {
            let space = NetSpace::new()
                .context("making a network namespace (that takes CAP_SYS_ADMIN: run as root)")?;
            ip::settings(&space, &ip::silent())?;
            Ok(Arc::new(space))
        };
        let spaces: Vec<Arc<NetSpace>> = segments
            .all
            .iter()
            .map(|_| space())
            .collect::<Result<_>>()?;
        let mut wires: Vec<Vec<Wire>> = segments.all.iter().map(|_| Vec::new()).collect();
        let switch = switched.then(space).transpose()?;
        let mut pairs = Vec::new();
        for (n, cable) in Cable::all(segments).iter().enumerate() {
            let [a, b] = cable.ends;
            let (Some(left), Some(right)) = (spaces.get(a), spaces.get(b)) else {
                continue;
            };
            match &switch {
                None => pair((left, &interface(n)), (right, &interface(n)))?,
                Some(switch) => {
                    let ports = [format!("w{n}a"), format!("w{n}b")];
                    pair((left, &interface(n)), (switch, &ports[0]))?;
                    pair((right, &interface(n)), (switch, &ports[1]))?;
                    pairs.push(ports);
                }
            }
            let name = |cut: Option<usize>| segments.cuts.get(cut?).map(|c| c.port.clone());
            for (end, way) in [(a, cable.cuts), (b, [cable.cuts[1], cable.cuts[0]])] {
                if let Some(w) = wires.get_mut(end) {
                    w.push(Wire {
                        interface: interface(n),
                        sends: name(way[0]),
                        receives: name(way[1]),
                    });
                }
            }
        }
        Ok(Cables {
            spaces,
            wires,
            switch: switch.map(|s| (s, pairs)),
        })
    }
}

/// A pair of virtual interfaces, each in its namespace, set up.
fn pair((left, l): (&Arc<NetSpace>, &str), (right, r): (&Arc<NetSpace>, &str)) -> Result<()> {
    let add = format!(
        "link add {l} mtu {MTU} txqueuelen {QUEUE} type veth peer name {r} mtu {MTU} txqueuelen {QUEUE} netns {}",
        right.path()
    );
    ip::batch(left, &[add, format!("link set {l} up")])?;
    ip::batch(right, &[format!("link set {r} up")])
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_chain::segments::Cut;

    #[test]
    fn directions_between_two_segments_share_a_cable() {
        let cut = |from, to| Cut {
            port: format!("{from}->{to}"),
            from,
            to,
            origin: None,
        };
        let segments = Segments {
            all: Vec::new(),
            // two links between the same two, and one way only to a third
            cuts: vec![cut(0, 1), cut(1, 0), cut(0, 1), cut(1, 0), cut(1, 2)],
        };
        let all = Cable::all(&segments);
        let ends: Vec<_> = all.iter().map(|c| (c.ends, c.cuts)).collect();
        assert_eq!(
            ends,
            [
                ([0, 1], [Some(0), Some(1)]),
                ([0, 1], [Some(2), Some(3)]),
                ([1, 2], [Some(4), None])
            ]
        );
    }
}
