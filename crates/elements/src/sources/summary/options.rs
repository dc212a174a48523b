//! What the texts of IP and TCP options have in common.

/// Options at most, in bytes; the header's length field has room for no more.
pub const MAX_LEN: usize = 40;

/// A text that is read from left to right.
pub struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    /// At the start of a text.
    pub fn new(text: &'a [u8]) -> Self {
        Cursor { text, at: 0 }
    }
    /// The byte `ahead` of here.
    pub fn peek(&self, ahead: usize) -> Option<u8> {
        self.text.get(self.at + ahead).copied()
    }
    /// Is there a digit `ahead` of here?
    pub fn digit(&self, ahead: usize) -> bool {
        self.peek(ahead).is_some_and(|b| b.is_ascii_digit())
    }
    /// Is this the end?
    pub fn at_end(&self) -> bool {
        self.at >= self.text.len()
    }
    /// Passes over `n` bytes.
    pub fn skip(&mut self, n: usize) {
        self.at += n;
    }
    /// Passes over `what` if it stands here.
    pub fn eat(&mut self, what: &str) -> bool {
        let here = self.text.get(self.at..).unwrap_or_default();
        let found = here.starts_with(what.as_bytes());
        if found {
            self.at += what.len();
        }
        found
    }
    /// The place here, to come back to.
    pub fn place(&self) -> usize {
        self.at
    }
    /// Back to a place.
    pub fn back_to(&mut self, place: usize) {
        self.at = place;
    }

    /// A number here, decimal, or also hexadecimal (`0x`) and octal (`0`) if `any_base`; too large ones are the
    /// largest.
    pub fn number(&mut self, any_base: bool) -> Option<u32> {
        let mut base = 10;
        if any_base && self.peek(0) == Some(b'0') {
            let hex = matches!(self.peek(1), Some(b'x' | b'X'))
                && self.peek(2).is_some_and(|b| b.is_ascii_hexdigit());
            if hex {
                base = 16;
                self.skip(2);
            } else {
                base = 8;
            }
        }
        let mut value: Option<u32> = None;
        while let Some(d) = self.peek(0).and_then(|b| char::from(b).to_digit(base)) {
            let v = u64::from(value.unwrap_or(0)) * u64::from(base) + u64::from(d);
            value = Some(u32::try_from(v).unwrap_or(u32::MAX));
            self.skip(1);
        }
        value
    }

    /// A number of one byte.
    pub fn byte(&mut self, any_base: bool) -> Option<u8> {
        u8::try_from(self.number(any_base)?).ok()
    }

    /// An IPv4 address.
    pub fn address(&mut self) -> Option<[u8; 4]> {
        let mut a = [0; 4];
        for (i, b) in a.iter_mut().enumerate() {
            *b = self.byte(false)?;
            if i < 3 && !self.eat(".") {
                return None;
            }
        }
        Some(a)
    }

    /// An option that has no text of its own: `98`, `99=0:5:10`.
    pub fn unknown(&mut self, out: &mut Vec<u8>) -> Option<()> {
        out.push(self.byte(true)?);
        if self.peek(0) == Some(b'=') && self.digit(1) {
            let mut data = Vec::new();
            // Bound: every turn reads on, and what is too long ends it.
            loop {
                self.skip(1);
                data.push(self.byte(true)?);
                if self.peek(0) != Some(b':') || !self.digit(1) {
                    break;
                }
            }
            out.push(u8::try_from(data.len() + 2).ok()?);
            out.extend(data);
        }
        Some(())
    }
}

/// All options are read: as many padding options as it takes are removed from the front, so that they fit.
pub fn fit(mut options: Vec<u8>) -> Option<Vec<u8>> {
    const NOP: u8 = 1;
    let over = options.len().saturating_sub(MAX_LEN);
    let padding = options.iter().take_while(|b| **b == NOP).count();
    options.drain(..over.min(padding));
    (options.len() <= MAX_LEN).then_some(options)
}

/// Appends `piece` to a list that semicolons separate.
pub fn append(list: &mut String, piece: &str) {
    if !list.is_empty() {
        list.push(';');
    }
    list.push_str(piece);
}

/// The text of an option without one of its own.
pub fn unknown_text(option: &[u8]) -> String {
    let kind = option.first().copied().unwrap_or(0);
    let mut s = kind.to_string();
    for (i, b) in option.iter().skip(2).enumerate() {
        s.push(if i == 0 { '=' } else { ':' });
        s.push_str(&b.to_string());
    }
    s
}
