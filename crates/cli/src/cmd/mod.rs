//! The subcommands, one file each.

pub mod aimed;
pub mod bench;
pub mod check;
pub mod click;
pub mod explain;
pub mod generate;
pub mod prove;
pub mod run;
pub mod show;
pub mod trace;
pub mod verify;
