//! SetTCPMSS: the largest segment that an end of a TCP connection says it takes.
//!
//! `SetTCPMSS(MSS)` lowers the option of TCP's header (RFC 9293 3.7.1) to `MSS` where it says more; it is never raised.
//! With `ADD true`, segments without the option get one, of 536 (IPv6: 1220) at most, which is what counts without it,
//! unless they have data or their header is full; and segments whose header is cut short are dropped: as Linux's TCPMSS
//! target does (net/netfilter/xt_TCPMSS.c). Without, they stay as they are, as for nft's `tcp option maxseg size set`
//! (net/netfilter/nft_exthdr.c). The checksum is updated incrementally, so that a wrong one stays wrong; where the
//! option stands at an odd byte, Linux updates it wrongly, and this element does not. IPv4 and IPv6, behind the header
//! annotation; later fragments, and what is not TCP, are not changed.

use super::one_to_one;
use onefold_element::args::Args;
use onefold_element::model::{Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::wire::{ipv4, ipv6};
use onefold_packet::{Packet, Pkt, checksum};

/// `SetTCPMSS`.
pub const SET_TCP_MSS: ElementClass = one_to_one(
    "SetTCPMSS",
    Effect::Pure,
    "MSS [, keyword ADD]",
    "lowers the maximum segment size that TCP segments announce",
    || Box::new(SetTcpMss { mss: 0, add: false }),
);

/// Of segments whose header does not fit.
const CUT: &str = "SetTCPMSS: TCP header cut short";
/// TCP's number.
const TCP: u8 = 6;
/// Bytes of a TCP header without options.
const LEN: usize = 20;
/// Most bytes of one with options.
const MAX_LEN: usize = 60;
/// The option: its kind, and its length.
const KIND: u8 = 2;
const OPTION: usize = 4;
/// No operation; kinds up to it have no length.
const NOP: u8 = 1;
/// Largest segment that is announced to who has announced none: of IPv4 and IPv6 (RFC 9293 3.7.1).
const MOST_UNASKED: [u16; 2] = [536, 1220];

#[derive(Debug, Clone)]
struct SetTcpMss {
    mss: u16,
    add: bool,
}

/// Where the option's number stands in a TCP header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Found {
    At(usize),
    /// There is none.
    None,
    /// It does not fit.
    Broken,
}

/// Where the TCP header of a packet begins, if it has one.
pub(super) fn tcp_at(ip: &[u8]) -> Option<usize> {
    match ip.first()? >> 4 {
        4 => {
            let h = ipv4::Header::parse(ip)?;
            let whole = h.protocol() == TCP && h.is_first_fragment();
            whole.then_some(h.header_len()).filter(|n| *n >= ipv4::LEN)
        }
        6 => {
            let (protocol, at, later) = ipv6::Header::parse(ip)?.upper_layer()?;
            (protocol == TCP && !later).then_some(at)
        }
        _ => None,
    }
}

impl SetTcpMss {
    /// Looks for the option as the kernel does: a length of 0 takes one byte.
    fn find(&self, header: &[u8]) -> Found {
        let end = match self.add {
            true => header.len() + 1 - OPTION,
            false => header.len() - 1,
        };
        let mut i = LEN;
        // Bound: each turn takes a byte at least, of 40
        while i < end {
            let (kind, len) = (header[i], header.get(i + 1).copied().unwrap_or(0));
            let step = match kind <= NOP || len == 0 {
                true => 1,
                false => usize::from(len),
            };
            match self.add {
                true if kind == KIND && usize::from(len) == OPTION => return Found::At(i + 2),
                false if kind == KIND && (i + step > header.len() || step < OPTION) => {
                    return Found::Broken;
                }
                false if kind == KIND => return Found::At(i + 2),
                _ => i += step,
            }
        }
        Found::None
    }

    /// Changes a packet; `Err`: it is to be dropped.
    fn change(&self, p: &mut Packet) -> Result<(), &'static str> {
        let cut = match self.add {
            true => Err(CUT),
            false => Ok(()),
        };
        let Some((ip, at)) = p.network_mut().and_then(|ip| {
            let at = tcp_at(ip)?;
            Some((ip, at))
        }) else {
            return Ok(());
        };
        let Some(tcp) = ip.get_mut(at..).filter(|t| t.len() >= LEN) else {
            return cut;
        };
        let len = usize::from(tcp[12] >> 4) * 4;
        if !(LEN..=tcp.len().min(MAX_LEN)).contains(&len) {
            return cut;
        }
        match self.find(&tcp[..len]) {
            Found::At(i) => {
                let old = u16::from_be_bytes([tcp[i], tcp[i + 1]]);
                if old > self.mss {
                    set_word(tcp, i, self.mss);
                }
            }
            Found::None if self.add && tcp.len() == len && len < MAX_LEN => self.insert(p, at),
            Found::None | Found::Broken => {}
        }
        Ok(())
    }

    /// Puts the option behind the fixed part of the header at `at`.
    fn insert(&self, p: &mut Packet, at: usize) {
        let before = p.data().len();
        p.put(OPTION);
        if p.data().len() != before + OPTION {
            // as long as packets can be
            return;
        }
        let Some(ip) = p.network_mut() else { return };
        let len = ip.len() - OPTION - at;
        let six = ip[0] >> 4 == 6;
        let tcp = &mut ip[at..];
        tcp.copy_within(LEN..len, LEN + OPTION);
        let mss = self.mss.min(MOST_UNASKED[usize::from(six)]);
        let mut sum = u16::from_be_bytes([tcp[16], tcp[17]]);
        let lengths = [len, len + OPTION].map(|n| n as u16);
        sum = checksum::update(sum, lengths[0], lengths[1]);
        let option = u32::from_be_bytes([KIND, OPTION as u8, (mss >> 8) as u8, mss as u8]);
        tcp[LEN..LEN + OPTION].copy_from_slice(&option.to_be_bytes());
        sum = checksum::update32(sum, 0, option);
        let old = u16::from_be_bytes([tcp[12], tcp[13]]);
        tcp[12] += 0x10;
        sum = checksum::update(sum, old, u16::from_be_bytes([tcp[12], tcp[13]]));
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        // the length that IP says
        let place = if six { 4 } else { 2 };
        let old = u16::from_be_bytes([ip[place], ip[place + 1]]);
        let new = old.wrapping_add(OPTION as u16);
        ip[place..place + 2].copy_from_slice(&new.to_be_bytes());
        if let Some(mut h) = ipv4::Header::parse(ip).filter(|_| !six) {
            h.set_checksum(checksum::update(h.checksum(), old, new));
        }
    }
}

/// Writes a word of a TCP header at any byte, and what it does to the checksum.
fn set_word(tcp: &mut [u8], at: usize, word: u16) {
    // at an odd byte, it is two halves of words of the sum: its bytes swapped stand for it
    let sides = |w: u16| {
        if at.is_multiple_of(2) {
            w
        } else {
            w.swap_bytes()
        }
    };
    let old = u16::from_be_bytes([tcp[at], tcp[at + 1]]);
    tcp[at..at + 2].copy_from_slice(&word.to_be_bytes());
    let sum = u16::from_be_bytes([tcp[16], tcp[17]]);
    let sum = checksum::update(sum, sides(old), sides(word));
    tcp[16..18].copy_from_slice(&sum.to_be_bytes());
}

impl Element for SetTcpMss {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.add = args.keyword("ADD").unwrap_or(false);
        self.mss = args.mandatory("MSS").unwrap_or(0);
        args.finish()
    }

    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        match self.change(&mut p) {
            Ok(()) => cx.emit(0, p),
            Err(why) => {
                cx.decide(None, || why.to_string());
                cx.drop(p, why);
            }
        }
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::None("options of TCP, which a field cannot name")
    }

    element_any!();
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bench;

    /// A SYN with these options (a multiple of four bytes) and data.
    fn segment(six: bool, options: &[u8], data: &[u8]) -> Packet {
        let mut tcp = vec![0, 80, 0, 90, 1, 2, 3, 4, 0, 0, 0, 0];
        tcp.extend([(5 + options.len() as u8 / 4) << 4, 2, 16, 0, 0, 0, 0, 0]);
        tcp.extend(options);
        tcp.extend(data);
        let n = tcp.len() as u16;
        let mut d = match six {
            false => {
                let mut d = vec![0x45, 0, 0, 0, 0, 0, 0x40, 0, 64, 6, 0, 0];
                d.extend([10, 0, 0, 1, 10, 0, 0, 2]);
                d[2..4].copy_from_slice(&(n + 20).to_be_bytes());
                ipv4::Header::parse(&mut d[..]).unwrap().fill_checksum();
                d
            }
            true => {
                let mut d = vec![0x60, 0, 0, 0, 0, 0, 6, 64];
                d.extend([[0x20; 16], [0x21; 16]].concat());
                d[4..6].copy_from_slice(&n.to_be_bytes());
                d
            }
        };
        let sum = !checksum::fold(checksum::sum(&tcp, pseudo(&d, n)));
        tcp[16..18].copy_from_slice(&sum.to_be_bytes());
        d.extend(&tcp);
        let mut p = Packet::from_slice(&d);
        p.set_network_header(0, if six { 40 } else { 20 });
        p
    }

    fn pseudo(ip: &[u8], n: u16) -> u64 {
        match ip[0] >> 4 {
            4 => checksum::sum(&ip[12..20], 6 + u64::from(n)),
            _ => checksum::sum(&ip[8..40], 6 + u64::from(n)),
        }
    }

    /// All checksums and lengths are right.
    fn good(p: &Packet) -> bool {
        let d = p.data();
        let (at, said) = match d[0] >> 4 {
            4 => (20, usize::from(u16::from_be_bytes([d[2], d[3]]))),
            _ => (40, usize::from(u16::from_be_bytes([d[4], d[5]])) + 40),
        };
        let n = (d.len() - at) as u16;
        let ip = at == 40 || ipv4::Header::parse(d).unwrap().checksum_ok();
        ip && said == d.len() && checksum::fold(checksum::sum(&d[at..], pseudo(d, n))) == 0xffff
    }

    fn options(p: &Packet) -> Vec<u8> {
        let at = if p.data()[0] >> 4 == 4 { 20 } else { 40 };
        let tcp = &p.data()[at..];
        tcp[20..usize::from(tcp[12] >> 4) * 4].to_vec()
    }

    fn through(config: &str, p: Packet) -> Option<Box<Packet>> {
        let mut b = Bench::new("SetTCPMSS", config, 1, 1).unwrap();
        b.push_packet(0, Box::new(p)).pop().map(|x| x.1)
    }

    #[test]
    fn segments_get_smaller_and_never_larger() {
        for six in [false, true] {
            for config in ["1200", "1200, ADD true"] {
                let of = |o: &[u8]| {
                    let p = through(config, segment(six, o, &[7; 5])).unwrap();
                    assert!(good(&p), "{config} {o:?}");
                    options(&p)
                };
                assert_eq!(of(&[2, 4, 5, 0xb4]), [2, 4, 4, 0xb0]);
                assert_eq!(of(&[2, 4, 4, 0xaf]), [2, 4, 4, 0xaf]);
                // behind others, at an odd byte
                assert_eq!(
                    of(&[1, 3, 3, 9, 1, 1, 1, 2, 4, 0xff, 0xff, 0]),
                    [1, 3, 3, 9, 1, 1, 1, 2, 4, 4, 0xb0, 0]
                );
                // segments with data do not get the option
                assert_eq!(of(&[]), [0u8; 0]);
                // kinds that are none, a length of 0
                assert_eq!(
                    of(&[9, 0, 2, 4, 0xff, 0xff, 0, 0]),
                    [9, 0, 2, 4, 4, 0xb0, 0, 0]
                );
            }
            let p = through("1200", segment(six, &[8, 2, 1, 1], &[])).unwrap();
            assert_eq!(options(&p), [8, 2, 1, 1]);
        }
    }

    #[test]
    fn the_option_is_added_where_there_is_none() {
        for six in [false, true] {
            let add = |mss: &str, o: &[u8]| {
                let p = through(&format!("{mss}, ADD true"), segment(six, o, &[])).unwrap();
                assert!(good(&p), "{o:?}");
                options(&p)
            };
            let most = if six { [4, 196] } else { [2, 24] };
            let with = [&[2, 4][..], &most, &[8, 2, 1, 1]].concat();
            assert_eq!(add("1400", &[8, 2, 1, 1]), with);
            assert_eq!(add("300", &[]), [2, 4, 1, 44]);
            // a full header
            assert_eq!(add("300", &[1; 40]), [1; 40]);
        }
    }

    #[test]
    fn headers_that_are_cut_short() {
        let mut cut = segment(false, &[2, 4, 255, 255], &[]);
        cut.take(2);
        let before = cut.data().to_vec();
        assert_eq!(through("1", cut.clone()).unwrap().data(), before);
        assert!(through("1, ADD true", cut).is_none());
        let mut later = segment(false, &[2, 4, 255, 255], &[]);
        later.data_mut()[7] = 1;
        let before = later.data().to_vec();
        for config in ["1", "1, ADD true"] {
            assert_eq!(through(config, later.clone()).unwrap().data(), before);
        }
        assert!(Bench::new("SetTCPMSS", "70000", 1, 1).is_err());
    }
}
