//! The XDP program of a queue: the one that hands its frames to their socket, or one that an [`Offload`] has in its
//! place.
//!
//! It is attached by a link, which is a descriptor: when that is closed, by whatever end of the process, the program is
//! gone from the interface. What queues get that have no socket goes to the host as if nothing was there.

use crate::offload::{Attached, Offload};
use onefold_bpf::kernel::AttachError;
use onefold_bpf::{AssembleError, Assembler, Code, Helper, Link, Map, MapRef, Reg, Size};
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;

/// `XDP_PASS`.
const PASS: i32 = 2;
/// Offset of `rx_queue_index` in `struct xdp_md`.
const QUEUE: i16 = 16;

/// `return bpf_redirect_map(&sockets, ctx->rx_queue_index, XDP_PASS);`
fn assembled() -> Result<Code, AssembleError> {
    let mut a = Assembler::default();
    a.load(Size::Word, Reg(2), Reg(1), QUEUE);
    a.map(Reg(1), MapRef(0));
    a.mov(Reg(3), PASS);
    a.call(Helper::RedirectMap);
    a.exit();
    a.finish()
}

/// The program, attached to an interface until this is dropped.
#[derive(Debug)]
pub struct Program {
    attached: Arc<Attached>,
    sockets: Map,
    offload: Offload,
    /// The driver does not know XDP: the kernel runs the program behind it.
    pub generic: bool,
}

/// What went wrong.
#[derive(Debug)]
pub enum ProgramError {
    /// The program could not be loaded.
    Load(io::Error),
    /// It could not be attached.
    Attach(io::Error),
    /// Another one is attached.
    Occupied,
}

impl Program {
    /// Loads it with room for sockets of so many queues, and attaches it: in the driver, or, where that does not know
    /// XDP, behind it. Nothing is redirected yet.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub fn attach(index: u32, queues: u32, offload: &Offload) -> Result<Program, ProgramError> {
        let sockets = Map::sockets(queues).map_err(ProgramError::Load)?;
        let code = assembled().map_err(|e| ProgramError::Load(io::Error::other(e)))?;
        let plain = onefold_bpf::Program::load(&code, &[&sockets]);
        let plain = plain.map_err(|e| ProgramError::Load(e.error))?;
        let link = Link::attach(&plain, index).map_err(|e| match e {
            AttachError::System(e) => ProgramError::Attach(e),
            AttachError::Occupied => ProgramError::Occupied,
        })?;
        Ok(Program {
            generic: link.generic,
            attached: Arc::new(Attached::new(link, plain)),
            sockets,
            offload: offload.clone(),
        })
    }

    /// From now on frames of a queue go to this socket: by this program, or by the one in its place.
    ///
    /// # Errors
    /// What the system says.
    pub fn redirect(&self, queue: u32, socket: RawFd) -> io::Result<()> {
        self.sockets.set_socket(queue, socket)?;
        self.offload.attach(&self.attached, queue, socket)
    }
}

impl Drop for Program {
    /// Nobody holds on to the link.
    fn drop(&mut self) {
        self.offload.detach(&self.attached);
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_plain_program_redirects_by_queue() {
        let text = super::assembled().expect("code").text();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let wanted = [
            "0: r2 = *(u32 *)(r1 + 16)",
            "1: r1 = map 0",
            "3: r3 = 2",
            "4: r0 = redirect_map(r1, r2, r3)",
            "5: exit",
        ];
        assert_eq!(lines, wanted);
    }
}
