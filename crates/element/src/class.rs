//! Element classes: what is known of an element before it is configured.

use crate::element::Element;

/// What an element does besides deciding a packet's way, and so whether it may be folded into one action
/// (DESIGN, "What may be folded, and what may not").
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Effect {
    /// Output depends on the packet (and annotations) alone.
    Pure,
    /// Depends on, and changes, state that belongs to the packet's flow.
    PerFlow,
    /// Counts; the order of packets does not matter.
    CommutativeCount,
    /// The result depends on the order of packets across flows.
    OrderSensitive,
    /// Depends on the clock.
    Timed,
    /// Depends on random numbers.
    Random,
    /// Makes packets of its own.
    Originating,
    /// Keeps packets.
    Holding,
}

/// An inclusive range of port counts, from a Click port-count code (`"1"`, `"1-2"`, `"2-"`, `"-"`, `"="`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PortRange {
    /// Least number of ports.
    pub min: usize,
    /// Most ports, `None` for no limit.
    pub max: Option<usize>,
    /// `=`, with how many more outputs than inputs (`=+`, `=++` ...).
    pub same_as_inputs: Option<usize>,
}

impl PortRange {
    /// Parses one half of a port-count code.
    pub fn parse(s: &str) -> Option<PortRange> {
        if let Some(plus) = s.strip_prefix('=') {
            let ok = plus.bytes().all(|b| b == b'+');
            return ok.then_some(PortRange {
                min: 0,
                max: None,
                same_as_inputs: Some(plus.len()),
            });
        }
        let (min, max) = match s.split_once('-') {
            None => {
                let n = s.parse().ok()?;
                (n, Some(n))
            }
            Some((a, b)) => (
                if a.is_empty() { 0 } else { a.parse().ok()? },
                if b.is_empty() {
                    None
                } else {
                    Some(b.parse().ok()?)
                },
            ),
        };
        Some(PortRange {
            min,
            max,
            same_as_inputs: None,
        })
    }
}

/// Push, pull or agnostic, per port (Click's processing codes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Processing {
    /// Agnostic: as its neighbours; all agnostic ports that packets flow between agree.
    Agnostic,
    /// Push.
    Push,
    /// Pull.
    Pull,
}

impl Processing {
    /// The processing of port `i` given one half of a code (`"h"`, `"a"`, `"lh"`: the last letter repeats; `~` after a
    /// letter is accepted and ignored).
    pub fn of(half: &str, i: usize) -> Processing {
        let letters = half.bytes().filter(|b| b.is_ascii_alphabetic());
        let n = letters.clone().count();
        match letters.clone().nth(i.min(n.saturating_sub(1))) {
            Some(b'h') => Processing::Push,
            Some(b'l') => Processing::Pull,
            _ => Processing::Agnostic,
        }
    }
}

/// A Click flow code (`"x/x"`: every input flows to every output, `"x/y"`: none does, `"xy/yx"`, `"#/#"`,
/// `"[^y]/..."`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowCode(pub &'static str);

/// Everything about a kind of element that does not depend on a configuration.
#[derive(Debug, Clone, Copy)]
pub struct ElementClass {
    /// Class name as it stands in a configuration.
    pub name: &'static str,
    /// Port counts, Click's code: `"inputs/outputs"`, e.g. `"1/1-2"`; a code without slash counts for both.
    pub ports: &'static str,
    /// Push/pull processing, Click's code, e.g. `"a/ah"`.
    pub processing: &'static str,
    /// Packet flow between ports, Click's code, `"x/x"` unless something else.
    pub flow: &'static str,
    /// The strongest effect that an instance may have.
    pub effect: Effect,
    /// Configuration arguments, e.g. `"OFFSET [, keyword CHECKSUM]"`, for messages and docs.
    pub usage: &'static str,
    /// One line: what it does.
    pub summary: &'static str,
    /// Makes an unconfigured instance.
    pub new: fn() -> Box<dyn Element>,
}

impl ElementClass {
    /// The two halves of a code; a code without slash stands for both.
    pub fn halves(code: &str) -> (&str, &str) {
        code.split_once('/').unwrap_or((code, code))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_codes() {
        let r = |s| PortRange::parse(s).map(|r| (r.min, r.max, r.same_as_inputs));
        assert_eq!(r("1"), Some((1, Some(1), None)));
        assert_eq!(r("1-2"), Some((1, Some(2), None)));
        assert_eq!(r("2-"), Some((2, None, None)));
        assert_eq!(r("-"), Some((0, None, None)));
        assert_eq!(r("=+"), Some((0, None, Some(1))));
        assert_eq!(r("x"), None);
        assert_eq!(Processing::of("lh", 5), Processing::Push);
        assert_eq!(Processing::of("a", 0), Processing::Agnostic);
    }
}
