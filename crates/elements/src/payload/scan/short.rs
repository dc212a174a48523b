//! Short payloads that have none of a few strings, which is most of them: told by their bytes' places in the strings.
//!
//! To hand 15 bytes to Hyperscan takes 35 ns however few strings there are, to go over them here takes 8. For each
//! byte a table says at which of the first places of which strings it may stand, eight groups of strings side by side;
//! where the rows of bytes that follow one another have no group in common, no string begins (the shuffle tables of
//! "Teddy", without shuffles).

use super::{Look, Pattern};

/// Longer payloads are not asked.
pub(super) const LONGEST: usize = 48;

/// More strings would leave few payloads out.
const MAX_STRINGS: usize = 64;

/// Places that are looked at: of the shortest string at least [`LEAST`].
const PLACES: usize = 4;
const LEAST: usize = 2;

/// See the module's text.
#[derive(Debug)]
pub(super) struct Short {
    /// By byte: for each place, from the lowest bits on, a bit for each group of strings that have it there.
    table: Box<[u32; 256]>,
    places: usize,
}

impl Short {
    /// For these patterns; `None` where they are many, very short, or expressions.
    pub fn new(patterns: &[Pattern]) -> Option<Short> {
        if patterns.is_empty() || patterns.len() > MAX_STRINGS {
            return None;
        }
        let text = |p: &Pattern| match &p.look {
            Look::Literal(b) => Some((b.clone(), p.nocase)),
            Look::Regex(_) => None,
        };
        let all: Vec<(Vec<u8>, bool)> = patterns.iter().map(text).collect::<Option<_>>()?;
        let places = all.iter().map(|(b, _)| b.len()).min()?.min(PLACES);
        if places < LEAST {
            return None;
        }
        let mut table = Box::new([0u32; 256]);
        for (group, (bytes, nocase)) in all.iter().enumerate() {
            for (place, byte) in bytes.iter().enumerate().take(places) {
                let bit = 1 << (place * 8 + group % 8);
                table[usize::from(*byte)] |= bit;
                if *nocase && byte.is_ascii_alphabetic() {
                    table[usize::from(*byte ^ 0x20)] |= bit;
                }
            }
        }
        Some(Short { table, places })
    }

    /// May one of the strings be in here? If not, none is.
    #[inline]
    pub fn may_be_in(&self, data: &[u8]) -> bool {
        // two places leave out nearly all of them
        let (mut last, mut any) = (0, 0);
        for byte in data {
            let row = self.table[usize::from(*byte)];
            any |= last & (row >> 8);
            last = row;
        }
        any & 0xff != 0 && self.all_places(data)
    }

    #[inline(never)]
    fn all_places(&self, data: &[u8]) -> bool {
        match self.places {
            2 => self.any::<2>(data),
            3 => self.any::<3>(data),
            _ => self.any::<4>(data),
        }
    }

    #[inline(always)]
    fn any<const N: usize>(&self, data: &[u8]) -> bool {
        let mut any = 0;
        for w in data.array_windows::<N>() {
            let mut both = 0xff;
            for (i, byte) in w.iter().enumerate() {
                both &= self.table[usize::from(*byte)] >> (8 * i);
            }
            any |= both;
        }
        any != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn strings(all: &[(Vec<u8>, bool)]) -> Vec<Pattern> {
        let one = |(b, nocase): &(Vec<u8>, bool)| Pattern {
            nocase: *nocase,
            ..Pattern::literal(b.clone())
        };
        all.iter().map(one).collect()
    }

    proptest! {
        /// A payload that has a string is never left out.
        #[test]
        fn what_is_there_is_not_left_out(
            all in proptest::collection::vec((proptest::collection::vec(0x40u8..0x70, 2..7), any::<bool>()), 1..70),
            which in any::<prop::sample::Index>(),
            before in proptest::collection::vec(any::<u8>(), 0..20),
            behind in proptest::collection::vec(any::<u8>(), 0..20),
            upper in any::<bool>(),
        ) {
            let Some(s) = Short::new(&strings(&all)) else {
                prop_assert!(all.len() > MAX_STRINGS);
                return Ok(());
            };
            let (bytes, nocase) = &all[which.index(all.len())];
            let turned: Vec<u8> = match *nocase && upper {
                true => bytes.iter().map(u8::to_ascii_uppercase).collect(),
                false => bytes.clone(),
            };
            let data = [&before[..], &turned, &behind].concat();
            prop_assert!(s.may_be_in(&data));
        }
    }

    #[test]
    fn most_are_left_out() {
        let all = strings(&[(b"GET /".to_vec(), true), (b"/../".to_vec(), false)]);
        let s = Short::new(&all).unwrap();
        assert!(!s.may_be_in(b"") && !s.may_be_in(b"GE") && !s.may_be_in(b"hello, world"));
        assert!(s.may_be_in(b"..get /") && s.may_be_in(b"x/../"));
        assert!(!s.may_be_in(b"GE/."), "the places of two strings");
        assert!(Short::new(&strings(&[(b"x".to_vec(), false)])).is_none());
        assert!(Short::new(&[Pattern::regex("a+")]).is_none());
    }
}
