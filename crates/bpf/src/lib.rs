//! eBPF byte code (RFC 9669), without clang and without libbpf: what programs for network drivers (XDP) need.
//!
//! - [`Assembler`] makes [`Code`] of operations with labels; [`Code::text`] prints it.
//! - [`interpret`] carries it out here, for a frame.
//! - [`Map`], [`Program`] and [`Link`] are the kernel's ([`kernel`]): a descriptor each, gone when it is closed,
//!   by whatever end of the process.
//!
//! ```
//! use onefold_bpf::{Assembler, Reg, interpret};
//! let mut a = Assembler::default();
//! // XDP_DROP
//! a.mov(Reg(0), 1);
//! a.exit();
//! let code = a.finish()?;
//! assert_eq!(code.text().trim(), "0: r0 = 1\n     1: exit");
//! assert_eq!(interpret(&code, &mut [], &[0; 60], 0)?.result, 1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! All `unsafe` code is in `kernel`.
#![deny(unsafe_code)]

mod assembler;
mod instruction;
mod interpret;
pub mod kernel;
mod text;

pub use assembler::{
    AssembleError, Assembler, Code, Helper, Label, MAX_INSTRUCTIONS, MapRef, Operand,
};
pub use instruction::{Instruction, Op, Reg, Size, When};
pub use interpret::{Answer, Fault, Table, interpret};
pub use kernel::{Link, LoadError, Map, MapKind, Program};
