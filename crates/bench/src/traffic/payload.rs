//! What packets carry, with its checksum at hand.

use onefold_packet::checksum;

use super::params::Payload;
use crate::rng::Rng;

/// The longest payload there can be.
const LONGEST: usize = 65_536;

/// A store of bytes from which payloads are cut, and the running sums of its 16-bit words: the sum over any cut is a
/// subtraction, however long it is.
pub(crate) struct PayloadStore {
    bytes: Vec<u8>,
    /// `sums[k]`: of the first k words.
    sums: Vec<u64>,
    random: bool,
}

const TEXT: &str = "Packets of a fictional web page: the ferry leaves at a quarter past nine, and the lighthouse \
    keeper counts the waves. Seven gulls share one herring; the eighth composes a complaint to the harbour office.\r\n";

impl PayloadStore {
    pub fn new(kind: Payload, rng: &mut Rng) -> Self {
        let len = 2 * LONGEST;
        let bytes: Vec<u8> = match kind {
            Payload::Zero => vec![0; len],
            Payload::Ramp => (0..len).map(|i| i as u8).collect(),
            Payload::Text => TEXT.bytes().cycle().take(len).collect(),
            Payload::Random => std::iter::repeat_with(|| rng.bits().to_le_bytes())
                .take(len / 8)
                .flatten()
                .collect(),
        };
        let mut sums = Vec::with_capacity(len / 2 + 1);
        let mut total = 0;
        sums.push(0);
        for word in bytes.chunks_exact(2) {
            total = checksum::sum(word, total);
            sums.push(total);
        }
        Self {
            bytes,
            sums,
            random: kind == Payload::Random,
        }
    }

    /// `len` bytes and the sum of their words; where to cut is up to `choice`, except that orderly patterns always
    /// start at their beginning.
    pub fn cut(&self, len: usize, choice: u64) -> (&[u8], u64) {
        let word = if self.random {
            (choice % (LONGEST as u64 / 2)) as usize
        } else {
            0
        };
        let len = len.min(LONGEST);
        let bytes = self.bytes.get(word * 2..word * 2 + len).unwrap_or_default();
        let sum_to = |k: usize| self.sums.get(k).copied().unwrap_or(0);
        let mut sum = sum_to(word + len / 2) - sum_to(word);
        if let (true, Some(last)) = (len % 2 == 1, bytes.last()) {
            sum += u64::from(*last) << 8;
        }
        (bytes, sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_are_those_of_the_bytes() {
        for kind in [Payload::Zero, Payload::Ramp, Payload::Text, Payload::Random] {
            let store = PayloadStore::new(kind, &mut Rng::new(9));
            for (len, choice) in [
                (0, 0),
                (1, 5),
                (17, 8),
                (1459, 77),
                (65_535, u64::MAX),
                (65_536, 32_767),
            ] {
                let (bytes, sum) = store.cut(len, choice);
                assert_eq!(bytes.len(), len);
                assert_eq!(checksum::fold(sum), checksum::fold(checksum::sum(bytes, 0)));
            }
        }
    }
}
