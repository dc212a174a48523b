//! IP options as text: `rr{10.0.0.1}+5;ssrr{1.0.0.1^1.0.0.3};ts.ip{1.0.0.1=1}+2++3;98=1:2`.

use super::options::{Cursor, append, fit, unknown_text};
use std::fmt::Write as _;

const EOL: u8 = 0;
const NOP: u8 = 1;
const RR: u8 = 7;
const TS: u8 = 68;
const LSRR: u8 = 131;
const SSRR: u8 = 137;

/// The text of options; padding is not shown. `?` if any is wrong, `.` if there are none.
pub fn text(options: &[u8]) -> String {
    match try_text(options) {
        Some(s) if s.is_empty() => ".".to_string(),
        Some(s) => s,
        None => "?".to_string(),
    }
}

fn try_text(options: &[u8]) -> Option<String> {
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
        let piece = match kind {
            RR => route(o, "rr")?,
            LSRR => route(o, "lsrr")?,
            SSRR => route(o, "ssrr")?,
            TS => times(o)?,
            _ => unknown_text(o),
        };
        append(&mut s, &piece);
    }
    Some(s)
}

fn quad(o: &[u8], at: usize) -> Option<[u8; 4]> {
    o.get(at..)?.first_chunk::<4>().copied()
}

fn dotted(s: &mut String, a: [u8; 4]) {
    let _ = write!(s, "{}.{}.{}.{}", a[0], a[1], a[2], a[3]);
}

/// A route: addresses, with the pointer as `^` (source routes) or as the room left (recorded routes).
fn route(o: &[u8], name: &str) -> Option<String> {
    let pointer = usize::from(*o.get(2)?);
    if pointer < 4 {
        return None;
    }
    let here = pointer - 1;
    let recorded = name == "rr";
    let mut s = format!("{name}{{");
    let mut separator = "";
    let mut at = 3;
    while let Some(a) = quad(o, at) {
        if at == here {
            if recorded {
                break;
            }
            separator = "^";
        }
        s.push_str(separator);
        dotted(&mut s, a);
        separator = ",";
        at += 4;
    }
    if at == o.len() && at == here && !recorded {
        s.push('^');
    }
    s.push('}');
    if at + 4 <= o.len() && at == here && recorded {
        let _ = write!(s, "+{}", (o.len() - at) / 4);
    }
    Some(s)
}

/// Time stamps, with addresses or without.
fn times(o: &[u8]) -> Option<String> {
    let pointer = usize::from(*o.get(2)?);
    let flags = *o.get(3)?;
    if pointer < 5 {
        return None;
    }
    let here = pointer - 1;
    let flag = flags & 0xf;
    let size = if (1..=3).contains(&flag) { 8 } else { 4 };
    let mut s = "ts".to_string();
    match flag {
        0 => {}
        1 => s.push_str(".ip"),
        3 => s.push_str(".preip"),
        n => {
            let _ = write!(s, ".{n}");
        }
    }
    s.push('{');
    let mut separator = "";
    let mut at = 4;
    while at + size <= o.len() {
        if at == here {
            if flag != 3 {
                break;
            }
            separator = "^";
        }
        s.push_str(separator);
        if flag != 0 {
            dotted(&mut s, quad(o, at)?);
            at += 4;
        }
        // a prespecified address behind the pointer has no time yet
        if flag != 3 || at <= here {
            if flag != 0 {
                s.push('=');
            }
            let v = u32::from_be_bytes(quad(o, at)?);
            if v & 0x8000_0000 != 0 {
                s.push('!');
            }
            let _ = write!(s, "{}", v & 0x7fff_ffff);
        }
        separator = ",";
        at += 4;
    }
    if at == o.len() && at == here {
        s.push('^');
    }
    s.push('}');
    if at + size <= o.len() && at == here {
        let _ = write!(s, "+{}", (o.len() - at) / size);
    }
    if flags >> 4 != 0 {
        let _ = write!(s, "++{}", flags >> 4);
    }
    Some(s)
}

/// Reads options' text; nothing if it is wrong or too long for a header.
pub fn parse(text: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut c = Cursor::new(text);
    // Bound: every turn reads on.
    loop {
        if c.eat("rr{") {
            parse_route(&mut c, RR, &mut out)?;
        } else if c.eat("ssrr{") {
            parse_route(&mut c, SSRR, &mut out)?;
        } else if c.eat("lsrr{") {
            parse_route(&mut c, LSRR, &mut out)?;
        } else if matches!(
            (c.peek(0), c.peek(1), c.peek(2)),
            (Some(b't'), Some(b's'), Some(b'{' | b'.'))
        ) {
            parse_times(&mut c, &mut out)?;
        } else if c.digit(0) {
            c.unknown(&mut out)?;
        } else if c.eat("nop") {
            out.push(NOP);
        } else if c.eat("eol") {
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

/// Most free entries that an option can announce.
const MAX_FREE: u32 = 64;

fn parse_route(c: &mut Cursor<'_>, kind: u8, out: &mut Vec<u8>) -> Option<()> {
    let mut o = vec![kind, 0, 0];
    let mut pointer = None;
    // Bound: every turn reads on.
    loop {
        if pointer.is_none() && c.eat("^") {
            pointer = Some(o.len() + 1);
        }
        if !c.digit(0) {
            break;
        }
        o.extend(c.address()?);
        c.eat(",");
    }
    if !c.eat("}") {
        return None;
    }
    let pointer = pointer.unwrap_or(o.len() + 1);
    if c.peek(0) == Some(b'+') && c.digit(1) {
        c.skip(1);
        let free = c.number(false).filter(|n| *n < MAX_FREE).unwrap_or(0);
        o.resize(o.len() + free as usize * 4, 0);
    }
    finish(o, pointer, out)
}

fn finish(mut o: Vec<u8>, pointer: usize, out: &mut Vec<u8>) -> Option<()> {
    let len = u8::try_from(o.len()).ok()?;
    let pointer = u8::try_from(pointer).ok()?;
    if let [_, l, p, ..] = o.as_mut_slice() {
        (*l, *p) = (len, pointer);
    }
    out.extend(o);
    Some(())
}

/// What the entries of a time stamp option look like.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Entries {
    Unknown,
    /// With addresses; of type 1, or of type 3 if a pointer comes before the last one.
    Addresses,
    Type(u8),
}

fn parse_times(c: &mut Cursor<'_>, out: &mut Vec<u8>) -> Option<()> {
    let mut o = vec![TS, 0, 0, 0];
    let mut entries = Entries::Unknown;
    c.skip(2);
    if c.eat(".ip{") {
        entries = Entries::Type(1);
    } else if c.eat(".preip{") {
        entries = Entries::Type(3);
    } else if c.eat(".") {
        let flag = c.byte(true).filter(|f| *f <= 15)?;
        entries = Entries::Type(flag);
        if !c.eat("{") {
            return None;
        }
    } else if !c.eat("{") {
        return None;
    }
    let mut pointer = None;
    // Bound: every turn reads on.
    loop {
        if pointer.is_none() && c.eat("^") {
            pointer = Some(o.len() + 1);
        }
        if !c.digit(0) && c.peek(0) != Some(b'!') {
            break;
        }
        parse_time(c, &mut o, &mut entries, pointer.is_some())?;
        c.eat(",");
    }
    if !c.at_end() && !c.eat("}") {
        return None;
    }
    let flag = match entries {
        Entries::Unknown => 0,
        Entries::Addresses => 1,
        Entries::Type(f) => f,
    };
    let pointer = pointer.unwrap_or(o.len() + 1);
    if c.peek(0) == Some(b'+') && c.digit(1) {
        c.skip(1);
        let free = c.number(true).filter(|n| *n < MAX_FREE).unwrap_or(0);
        let size = if flag == 1 || flag == 3 { 8 } else { 4 };
        o.resize(o.len() + free as usize * size, 0);
    }
    let mut overflow = 0;
    if c.peek(0) == Some(b'+') && c.peek(1) == Some(b'+') && c.digit(2) {
        c.skip(2);
        overflow = c.byte(true).filter(|n| *n < 16).unwrap_or(0);
    }
    if let Some(b) = o.get_mut(3) {
        *b = overflow << 4 | flag;
    }
    finish(o, pointer, out)
}

/// One entry: a time, or an address with a time, or (behind the pointer) an address alone.
fn parse_time(
    c: &mut Cursor<'_>,
    o: &mut Vec<u8>,
    entries: &mut Entries,
    behind_pointer: bool,
) -> Option<()> {
    let start = c.place();
    let addresses = |e: Entries| matches!(e, Entries::Addresses | Entries::Type(1 | 3));
    if !addresses(*entries) {
        let marked = c.eat("!");
        let v = if c.digit(0) {
            c.number(true)?
        } else {
            return None;
        };
        if c.peek(0) != Some(b'.') || *entries != Entries::Unknown {
            if *entries == Entries::Unknown {
                *entries = Entries::Type(0);
            }
            let top = if marked { 0x8000_0000 } else { 0 };
            o.extend((v | top).to_be_bytes());
            return Some(());
        }
        // it was the first byte of an address
        *entries = Entries::Addresses;
        c.back_to(start);
    }
    o.extend(c.address()?);
    if behind_pointer && *entries == Entries::Addresses {
        *entries = Entries::Type(3);
    }
    if c.peek(0) == Some(b'=') && (c.digit(1) || c.peek(1) == Some(b'!')) {
        c.skip(1);
        let top = if c.eat("!") { 0x8000_0000 } else { 0 };
        let v = if c.digit(0) {
            c.number(true)?
        } else {
            return None;
        };
        o.extend((v | top).to_be_bytes());
    } else if behind_pointer && (c.eat("=?") || c.peek(0) != Some(b'=')) {
        o.extend([0; 4]);
    } else {
        return None;
    }
    Some(())
}
