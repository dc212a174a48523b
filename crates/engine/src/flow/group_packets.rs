//! Packets of a group by their numbers in it, whoever has them: the first look's windows, or the rest of a batch.

use crate::flow::windows::Windows;
use crate::simd::WINDOW;
use onefold_packet::{Packet, Pkt};

/// Packets of a group, by their numbers in it.
pub(crate) trait GroupPackets {
    fn packet(&self, i: usize) -> Option<&Packet>;
    fn packet_mut(&mut self, i: usize) -> Option<&mut Packet>;
    /// Its first bytes.
    fn window(&mut self, i: usize) -> Option<&mut [u8; WINDOW]>;
    /// It keeps so many bytes, the first ones.
    fn keep(&mut self, i: usize, len: usize);
}

impl GroupPackets for Windows<'_> {
    #[inline(always)]
    fn packet(&self, i: usize) -> Option<&Packet> {
        self.packet(i)
    }
    #[inline(always)]
    fn packet_mut(&mut self, i: usize) -> Option<&mut Packet> {
        self.packet_mut(i)
    }
    #[inline(always)]
    fn window(&mut self, i: usize) -> Option<&mut [u8; WINDOW]> {
        self.get_mut(i)
    }
    #[inline(always)]
    fn keep(&mut self, i: usize, len: usize) {
        self.keep(i, len);
    }
}

/// Those that have not left, the first of which has this number.
pub(crate) struct Rest<'a> {
    pub from: usize,
    pub packets: &'a mut [Pkt],
}

impl GroupPackets for Rest<'_> {
    #[inline(always)]
    fn packet(&self, i: usize) -> Option<&Packet> {
        self.packets.get(i.wrapping_sub(self.from)).map(|p| &**p)
    }
    #[inline(always)]
    fn packet_mut(&mut self, i: usize) -> Option<&mut Packet> {
        let p = self.packets.get_mut(i.wrapping_sub(self.from));
        p.map(|p| &mut **p)
    }
    #[inline(always)]
    fn window(&mut self, i: usize) -> Option<&mut [u8; WINDOW]> {
        self.packet_mut(i)?.window_mut()
    }
    #[inline(always)]
    fn keep(&mut self, i: usize, len: usize) {
        if let Some(p) = self.packet_mut(i) {
            p.keep(len);
        }
    }
}
