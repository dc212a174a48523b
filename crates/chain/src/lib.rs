//! The chain file: network functions, links and ports, stitched into one graph of elements.
//!
//! - [`load`] reads a chain file (or finds an example by name), applies parameters, builds every network function's
//!   graph and stitches them; [`Chain`] is the result: a [`GraphSpec`](onefold_element::GraphSpec) for the engine, and
//!   the chain's ports with the elements that packets enter and leave through.
//! - [`kinds`]: network functions without Click. Each is *defined as a graph of elements*, printable as Click text,
//!   whose line directives point at the rules and routes it was made from.
//! - [`import`]: rule sets and routes in other tools' formats. What an importer cannot express is refused by name.
//! - [`kernel`]: a chain as a Linux kernel can have it, for `onefold compare kernel`.
//! - [`segments`]: a chain some of whose functions run in processes of their own, cut into one chain for each.
//! - [`schema`]: the JSON Schema of the chain file.
//!
//! Everything that is wrong with a chain is reported at once, as [`Diagnostic`]s with file, line and column.
#![forbid(unsafe_code)]

pub mod cores;
mod edit;
pub mod error;
pub mod file;
mod find;
pub mod import;
pub mod kernel;
pub mod kinds;
mod links;
pub mod live;
mod load;
mod params;
mod placement;
mod places;
mod rounds;
mod rules;
pub mod segments;
mod stitch;
mod structure;
mod values;
mod wiring;
mod workers;
mod yaml;

pub use edit::{Change, Edit, EditKind};
pub use error::{ChainError, Reader};
pub use file::schema;
pub use find::{example_names, find};
pub use kinds::load_balancer::{Balanced, HealthPlan, HealthServer, Probe};
pub use live::{Attached, LivePort};
pub use load::{Options, load, load_edited, load_live, load_text, load_whole};
pub use onefold_click::diag::{Diagnostic, Severity};
pub use placement::{Interconnect, OnCrash, Placement, Run};
pub use rules::{ListedRule, RulePlace};
pub use stitch::{Chain, ChainPort, FunctionInfo, LinkInfo};
pub use workers::{WorkerChains, load_workers, load_workers_edited, load_workers_live};
