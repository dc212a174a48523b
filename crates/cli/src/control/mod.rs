//! A running chain is asked and changed from outside: its control socket, its metrics, and what the worker does about
//! them between two batches.

pub mod capture;
pub mod metrics;
mod reload;
mod serve;
pub mod session;
mod status;
mod trace;

pub use reload::{OpenPort, PATIENCE, named, open_ports};
pub use serve::{ControlArgs, Controls, Workers, bind, start};
pub use session::{Command, Earlier, Made, Session};
