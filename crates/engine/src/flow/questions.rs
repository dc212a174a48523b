//! What tables of neighbours were asked about a packet on its way.

use crate::flow::masked_match::MaskedMatch;
use crate::program::code::Code;
use crate::program::headers::registers::{Address, Source};
use crate::program::path::Path;
use crate::simd::WINDOW;
use onefold_element::model::RouteWhat;

/// What a table was asked: its number in the program, and the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Question {
    pub table: u16,
    pub address: u128,
}

/// What was asked about a packet on its way.
#[derive(Debug, Clone, Default)]
pub(crate) struct Questions {
    pub all: Vec<Question>,
    /// The address of one is the packet's own: other packets of the same rules ask about others.
    pub own: bool,
}

/// What tables of neighbours were asked about a packet that went this path, and knew; `window`: the packet as it
/// arrived, looked at from `shift` bytes before its first one.
///
/// # Errors
/// When an address is no part of the flow's key.
pub(crate) fn questions(
    code: &Code,
    path: &Path,
    guard: &MaskedMatch,
    (window, shift): (&[u8; WINDOW], i32),
) -> Result<Questions, &'static str> {
    let mut out = Questions::default();
    let regs = path.rules.iter().filter_map(|r| code.asks.get(r)).flatten();
    for reg in regs {
        let Some(Source::Route(table, of, RouteWhat::Known)) = code.sources.get(usize::from(*reg))
        else {
            continue;
        };
        let (address, own) = address(of, guard, (window, shift))?;
        out.own |= own;
        let question = Question {
            table: *table,
            address,
        };
        if !out.all.contains(&question) {
            out.all.push(question);
        }
    }
    Ok(out)
}

/// The address that a table is asked about, and whether it is the packet's own; see [`questions`].
///
/// # Errors
/// As there.
pub(crate) fn address(
    of: &Address,
    guard: &MaskedMatch,
    (window, shift): (&[u8; WINDOW], i32),
) -> Result<(u128, bool), &'static str> {
    match of {
        Address::Is(address) => Ok((*address, false)),
        Address::Bits(b) => {
            let b = b.shifted(shift);
            let (bit, bits) = b.position();
            match guard.shape.in_key(bit, bits) {
                true => Ok((b.read(window, 0), true)),
                false => Err("a neighbour's address that is not in the key"),
            }
        }
        Address::Anno(..) => Err("a neighbour's address in an annotation"),
    }
}
