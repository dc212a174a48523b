//! Ports of several workers that are queues of one device: the first one looks after it, the others follow.

use crate::family::Shared;
use crate::ffi::Device;
use crate::opened::Opened;
use onefold_runtime::LinkState;
use std::sync::{Mutex, MutexGuard, PoisonError, Weak};

/// What the first port says to the others. Asked for several times a second, not by packet.
#[derive(Debug)]
pub(crate) struct Group(Mutex<State>);

#[derive(Debug)]
struct State {
    /// By port: its part of the device, once that is there again.
    parts: Vec<Option<Opened>>,
    /// How often the device went away.
    gone: u64,
    link: LinkState,
}

impl Group {
    /// Of so many ports.
    pub fn new(ports: usize, link: LinkState) -> Group {
        Group(Mutex::new(State {
            parts: (0..ports).map(|_| None).collect(),
            gone: 0,
            link,
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device has gone.
    pub fn close(&self) {
        let mut s = self.state();
        s.gone += 1;
        s.parts.fill_with(|| None);
        s.link = LinkState::Gone;
    }

    /// A port lets its part go. Whoever was the last closes the device, which is over when this returns.
    pub fn release(&self, part: Option<Opened>) {
        let _one_at_a_time = self.state();
        drop(part);
    }

    /// Have all ports let go of this device, and is it closed?
    pub fn is_closed(&self, device: &Weak<Device>) -> bool {
        let _nobody_closes_it_now = self.state();
        device.upgrade().is_none()
    }

    /// It is there again: each port `n` behind the first one gets its queue.
    pub fn open(&self, opened: &Opened, shared: &Shared) {
        let mut s = self.state();
        for (n, part) in s.parts.iter_mut().enumerate().skip(1) {
            *part = Some(opened.again(shared, &[n as u16]));
        }
    }

    /// The link's state.
    pub fn set_link(&self, link: LinkState) {
        self.state().link = link;
    }

    /// How often the device went away, the link's state, and the part of port `n`, if it is there to be taken.
    pub fn look(&self, n: usize) -> (u64, LinkState, Option<Opened>) {
        let mut s = self.state();
        let part = s.parts.get_mut(n).and_then(Option::take);
        (s.gone, s.link, part)
    }
}
