//! What is sent: frames made before the clock starts, the order in which they come, and the flow of each.

use crate::schedule::Schedule;
use crate::stamp::{FLOWS, Place, Prepared, prepare};
use onefold_packet::EtherAddr;
use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};

/// Most bytes of all frames together.
pub const MAX_BYTES: usize = 2 << 30;

/// Too much of something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// Bytes.
    #[error("the frames to be sent take more than 2 GiB of memory")]
    Bytes,
    /// Flows.
    #[error("there are more than 16,777,216 flows")]
    Flows,
    /// Ports.
    #[error("there are more than 255 ports")]
    Ports,
}

/// Does a frame get a stamp?
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stamping {
    /// If it carries TCP, UDP or an ICMP echo in one piece; a payload that is too short is made longer.
    Always,
    /// If there is room as it is.
    IfRoom,
    /// No: it is sent as it is.
    Never,
}

/// A frame as it is sent, but for its stamp.
#[derive(Debug, Clone, Copy)]
struct Template {
    from: usize,
    len: u32,
    flow: u32,
    port: u8,
    place: Option<Place>,
}

/// A frame that is sent.
#[derive(Debug, Clone, Copy)]
pub struct Outgoing<'a> {
    /// Its bytes; the place of the stamp is zero.
    pub bytes: &'a [u8],
    /// Where the stamp goes; `None`: it has none.
    pub place: Option<Place>,
    /// Its flow.
    pub flow: u32,
    /// The port that it leaves at.
    pub port: usize,
}

/// All that is sent.
#[derive(Debug, Clone, Default)]
pub struct Load {
    bytes: Vec<u8>,
    templates: Vec<Template>,
    /// Templates as they come; empty: one after the other.
    order: Vec<u32>,
    /// Frames that are sent once, in front of all others: port and bytes.
    opening: Vec<(u8, Vec<u8>)>,
    /// Intended times, of frames that were recorded; empty: they are as told.
    times: Vec<u64>,
    flows: HashMap<u64, u32>,
    sender: Vec<u8>,
    longer: u64,
    next: usize,
}

impl Load {
    /// Nothing yet.
    pub fn new() -> Load {
        Load::default()
    }

    /// One more frame, sent at a port. `flow`: what packets of its flow have in common. Gives its number.
    ///
    /// # Errors
    /// Too much.
    pub fn push(
        &mut self,
        port: usize,
        flow: &[u8],
        mut frame: Vec<u8>,
        stamping: Stamping,
    ) -> Result<u32, LoadError> {
        let port = u8::try_from(port).map_err(|_| LoadError::Ports)?;
        let mut h = DefaultHasher::new();
        (port, flow).hash(&mut h);
        let next = self.sender.len() as u32;
        let flow = *self.flows.entry(h.finish()).or_insert(next);
        if flow == next {
            if next >= FLOWS {
                return Err(LoadError::Flows);
            }
            self.sender.push(port);
        }
        let prepared = match stamping {
            Stamping::Never => Prepared::Without,
            _ => prepare(&mut frame, stamping == Stamping::Always),
        };
        let place = match prepared {
            Prepared::Ready(p) => Some(p),
            Prepared::Longer(p) => {
                self.longer += 1;
                Some(p)
            }
            Prepared::Without => None,
        };
        let from = self.bytes.len();
        if from + frame.len() > MAX_BYTES {
            return Err(LoadError::Bytes);
        }
        self.bytes.extend_from_slice(&frame);
        self.templates.push(Template {
            from,
            len: frame.len() as u32,
            flow,
            port,
            place,
        });
        Ok(self.templates.len() as u32 - 1)
    }

    /// A frame that is sent once, before all others; without a stamp.
    ///
    /// # Errors
    /// Too much.
    pub fn open(&mut self, port: usize, frame: Vec<u8>) -> Result<(), LoadError> {
        let port = u8::try_from(port).map_err(|_| LoadError::Ports)?;
        self.opening.push((port, frame));
        Ok(())
    }

    /// Frames come in this order, by number, and over again; those that there are not are left out.
    pub fn set_order(&mut self, mut order: Vec<u32>) {
        order.retain(|n| (*n as usize) < self.templates.len());
        self.order = order;
    }

    /// Frames were recorded at these times, in nanoseconds from the first one, in order.
    pub fn set_times(&mut self, times: Vec<u64>) {
        self.times = times;
    }

    /// The times at which frames were recorded, if they were.
    pub fn recorded(&self) -> Option<Schedule> {
        (!self.times.is_empty()).then(|| Schedule::recorded(self.times.clone()))
    }

    /// Other MAC addresses of the frames that leave at a port: destination, source; `None`: as they are.
    pub fn set_link(&mut self, port: usize, to: Option<EtherAddr>, from: Option<EtherAddr>) {
        let write = |frame: &mut [u8]| {
            for (at, mac) in [(0, to), (6, from)] {
                if let (Some(mac), Some(b)) = (mac, frame.get_mut(at..at + 6)) {
                    b.copy_from_slice(&mac.0);
                }
            }
        };
        for t in self
            .templates
            .iter()
            .filter(|t| usize::from(t.port) == port)
        {
            if let Some(f) = self.bytes.get_mut(t.from..t.from + t.len as usize) {
                write(f);
            }
        }
        for (p, f) in &mut self.opening {
            if usize::from(*p) == port {
                write(f);
            }
        }
    }

    /// The next one to send; after the last, the first again. `None`: there is none.
    #[inline]
    pub fn take(&mut self) -> Option<Outgoing<'_>> {
        let all = match self.order.len() {
            0 => self.templates.len(),
            n => n,
        };
        if self.next >= all {
            self.next = 0;
        }
        let which = match self.order.is_empty() {
            true => self.next,
            false => *self.order.get(self.next)? as usize,
        };
        self.next += 1;
        let t = self.templates.get(which)?;
        Some(Outgoing {
            bytes: self.bytes.get(t.from..t.from + t.len as usize)?,
            place: t.place,
            flow: t.flow,
            port: t.port.into(),
        })
    }

    /// From the first one again.
    pub fn rewind(&mut self) {
        self.next = 0;
    }

    /// Frames that open flows, with their ports.
    pub fn opening(&self) -> impl ExactSizeIterator<Item = (usize, &[u8])> {
        self.opening.iter().map(|(p, f)| (usize::from(*p), &f[..]))
    }

    /// The first frame that leaves at a port.
    pub fn first(&self, port: usize) -> Option<&[u8]> {
        let t = self
            .templates
            .iter()
            .find(|t| usize::from(t.port) == port)?;
        self.bytes.get(t.from..t.from + t.len as usize)
    }

    /// Different frames.
    pub fn len(&self) -> usize {
        self.templates.len()
    }

    /// Nothing is sent.
    pub fn is_empty(&self) -> bool {
        self.templates.is_empty()
    }

    /// By flow: the port that it leaves at.
    pub fn senders(&self) -> &[u8] {
        &self.sender
    }

    /// Length of the longest frame, in bytes.
    pub fn longest(&self) -> usize {
        let all = self.templates.iter().map(|t| t.len as usize);
        all.chain(self.opening.iter().map(|o| o.1.len()))
            .max()
            .unwrap_or(0)
    }

    /// Frames that were made longer, so that they have room for a stamp.
    pub fn longer(&self) -> u64 {
        self.longer
    }

    /// Frames without a stamp.
    pub fn unstamped(&self) -> usize {
        let without = self.templates.iter().filter(|t| t.place.is_none());
        without.count()
    }

    /// Mean length of the frames as they come, in bytes.
    pub fn mean_size(&self) -> f64 {
        let len = |t: &Template| u64::from(t.len);
        let (bytes, n): (u64, usize) = match self.order.len() {
            0 => (self.templates.iter().map(len).sum(), self.templates.len()),
            n => {
                let of = |i: &u32| self.templates.get(*i as usize).map_or(0, len);
                (self.order.iter().map(of).sum(), n)
            }
        };
        bytes as f64 / n.max(1) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;

    fn frame(port: u16) -> Vec<u8> {
        let b = PacketBuilder::ethernet2([2; 6], [4; 6])
            .ipv4([10, 0, 0, 1], [198, 18, 0, 9], 64)
            .udp(port, 9);
        let mut f = Vec::new();
        b.write(&mut f, &[0; 18]).unwrap();
        f
    }

    #[test]
    fn frames_come_in_order_and_again_with_their_flows() {
        let mut l = Load::new();
        for p in [1, 2, 1] {
            l.push(0, &[p as u8], frame(p), Stamping::Always).unwrap();
        }
        l.push(1, &[1], frame(1), Stamping::Always).unwrap();
        assert_eq!(l.senders(), [0, 0, 1], "a flow is of one port");
        let mut flows = || l.take().map(|o| (o.flow, o.port)).unwrap();
        let round = [(0, 0), (1, 0), (0, 0), (2, 1)];
        assert_eq!([flows(), flows(), flows(), flows()], round);
        assert_eq!(flows(), round[0]);
        l.set_order(vec![3, 9, 1]);
        l.rewind();
        assert_eq!(l.take().map(|o| o.flow), Some(2));
        assert_eq!(l.take().map(|o| o.flow), Some(1), "there is no ninth");
        assert_eq!(l.take().map(|o| o.flow), Some(2));
        assert_eq!((l.len(), l.mean_size(), l.unstamped()), (4, 60.0, 0));
        assert!(Load::new().take().is_none());
    }

    #[test]
    fn mac_addresses_are_those_of_the_port() {
        let mut l = Load::new();
        l.push(0, &[1], frame(1), Stamping::Always).unwrap();
        l.push(1, &[1], frame(1), Stamping::Always).unwrap();
        l.open(1, frame(1)).unwrap();
        l.set_link(1, Some(EtherAddr([9; 6])), None);
        assert_eq!(l.first(0).unwrap()[..12], frame(1)[..12]);
        assert_eq!(l.first(1).unwrap()[..6], [9; 6]);
        assert_eq!(l.first(1).unwrap()[6..12], frame(1)[6..12]);
        assert_eq!(l.opening().next().unwrap().1[..6], [9; 6]);
    }
}
