//! What a rewriter is asked with, and whether its answer is the expected one.

use crate::program::code::Expect;
use crate::program::rewrite::image;
use onefold_element::model::{BindKind, BindPacket, Binding};
use onefold_packet::Pkt;
use onefold_synth::program::Mark;

/// A packet as a rewriter wants it, read through the image. `None` without an IP header or eight bytes behind it.
#[inline(always)]
pub(super) fn bind_packet(
    m: &image::Image,
    kind: BindKind,
    p: &Pkt,
    regs: &[u128],
    to: &mut BindPacket,
) -> Option<()> {
    if kind == BindKind::Flow && m.bind_packet(p, regs, to).is_some() {
        #[cfg(debug_assertions)]
        {
            let mut same = BindPacket::default();
            debug_assert!(imaged(m, p, regs, &mut same).is_some());
            debug_assert_eq!(same, *to);
        }
        return Some(());
    }
    imaged(m, p, regs, to)
}

/// The same, whatever has been written.
#[inline(never)]
fn imaged(m: &image::Image, p: &Pkt, regs: &[u128], to: &mut BindPacket) -> Option<()> {
    let (net, len) = match m.net {
        Mark::At(at, len) => (i64::from(at), i64::from(len)),
        Mark::Same => {
            let net = p.network_header_offset()? as i64;
            (net, p.transport_header_offset()? as i64 - net)
        }
        Mark::None | Mark::Alone(_) => return None,
    };
    // header of 20 bytes, and the first 14 behind it
    let mut h = [0u8; 34];
    m.window(p, regs, net, &mut h);
    let transport_len = usize::try_from(m.end(p) - net - len).ok()?;
    if len != 20 || transport_len < 8 {
        return None;
    }
    let mut head = [0; 8];
    head.copy_from_slice(&h[20..28]);
    m.annotations(p, regs, &mut to.anno);
    to.proto = h[9];
    to.saddr = u32::from_be_bytes([h[12], h[13], h[14], h[15]]);
    to.daddr = u32::from_be_bytes([h[16], h[17], h[18], h[19]]);
    to.head = head;
    to.tcp = match transport_len >= 14 {
        true => [h[32], h[33]],
        false => [0; 2],
    };
    to.transport_len = transport_len;
    to.total_len = u16::from_be_bytes([h[2], h[3]]);
    Some(())
}

/// Is this the binding that the action was made for?
#[inline]
pub(super) fn as_expected(
    e: &Expect,
    port: u16,
    kind: BindKind,
    b: &Binding,
    p: &BindPacket,
) -> bool {
    if b.reply || b.origin != port || b.output != e.output {
        return false;
    }
    let word = |i: usize| u32::from(u16::from_be_bytes([p.head[i], p.head[i + 1]]));
    let (sport, dport) = (u32::from(b.sport), u32::from(b.dport));
    if kind == BindKind::Flow && e.any {
        let same = [
            p.saddr == b.saddr,
            p.daddr == b.daddr,
            word(0) == sport,
            word(2) == dport,
        ];
        return (0..4).all(|i| same[i] | !e.kept[i]);
    }
    // old and new; what a kind of binding does not rewrite is not looked at
    let ports = match kind {
        BindKind::Flow => [Some((word(0), sport)), Some((word(2), dport))],
        BindKind::Ping => [Some((word(4), sport)), None],
        BindKind::Addresses => [None, None],
    };
    let fields = [
        Some((p.saddr, b.saddr)),
        Some((p.daddr, b.daddr)),
        ports[0],
        ports[1],
    ];
    fields
        .iter()
        .zip(&e.kept)
        .zip(&e.sets)
        .all(|((f, kept), set)| {
            f.is_none_or(|(old, new)| match kept {
                true => old == new,
                false => (set.as_ref()).is_none_or(|s| s.contains(u128::from(new))),
            })
        })
}
