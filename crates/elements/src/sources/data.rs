//! What generated packets consist of.

use onefold_packet::MAX_PACKET_LEN;

/// Contents of a packet that nobody gave contents, byte for byte as Click's.
pub const DEFAULT_DATA: &[u8] =
    b"Random bullshit in a packet, at least 64 bytes long. Well, now it is.";

/// A packet of `length` bytes made of `data`: cut, or repeated as often as it takes. A negative length is that of
/// `data`. No data repeats to zeros.
pub fn repeated(data: &[u8], length: i32) -> Vec<u8> {
    match usize::try_from(length) {
        Err(_) => data.iter().copied().take(MAX_PACKET_LEN).collect(),
        Ok(n) if data.is_empty() => vec![0; n.min(MAX_PACKET_LEN)],
        Ok(n) => {
            let n = n.min(MAX_PACKET_LEN);
            data.iter().copied().cycle().take(n).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cut_repeated_and_as_is() {
        assert_eq!(repeated(b"abc", -1), b"abc");
        assert_eq!(repeated(b"abc", 2), b"ab");
        assert_eq!(repeated(b"abc", 7), b"abcabca");
        assert_eq!(repeated(b"", 3), [0; 3]);
        assert!(repeated(b"abc", 0).is_empty());
        assert_eq!(repeated(b"a", i32::MAX).len(), MAX_PACKET_LEN);
        assert!(DEFAULT_DATA.len() >= 64);
    }
}
