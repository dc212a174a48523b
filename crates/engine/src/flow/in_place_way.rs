//! Composed actions in the form in which packets go through them in place ([`crate::flow::in_place`]).

use onefold_element::Inspected;
use onefold_packet::Packet;

/// Elements on a flow's way whose hints an entry has room for ([`crate::flow::hints`]).
pub(crate) const HINTS: u8 = 2;

/// No element.
pub(crate) const NOBODY: u32 = u32::MAX;

/// Where an element finds a packet's headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Headers {
    pub network: usize,
    pub header: usize,
    pub protocol: u8,
}

impl Headers {
    /// As the packet's annotations say; `None` where that is not what [`Inspected`] says.
    pub fn of(p: &Packet) -> Option<Headers> {
        let seen = Inspected::of(p)?;
        Some(Headers {
            network: p.len() - seen.net.len(),
            header: seen.header,
            protocol: seen.protocol,
        })
    }
}

/// What is asked between two actions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Asked {
    pub node: u32,
    pub site: u32,
    /// Where the IP header is in the packet as the next cache looks at it, and by how many bytes that is longer.
    pub l3: u16,
    pub shift: u16,
    pub header: u16,
    pub protocol: u8,
    /// Which of the hints that are kept with flows' entries is its; [`HINTS`] for none.
    pub hint: u8,
}

/// One action of several, and how the packet comes to the next one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stretch {
    pub action: u32,
    pub template: u32,
    pub own: bool,
    /// Nobody wants to be told of its packets before the end of a batch.
    pub quiet: bool,
    /// By so many bytes packets begin later at the next one.
    pub less: i16,
    pub asked: Option<Asked>,
}

impl Stretch {
    /// A packet that has been written comes to the next action.
    #[inline(always)]
    pub fn moves(&self, p: &mut Packet) {
        match self.less {
            0 => {}
            n if n > 0 => p.pull(n as usize),
            n => p.push(usize::from(n.unsigned_abs())),
        }
    }
}

/// A composed action that packets may go through in place.
#[derive(Debug, Clone)]
pub(crate) struct InPlace {
    pub stretches: Box<[Stretch]>,
    /// Packets have been changed in front of an element that is asked.
    pub changed: bool,
    /// The elements whose hints are kept with flows' entries; [`NOBODY`] for none.
    pub hinted: [u32; HINTS as usize],
}

impl Asked {
    /// What the element gets to see of a packet that the next cache will look at.
    #[inline(always)]
    pub fn of<'a>(&self, p: &'a Packet, total: u32) -> Inspected<'a> {
        let net = p.data().get(usize::from(self.l3)..).unwrap_or(&[]);
        Inspected {
            net,
            header: self.header.into(),
            total: (total as usize).min(net.len()),
            protocol: self.protocol,
            len: p.len() - usize::from(self.shift).min(p.len()),
        }
    }
}
