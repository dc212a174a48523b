//! IPv6 (RFC 8200): the fixed header and the walk over extension headers.

use super::{be16, put, view};

view! {
    /// An IPv6 fixed header.
    40
}

/// Extension headers, by number: hop-by-hop, routing, fragment, authentication, destination options. Mobility, HIP and
/// shim6 have one of their own, too, but nothing follows them: they are upper layers here, as in Linux
/// (`ipv6_ext_hdr`).
pub const EXTENSION_HEADERS: [u8; 5] = [0, 43, 44, 51, 60];

/// Most extension headers that [`Header::upper_layer`] follows.
pub const MAX_EXTENSIONS: usize = 32;

impl<T: AsRef<[u8]>> Header<T> {
    /// Version (6).
    pub fn version(&self) -> u8 {
        self.b()[0] >> 4
    }
    /// Traffic class.
    pub fn traffic_class(&self) -> u8 {
        (be16(self.b(), 0) >> 4) as u8
    }
    /// Flow label, 20 bits.
    pub fn flow_label(&self) -> u32 {
        super::be32(self.b(), 0) & 0xf_ffff
    }
    /// Payload length as the header says.
    pub fn payload_len(&self) -> u16 {
        be16(self.b(), 4)
    }
    /// Next header.
    pub fn next_header(&self) -> u8 {
        self.b()[6]
    }
    /// Hop limit.
    pub fn hop_limit(&self) -> u8 {
        self.b()[7]
    }
    /// Source address.
    pub fn src(&self) -> [u8; 16] {
        self.b()[8..].first_chunk().copied().unwrap_or([0; 16])
    }
    /// Destination address.
    pub fn dst(&self) -> [u8; 16] {
        self.b()[24..].first_chunk().copied().unwrap_or([0; 16])
    }
    /// What follows the fixed header, up to the payload length, cut to what is there.
    pub fn payload(&self) -> &[u8] {
        let b = self.b();
        &b[LEN..(LEN + usize::from(self.payload_len())).min(b.len())]
    }

    /// Follows the extension headers to the upper-layer header. `None` when a header is cut off or there are more than
    /// [`MAX_EXTENSIONS`].
    pub fn upper(&self) -> Option<Upper> {
        let b = self.b();
        let mut u = Upper {
            protocol: self.next_header(),
            offset: LEN,
            fragment: false,
            later: false,
        };
        for _ in 0..MAX_EXTENSIONS {
            match u.protocol {
                // hop-by-hop, routing, destination options
                0 | 43 | 60 => {
                    let h = b.get(u.offset..)?.first_chunk::<2>()?;
                    u.protocol = h[0];
                    u.offset += (usize::from(h[1]) + 1) * 8;
                }
                44 => {
                    let h = b.get(u.offset..)?.first_chunk::<8>()?;
                    u.protocol = h[0];
                    u.offset += 8;
                    let word = u16::from_be_bytes([h[2], h[3]]);
                    // a lone fragment header (offset 0, no more) does not make a fragment: RFC 6946
                    u.fragment |= word & 0xfff9 != 0;
                    if word & 0xfff8 != 0 {
                        u.later = true;
                        return Some(u);
                    }
                }
                // authentication header: length in 4-byte units, minus two
                51 => {
                    let h = b.get(u.offset..)?.first_chunk::<2>()?;
                    u.protocol = h[0];
                    u.offset += (usize::from(h[1]) + 2) * 4;
                }
                _ => return (u.offset <= b.len()).then_some(u),
            }
        }
        None
    }

    /// [`Header::upper`] as (protocol, offset, later fragment).
    pub fn upper_layer(&self) -> Option<(u8, usize, bool)> {
        self.upper().map(|u| (u.protocol, u.offset, u.later))
    }
}

/// What the extension headers lead to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Upper {
    /// Protocol of the upper-layer header; in a later fragment, of what its fragment header names.
    pub protocol: u8,
    /// Where it starts, from the IPv6 header.
    pub offset: usize,
    /// The packet is a fragment (first, middle or last).
    pub fragment: bool,
    /// It is a fragment other than the first: there is no upper-layer header.
    pub later: bool,
}

impl<T: AsRef<[u8]> + AsMut<[u8]>> Header<T> {
    /// Sets version 6, traffic class and flow label.
    pub fn set_version_class_label(&mut self, class: u8, label: u32) {
        let v = 6 << 28 | u32::from(class) << 20 | label & 0xf_ffff;
        put(self.0.as_mut(), 0, v.to_be_bytes());
    }
    /// Sets the payload length.
    pub fn set_payload_len(&mut self, v: u16) {
        put(self.0.as_mut(), 4, v.to_be_bytes());
    }
    /// Sets the next header.
    pub fn set_next_header(&mut self, v: u8) {
        self.0.as_mut()[6] = v;
    }
    /// Sets the hop limit.
    pub fn set_hop_limit(&mut self, v: u8) {
        self.0.as_mut()[7] = v;
    }
    /// Sets the source address.
    pub fn set_src(&mut self, a: [u8; 16]) {
        put(self.0.as_mut(), 8, a);
    }
    /// Sets the destination address.
    pub fn set_dst(&mut self, a: [u8; 16]) {
        put(self.0.as_mut(), 24, a);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn walks_extension_headers() {
        let mut b = [0u8; 40 + 8 + 8 + 20];
        let mut h = Header::parse(&mut b[..]).unwrap();
        h.set_version_class_label(0xb8, 0x12345);
        h.set_next_header(0);
        h.set_payload_len(36);
        b[40] = 44; // hop-by-hop, then a first fragment, then TCP
        b[48] = 6;
        let h = Header::parse(&b[..]).unwrap();
        assert_eq!(
            (h.version(), h.traffic_class(), h.flow_label()),
            (6, 0xb8, 0x12345)
        );
        assert_eq!(h.upper_layer(), Some((6, 56, false)));
        b[51] = 8;
        assert_eq!(
            Header::parse(&b[..]).unwrap().upper_layer(),
            Some((6, 56, true))
        );
        b[41] = 200;
        assert_eq!(Header::parse(&b[..]).unwrap().upper_layer(), None);
    }

    /// Mobility, HIP, shim6 and no next header: there may be nothing behind the fixed header.
    #[test]
    fn what_nothing_follows_is_an_upper_layer() {
        let mut b = [0u8; 40];
        for protocol in [59, 135, 139, 140] {
            b[6] = protocol;
            let h = Header::parse(&b[..]).unwrap();
            assert_eq!(h.upper_layer(), Some((protocol, 40, false)));
        }
        for protocol in EXTENSION_HEADERS {
            b[6] = protocol;
            assert_eq!(Header::parse(&b[..]).unwrap().upper_layer(), None);
        }
    }
}
