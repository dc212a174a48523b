//! What of a chain is outside of shared memory: interfaces between processes ([`cables`], [`fabric`]), and black boxes
//! ([`attach`]), with the process that sets one up and launches its program ([`inner`]).
//!
//! Nothing here has a name that outlives a process: namespaces are descriptors, interfaces are in them, folders are
//! file systems of a process's own. When processes end, however that happens, all of it is gone.

pub mod attach;
pub mod beyond;
pub mod cables;
pub mod fabric;
pub mod inner;
pub mod ip;
pub mod place;
pub mod program;
pub mod sleeper;

use onefold_chain::kinds::external::BlackBox;
use onefold_chain::segments::Segment;
use serde::{Deserialize, Serialize};

/// What a process has besides its rings.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct Outside {
    /// Interfaces in its namespace.
    pub wires: Vec<Wire>,
    /// The black box that it is attached to.
    pub boxed: Option<Boxed>,
}

impl Outside {
    /// Is this port of the process's chain an interface, or one of a black box?
    pub fn has(&self, port: &str) -> bool {
        let is = |p: &Option<String>| p.as_deref() == Some(port);
        let doors = self.boxed.as_ref().map_or(0, |b| b.black_box.ports.len());
        self.wires.iter().any(|w| is(&w.sends) || is(&w.receives))
            || (0..doors).any(|n| Segment::door(n) == port)
    }
}

/// An interface that leads to another process of the chain, and the ports of this one's chain that it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Wire {
    /// The interface.
    pub interface: String,
    /// The port that packets leave through.
    pub sends: Option<String>,
    /// The one that they arrive at.
    pub receives: Option<String>,
}

/// A black box.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Boxed {
    /// The function's name.
    pub name: String,
    /// What it is.
    pub black_box: BlackBox,
    /// Nothing is said.
    pub quiet: bool,
}
