//! The small process that keeps privilege for a run that has given it up: it makes sockets, maps, programs and links
//! for the run's interfaces, and passes their descriptors. It takes no packets, and reads nothing but requests.

use crate::common;
use anyhow::{Context, Result};
use onefold_bpf::{Instruction, kernel};
use onefold_port_interface::Interface;
use onefold_privilege::{Answer, Request, make_packet_socket, make_xdp_socket, serve};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

/// Options of the process; `run` starts it.
#[derive(clap::Args)]
pub struct Args {
    /// Interfaces that programs may be attached to
    interfaces: Vec<String>,
}

/// Answers at standard input until the other side is gone.
pub fn run(args: &Args) -> Result<u8> {
    // it ends with the run, which a signal may only ask to end
    let asked = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGTERM, signal_hook::consts::SIGINT] {
        signal_hook::flag::register(signal, asked.clone())?;
    }
    let stream = std::io::stdin().as_fd().try_clone_to_owned()?;
    // it makes descriptors, and no more
    onefold_privilege::no_new_privileges()?;
    serve(stream, &mut |r, fds| make(args, r, &fds)).context("the run that asks")?;
    Ok(common::HOLDS)
}

fn make(args: &Args, request: Request, fds: &[OwnedFd]) -> Result<OwnedFd, Answer> {
    Ok(match request {
        Request::PacketSocket(buffers) => make_packet_socket(buffers)?,
        Request::XdpSocket => make_xdp_socket()?,
        Request::Map {
            counters,
            entries,
            words,
        } => kernel::make_map(counters, entries, words)?,
        Request::Program(code) => {
            let invalid = || io::Error::from(io::ErrorKind::InvalidInput);
            let code = Instruction::all_of(&code).ok_or_else(invalid)?;
            let maps: Vec<_> = fds.iter().map(AsFd::as_fd).collect();
            kernel::make_program(code, &maps).map_err(|e| Answer {
                error: e.error,
                log: e.log,
            })?
        }
        Request::Link { interface, generic } => {
            let allowed = (args.interfaces.iter())
                .filter_map(|i| Interface::find(i).ok())
                .any(|i| i.index == interface);
            let program = fds.first().filter(|_| allowed);
            let denied = || io::Error::from(io::ErrorKind::PermissionDenied);
            kernel::make_link(program.ok_or_else(denied)?.as_fd(), interface, generic)?
        }
    })
}
