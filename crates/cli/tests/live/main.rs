//! Chains between hosts that are real kernels: network namespaces with virtual interfaces between them, Onefold in
//! the middle. Needs root; everything that is made has names of its own and is removed.

mod alerts;
mod bench_live;
mod boxes;
mod changes;
#[path = "../common/mod.rs"]
mod common;
mod control;
mod diagnostics;
mod dpdk;
mod dpdk_workers;
mod edge;
#[path = "gen.rs"]
mod generated;
mod host;
mod hour;
mod kernel;
mod killed;
mod kills;
mod links;
mod load;
mod logging;
mod nat64;
mod offload;
mod processes;
mod running;
mod sandbox;
mod scaling;
mod screen;
mod servers;
mod tags;
mod trace;
mod traffic;
mod workers;
mod xdp;
