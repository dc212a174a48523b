//! The subcommands, one file each.

pub mod aimed;
pub mod ask;
pub mod bench;
pub mod burn;
pub mod capture;
pub mod check;
pub mod click;
pub mod compare;
pub mod diff;
pub mod explain;
mod findings;
pub mod generate;
mod judge;
mod prepared;
pub mod privileged;
pub mod prove;
pub mod reload;
pub mod run;
pub mod scale;
pub mod schedule;
pub mod show;
pub mod status;
pub mod top;
pub mod trace;
pub mod verify;
mod verify_xdp;
