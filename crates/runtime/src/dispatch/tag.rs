//! Header values that say whose a frame is, decided upstream (Metron's tags): taken off before anybody else sees the
//! frame.

use onefold_packet::Packet;

/// Bytes of both addresses in front of a VLAN tag.
const ADDRESSES: usize = 12;
/// Bytes of a tag.
const TAG: usize = 4;

/// Tags of consecutive values: `first + n` is worker (or group) `n`'s.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FirstTag {
    /// Destination addresses.
    Mac([u8; 6]),
    /// Numbers of the outer VLAN.
    Vlan(u16),
}

/// The tags of a port.
#[derive(Debug, Clone, Copy)]
pub struct Tags {
    /// The first worker's.
    pub first: FirstTag,
    /// How many there are.
    pub workers: usize,
    /// The port's own address, which frames get in the place of a tag that is an address.
    pub own: [u8; 6],
}

fn number([a, b, c, d, e, f]: [u8; 6]) -> u64 {
    u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

impl FirstTag {
    /// The address of worker `n`; `None`: there is no such address, or tags are none.
    pub fn mac(self, n: usize) -> Option<[u8; 6]> {
        let FirstTag::Mac(first) = self else {
            return None;
        };
        let [_, _, mac @ ..] = (number(first) + n as u64).to_be_bytes();
        Some(mac)
    }

    /// The VLAN of worker `n`; `None`: there is no such VLAN, or tags are none.
    pub fn vlan(self, n: usize) -> Option<u16> {
        let FirstTag::Vlan(first) = self else {
            return None;
        };
        u16::try_from(usize::from(first) + n)
            .ok()
            .filter(|id| (1..=4094).contains(id))
    }
}

impl Tags {
    /// Takes the tag off a frame, and says whose it is; `None`: it has none of these, and stays as it is. The priority
    /// in a VLAN tag goes with it.
    #[inline]
    pub fn take_off(&self, p: &mut Packet) -> Option<usize> {
        let data = p.data_mut();
        match self.first {
            FirstTag::Vlan(first) => {
                let kind = data.get(ADDRESSES..ADDRESSES + 2)?;
                if kind != [0x81, 0x00] && kind != [0x88, 0xa8] {
                    return None;
                }
                let id: [u8; 2] = data.get(14..16)?.try_into().ok()?;
                let worker = (u16::from_be_bytes(id) & 0xfff).checked_sub(first)?;
                let worker = usize::from(worker);
                // what is behind the tag is a type at least
                if worker >= self.workers || data.len() < ADDRESSES + TAG + 2 {
                    return None;
                }
                data.copy_within(..ADDRESSES, TAG);
                p.pull(TAG);
                Some(worker)
            }
            FirstTag::Mac(first) => {
                let to: &mut [u8; 6] = data.first_chunk_mut()?;
                let worker = usize::try_from(number(*to).checked_sub(number(first))?).ok()?;
                if worker >= self.workers {
                    return None;
                }
                *to = self.own;
                Some(worker)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OWN: [u8; 6] = [2, 0, 0, 0, 0, 1];

    fn tags(first: FirstTag) -> Tags {
        Tags {
            first,
            workers: 4,
            own: OWN,
        }
    }

    fn frame(to: [u8; 6], behind: &[u8]) -> Packet {
        Packet::from_slice(&[&to[..], &[3; 6], behind].concat())
    }

    #[test]
    fn vlan_tags_are_taken_off() {
        let t = tags(FirstTag::Vlan(100));
        for (id, worker) in [(100u16, Some(0)), (103, Some(3)), (104, None), (99, None)] {
            let [high, low] = id.to_be_bytes();
            for kind in [[0x81, 0x00], [0x88, 0xa8]] {
                // with a priority
                let behind = [kind[0], kind[1], high | 0xe0, low, 8, 0, 0x45];
                let mut p = frame(OWN, &behind);
                assert_eq!(t.take_off(&mut p), worker, "{id}");
                let left = match worker {
                    Some(_) => &behind[4..],
                    None => &behind[..],
                };
                assert_eq!(p.data(), frame(OWN, left).data());
            }
        }
        for short in [
            &[][..],
            &[0x81],
            &[0x81, 0],
            &[0x81, 0, 0, 100],
            &[0x81, 0, 0, 100, 8],
        ] {
            let mut p = frame(OWN, short);
            assert_eq!(t.take_off(&mut p), None);
        }
        let ids: Vec<_> = [0, 3].map(|n| t.first.vlan(n)).to_vec();
        assert_eq!(ids, [Some(100), Some(103)]);
        assert_eq!(FirstTag::Vlan(4094).vlan(1), None);
        assert_eq!(t.first.mac(0), None);
    }

    #[test]
    fn addresses_are_the_ports_own_again() {
        let t = tags(FirstTag::Mac([2, 0x6f, 0, 0, 0, 0xfe]));
        for (n, last) in [(0, [0, 0xfe]), (1, [0, 0xff]), (2, [1, 0])] {
            let to = [2, 0x6f, 0, 0, last[0], last[1]];
            assert_eq!(t.first.mac(n), Some(to));
            let mut p = frame(to, &[8, 0]);
            assert_eq!(t.take_off(&mut p), Some(n));
            assert_eq!(p.data(), frame(OWN, &[8, 0]).data());
        }
        for other in [OWN, [0xff; 6], [2, 0x6f, 0, 0, 1, 2]] {
            let mut p = frame(other, &[8, 0]);
            assert_eq!(t.take_off(&mut p), None);
            assert_eq!(p.data(), frame(other, &[8, 0]).data());
        }
        assert_eq!(t.take_off(&mut Packet::from_slice(&[2, 0])), None);
    }
}
