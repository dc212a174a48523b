//! Header views, one template per protocol.
//!
//! A view borrows bytes (`&[u8]` or `&mut [u8]`) that its constructor has checked to be at least the protocol's fixed
//! header long, so getters cannot fail. Whatever depends on a length *inside* the header (options, payload, total
//! length) is checked where it is used and returned as `Option` or cut to what is there.
//!
//! **No-panic contract.** For every byte string, constructors return `None` or a view; no method of a view panics.

pub mod arp;
pub mod ethernet;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod tcp;
pub mod udp;

#[inline]
pub(crate) fn be16(b: &[u8], at: usize) -> u16 {
    match b.get(at..).and_then(|s| s.first_chunk::<2>()) {
        Some(c) => u16::from_be_bytes(*c),
        None => 0,
    }
}

#[inline]
pub(crate) fn be32(b: &[u8], at: usize) -> u32 {
    match b.get(at..).and_then(|s| s.first_chunk::<4>()) {
        Some(c) => u32::from_be_bytes(*c),
        None => 0,
    }
}

#[inline]
pub(crate) fn put<const N: usize>(b: &mut [u8], at: usize, v: [u8; N]) {
    if let Some(d) = b.get_mut(at..at + N) {
        d.copy_from_slice(&v);
    }
}

/// Declares a view type with its constructor.
macro_rules! view {
    ($(#[$m:meta])* $len:literal) => {
        $(#[$m])*
        #[derive(Debug, Clone, Copy)]
        pub struct Header<T>(T);

        impl<T: AsRef<[u8]>> Header<T> {
            /// A view, or `None` when fewer than [`LEN`] bytes are there.
            #[inline]
            pub fn parse(bytes: T) -> Option<Self> {
                (bytes.as_ref().len() >= LEN).then(|| Header(bytes))
            }
            /// All bytes of the view: the header and what follows it.
            #[inline]
            pub fn bytes(&self) -> &[u8] {
                self.0.as_ref()
            }
            #[inline]
            #[allow(dead_code)]
            fn b(&self) -> &[u8] {
                self.0.as_ref()
            }
        }

        /// Length of the fixed header in bytes.
        pub const LEN: usize = $len;
    };
}
pub(crate) use view;
