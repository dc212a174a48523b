//! TCP options as text: `mss1400;wscale10;sackok;sack95-98;ts669063908:38382731;99=0:5`.

use super::options::{Cursor, append, fit, unknown_text};

const EOL: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WSCALE: u8 = 3;
const SACK_OK: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMP: u8 = 8;

/// Which options are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All.
    All,
    /// All but padding and time stamps.
    NoTimestamps,
    /// Selective acknowledgements.
    Sack,
}

impl Which {
    fn wants(self, kind: u8) -> bool {
        match self {
            Which::All => true,
            Which::NoTimestamps => !matches!(kind, EOL | NOP | TIMESTAMP),
            Which::Sack => matches!(kind, SACK_OK | SACK),
        }
    }
}

fn word(b: &[u8], at: usize) -> Option<u32> {
    let w = b.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*w))
}

/// The text of options; padding is not shown. `?` if any is wrong, `.` if there are none.
pub fn text(options: &[u8], which: Which) -> String {
    match try_text(options, which) {
        Some(s) if s.is_empty() => ".".to_string(),
        Some(s) => s,
        None => "?".to_string(),
    }
}

fn try_text(options: &[u8], which: Which) -> Option<String> {
    let mut s = String::new();
    let mut rest = options;
    while let Some(&kind) = rest.first() {
        if kind == EOL {
            break;
        }
        if kind == NOP {
            rest = rest.get(1..)?;
            continue;
        }
        let len = usize::from(*rest.get(1)?);
        if len < 2 {
            return None;
        }
        let o = rest.get(..len)?;
        rest = rest.get(len..)?;
        let right_length = match kind {
            MSS => len == 4,
            WSCALE => len == 3,
            SACK_OK => len == 2,
            SACK => len % 8 == 2,
            TIMESTAMP => len == 10,
            _ => true,
        };
        if !right_length {
            return None;
        }
        if !which.wants(kind) {
            continue;
        }
        match kind {
            MSS => append(&mut s, &format!("mss{}", u16::from_be_bytes([o[2], o[3]]))),
            WSCALE => append(&mut s, &format!("wscale{}", o[2])),
            SACK_OK => append(&mut s, "sackok"),
            SACK => {
                for at in (2..len).step_by(8) {
                    append(
                        &mut s,
                        &format!("sack{}-{}", word(o, at)?, word(o, at + 4)?),
                    );
                }
            }
            TIMESTAMP => append(&mut s, &format!("ts{}:{}", word(o, 2)?, word(o, 6)?)),
            _ => append(&mut s, &unknown_text(o)),
        }
    }
    Some(s)
}

/// The options that are meant, as they stand in the header; what follows one that is wrong is left out.
pub fn select(options: &[u8], which: Which) -> Vec<u8> {
    if which == Which::All {
        return options.to_vec();
    }
    let mut out = Vec::new();
    let mut rest = options;
    while let Some(&kind) = rest.first() {
        let len = match kind {
            EOL => break,
            NOP => 1,
            _ => match rest.get(1) {
                Some(n) if *n >= 2 => usize::from(*n),
                _ => break,
            },
        };
        let (Some(o), Some(behind)) = (rest.get(..len), rest.get(len..)) else {
            break;
        };
        if which.wants(kind) {
            out.extend_from_slice(o);
        }
        rest = behind;
    }
    out
}

/// Reads options' text; nothing if it is wrong or too long for a header.
pub fn parse(text: &[u8], which: Which) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut c = Cursor::new(text);
    // Bound: every turn reads on.
    loop {
        if which.wants(MSS) && c.eat("mss") {
            let v = u16::try_from(c.number(true)?).ok()?;
            out.extend([MSS, 4]);
            out.extend(v.to_be_bytes());
        } else if which.wants(WSCALE) && c.eat("wscale") {
            out.extend([WSCALE, 3, c.byte(true)?]);
        } else if which.wants(SACK_OK) && c.eat("sackok") {
            out.extend([SACK_OK, 2]);
        } else if which.wants(SACK) && c.eat("sack") {
            // neighbours separated by commas are blocks of one option
            let start = out.len();
            out.extend([SACK, 0]);
            loop {
                let from = c.number(true)?;
                if !c.eat("-") && !c.eat(":") {
                    return None;
                }
                let to = c.number(true)?;
                out.extend(from.to_be_bytes());
                out.extend(to.to_be_bytes());
                if !c.eat(",sack") {
                    break;
                }
            }
            let len = u8::try_from(out.len() - start).ok()?;
            *out.get_mut(start + 1)? = len;
        } else if which.wants(TIMESTAMP) && c.eat("ts") {
            let value = c.number(true)?;
            if !c.eat(":") {
                return None;
            }
            let echo = c.number(true)?;
            if out.is_empty() {
                out.extend([NOP, NOP]);
            }
            out.extend([TIMESTAMP, 10]);
            out.extend(value.to_be_bytes());
            out.extend(echo.to_be_bytes());
        } else if which != Which::Sack && c.digit(0) {
            c.unknown(&mut out)?;
        } else if which == Which::All && c.eat("nop") {
            out.push(NOP);
        } else if which == Which::All && c.eat("eol") {
            out.push(EOL);
            if c.peek(0) == Some(b',') {
                return None;
            }
        } else {
            return None;
        }
        if c.at_end() {
            return fit(out);
        }
        if !c.eat(",") && !c.eat(";") {
            return None;
        }
    }
}
