//! Which packets of a group are plain, as [leases](onefold_element::FlowLease) have it, and what is noted of them:
//! told sixteen packets at once, by the columns that the first look has.
//!
//! Bytes of the IP packet that its window has are added up there; what stands behind them, packet by packet.

use crate::flow::batch_meta::{BatchMeta, bits_from, row};
use crate::flow::members::COLUMNS_V4;
use crate::flow::wave::LONGEST;
use crate::flow::windows::Windows;
use crate::simd::bits::each_bit;
use crate::simd::{GROUP, HEAD_AT, Lanes, ROW, WINDOW, Wide};

/// Bytes of an IP header without options, and of UDP's.
const IP: u32 = 20;
const UDP: u32 = 8;
/// Where the addresses begin in it: what checksums are over begins there.
const ADDRESSES: usize = 12;
/// Bytes of an IP packet that the columns have, and that its window has: two more.
const IN_COLUMNS: u32 = COLUMNS_V4 as u32 * 4;
const IN_WINDOW: u32 = (WINDOW - HEAD_AT) as u32;
const _: () = assert!(IN_WINDOW == IN_COLUMNS + 2);

/// What TCP's header has in its fourth word: flags that are asked, and ACK, which is to be the only one of them.
const FLAGS: u32 = 0x37 << 16;
const ACK: u32 = 0x10 << 16;

/// Sixteen packets, and what the first look knows of them.
pub(crate) struct Sixteen<'a, 'b, N> {
    pub packets: &'a Windows<'b>,
    /// The first one's number in the group.
    pub first: usize,
    /// Their words behind 14 bytes, as far as they are columns.
    pub words: &'a [N; COLUMNS_V4],
    /// Bytes of the packets.
    pub len: N,
}

/// Which of them are plain, if they are of IPv4 without options and whole, behind 14 bytes, is written down, with
/// acknowledgements and ends of segments. `sums`: checksums have to be right.
#[inline(always)]
pub(crate) fn plain<W: Wide>(
    wide: W,
    those: &Sixteen<'_, '_, W::N>,
    meta: &mut BatchMeta,
    sums: bool,
) {
    let usual = usual(wide, those, meta);
    let right = match sums && usual != 0 {
        true => usual & sums_to_ones(wide, those, usual),
        false => usual,
    };
    meta.plain |= bits_from(those.first, right);
}

/// Those that are but for their checksums.
#[inline(always)]
fn usual<W: Wide>(wide: W, those: &Sixteen<'_, '_, W::N>, meta: &mut BatchMeta) -> u16 {
    let (words, len) = (those.words, those.len);
    let low = wide.all(0xffff);
    let total = wide.and(words[0], low);
    let upper = wide.minus(total, wide.all(IP));
    let protocol = wide.and(wide.right(words[2], 16), wide.all(0xff));
    let end = wide.plus(total, wide.all(HEAD_AT as u32));
    let there = wide.over(total, wide.all(IP + UDP - 1))
        & !(wide.over(end, len) | wide.over(len, wide.all(LONGEST as u32)));
    let tcp = wide.zero(wide.minus(protocol, wide.all(6)));
    let udp = wide.zero(wide.minus(protocol, wide.all(17)));

    // so many bytes TCP's header has, four for each of the number at its place
    let header = wide.and(wide.right(words[8], 26), wide.all(0x3c));
    let flags = wide.minus(wide.and(words[8], wide.all(FLAGS)), wide.all(ACK));
    let segment = wide.zero(flags)
        & wide.over(header, wide.all(IP - 1))
        & !wide.over(wide.plus(header, wide.all(IP)), total);
    let says = wide.right(words[6], 16);
    let datagram = wide.over(says, wide.all(UDP - 1)) & !wide.over(says, upper);

    let (mut acks, mut ends) = (Lanes([0; ROW]), Lanes([0; ROW]));
    wide.put(words[7], &mut acks);
    wide.put(wide.plus(words[6], wide.minus(upper, header)), &mut ends);
    *row(&mut meta.acks, those.first) = acks.0;
    *row(&mut meta.ends, those.first) = ends.0;
    meta.padded |= bits_from(those.first, wide.over(len, end));
    there & (tcp & segment | udp & datagram)
}

/// Whose checksums are right, or none, among `usual` ones.
#[inline(always)]
fn sums_to_ones<W: Wide>(wide: W, those: &Sixteen<'_, '_, W::N>, usual: u16) -> u16 {
    let (words, packets, first) = (those.words, those.packets, those.first);
    let low = wide.all(0xffff);
    let total = wide.and(words[0], low);
    let protocol = wide.and(wide.right(words[2], 16), wide.all(0xff));
    let udp = wide.zero(wide.minus(protocol, wide.all(17)));
    let pseudo = wide.plus(protocol, wide.minus(total, wide.all(IP)));
    let windows = (wide.over(total, wide.all(IN_COLUMNS)) & usual != 0).then(|| packets.row(first));
    let sum = sum_in_window(wide, (words, windows), total, pseudo);
    // some twenty numbers of 16 bits: less than that many above the lower half, and all ones if and only if the sum is
    let folded = wide.plus(wide.right(sum, 16), wide.and(sum, low));
    let mut right = wide.zero(wide.minus(folded, low));
    let longer = usual & wide.over(total, wide.all(IN_WINDOW));
    if longer != 0 {
        let (mut so_far, mut totals) = (Lanes([0; ROW]), Lanes([0; ROW]));
        wide.put(sum, &mut so_far);
        wide.put(total, &mut totals);
        right &= !longer;
        each_bit!(longer.into(), i, {
            let (to, more) = (totals.0[i % ROW] as usize, so_far.0[i % ROW]);
            let data = packets.packet(first + i).map_or(&[][..], |p| p.data());
            let is = wide.sums_to_ones(data, (WINDOW, HEAD_AT + to), more);
            right |= u16::from(is) << (i % ROW);
        });
    }
    let unsummed = udp & wide.zero(wide.and(words[6], low));
    right | unsummed
}

/// What windows have of packets of these lengths, from the addresses on, is added to numbers, by halves of words.
/// `windows`: some packets are longer than the columns.
#[inline(always)]
fn sum_in_window<W: Wide>(
    wide: W,
    (words, windows): (&[W::N; COLUMNS_V4], Option<&[&[u8; WINDOW]; ROW]>),
    total: W::N,
    sum: W::N,
) -> W::N {
    // the upper halves, and words without carry: lower halves are what these are more
    let (mut upper, mut all) = (wide.all(0), wide.all(0));
    let two = wide.plus(total, total);
    let four = wide.plus(two, two);
    let bits = wide.plus(four, four);
    let mut i = ADDRESSES / 4;
    // Loops over indices: adapters may not be inlined. Bound: the columns
    while i < COLUMNS_V4 {
        let at = i as u32 * 4;
        let word = match at < IP + UDP {
            true => words[i],
            // as far as the packet goes
            false => wide.first_bits(words[i], wide.minus(bits, wide.all(at * 8))),
        };
        upper = wide.plus(upper, wide.right(word, 16));
        all = wide.plus(all, word);
        i += 1;
    }
    if let Some(windows) = windows {
        let left = wide.minus(bits, wide.all(IN_COLUMNS * 8));
        let last = wide.first_bits(wide.last_halves(windows), left);
        upper = wide.plus(upper, wide.right(last, 16));
        all = wide.plus(all, last);
    }
    let more = wide.times(upper, wide.all(0xffff));
    wide.plus(sum, wide.minus(all, more))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::members::six;
    use crate::flow::windows::places;
    use onefold_packet::{Packet, Pkt, checksum};

    /// What [`plain`] says of a packet, byte by byte, with acknowledgement and end of a segment.
    fn told(data: &[u8], sums: bool) -> Option<(u32, u32)> {
        let ip = &data[HEAD_AT..];
        let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
        if total < 28 || total > ip.len() {
            return None;
        }
        let (upper, protocol) = (&ip[20..total], ip[9]);
        let word = |at: usize| u32::from_be_bytes(*upper[at..].first_chunk().unwrap());
        let mut noted = (0, 0);
        let mut summed = true;
        match protocol {
            6 => {
                let header = upper.get(12).map_or(0, |b| usize::from(b >> 4) * 4);
                if header < 20 || header > upper.len() || upper[13] & 0x37 != 0x10 {
                    return None;
                }
                let payload = (upper.len() - header) as u32;
                noted = (word(8), word(4).wrapping_add(payload));
            }
            17 => {
                let len = (word(4) >> 16) as usize;
                if len < 8 || len > upper.len() {
                    return None;
                }
                summed = word(4) & 0xffff != 0;
            }
            _ => return None,
        }
        let pseudo = checksum::sum(&ip[12..20], u64::from(protocol) + upper.len() as u64);
        let right = checksum::fold(checksum::sum(upper, pseudo)) == 0xffff;
        (right || !summed || !sums).then_some(noted)
    }

    /// A packet, most of whose bytes are what they should be.
    fn packet(random: &mut impl FnMut(u32) -> u32) -> Vec<u8> {
        let tcp = random(2) == 0;
        let options = if tcp { random(3) as usize * 4 } else { 0 };
        let header = if tcp { 20 + options } else { 8 };
        let payload = [random(9), random(30), random(200)][random(3) as usize] as usize;
        let len = header + payload;
        let mut b: Vec<u8> = (0..HEAD_AT + 20 + len).map(|_| random(256) as u8).collect();
        b[14..18].copy_from_slice(&[0x45, 0, 0, 0]);
        b[16..18].copy_from_slice(&((20 + len) as u16).to_be_bytes());
        b[20..22].copy_from_slice(&[0x40, 0]);
        b[23] = if tcp { 6 } else { 17 };
        let sum_at = if tcp { 50 } else { 40 };
        if tcp {
            b[46] = (header as u8 / 4) << 4;
            b[47] = [0x10, 0x18, 0xd0, 0x30, 0x11, 2][random(12).saturating_sub(6) as usize];
        } else {
            b[38..40].copy_from_slice(&(len as u16).to_be_bytes());
        }
        b[sum_at..sum_at + 2].fill(0);
        let pseudo = checksum::sum(&b[26..34], u64::from(b[23]) + len as u64);
        let sum = !checksum::fold(checksum::sum(&b[34..], pseudo));
        if tcp || random(4) != 0 {
            b[sum_at..sum_at + 2].copy_from_slice(&sum.to_be_bytes());
        }
        // behind what the header says
        b.resize((b.len() + random(3) as usize * 5).max(60), 0xff);
        if random(3) == 0 {
            let at = 14 + random(len as u32 + 20) as usize;
            b[at] ^= 1 << random(8);
        }
        b
    }

    /// As the first look does it.
    fn tell(wide: impl Wide, packets: &Windows<'_>, meta: &mut BatchMeta, sums: bool) {
        for first in (0..packets.len()).step_by(ROW) {
            let windows = packets.row(first);
            let words = six(wide, &wide.columns(windows), &wide.edges(windows));
            let those = Sixteen {
                packets,
                first,
                words: &words,
                len: wide.get(&Lanes(*row(&mut meta.lens, first))),
            };
            plain(wide, &those, meta, sums);
        }
    }

    fn are_told(wide: impl Wide) {
        let mut x = 0x1234_5678_9abc_def1u64;
        let mut random = |n: u32| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            ((x >> 20) % u64::from(n)) as u32
        };
        let mut seen = [0; 2];
        for round in 0..200 {
            let (n, sums) = (1 + random(GROUP as u32) as usize, round % 5 != 0);
            let mut all: Vec<Pkt> = (0..n)
                .map(|_| Box::new(Packet::from_slice(&packet(&mut random))))
                .collect();
            let data: Vec<Vec<u8>> = all.iter().map(|p| p.data().to_vec()).collect();
            let (mut meta, mut at) = (BatchMeta::default(), places());
            let windows = Windows::of(&mut all, &mut meta.lens, &mut at);
            tell(wide, &windows, &mut meta, sums);
            let got = meta.plain;
            let padded = (0..n).map(|i| {
                u64::from(
                    data[i].len()
                        > 14 + usize::from(u16::from_be_bytes([data[i][16], data[i][17]])),
                ) << i
            });
            assert_eq!(meta.padded & got, padded.sum::<u64>() & got);
            for (i, d) in data.iter().enumerate() {
                let want = told(d, sums);
                assert_eq!(got >> i & 1 == 1, want.is_some(), "{sums} {d:x?}");
                seen[usize::from(want.is_some())] += 1;
                if let (Some(noted), 6) = (want, d[23]) {
                    assert_eq!((meta.acks[i], meta.ends[i]), noted, "{d:x?}");
                }
            }
            assert_eq!(got & !crate::simd::bits::first_bits(n), 0);
        }
        assert!(seen.iter().all(|n| *n > 500), "{seen:?}");
    }

    #[test]
    fn plain_packets_are_told_however_wide() {
        are_told(crate::simd::any::Any);
        #[cfg(target_arch = "x86_64")]
        {
            if let Some(wide) = crate::simd::avx2::Avx2::found() {
                are_told(wide);
            }
            if let Some(wide) = crate::simd::avx512::Avx512::found() {
                are_told(wide);
            }
        }
    }
}
