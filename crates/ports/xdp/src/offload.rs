//! A program that does more than hand frames to a socket, in the place of the one that does only that.

use onefold_bpf::{Code, Link, LoadError, Map, Program};
use std::io;
use std::os::fd::RawFd;
use std::sync::{Arc, Mutex, MutexGuard};

/// What is attached to a queue's interface.
#[derive(Debug)]
pub(crate) struct Attached {
    link: Link,
    plain: Program,
}

impl Attached {
    pub fn new(link: Link, plain: Program) -> Attached {
        Attached { link, plain }
    }
}

/// A program that the kernel has taken, with what it counts: map 0 of its code are counters, map 1 the sockets' places.
#[derive(Debug)]
pub struct Loaded {
    program: Program,
    counters: Map,
    /// Numbers of a counter.
    words: usize,
    sockets: Map,
}

impl Loaded {
    /// Loads a program with so many counters of so many 64-bit numbers and so many places for sockets. A long one
    /// takes the kernel's verifier a while.
    ///
    /// # Errors
    /// There is no right to, or the kernel's verifier refuses it.
    pub fn new(
        code: &Code,
        (counters, words): (u32, usize),
        places: u32,
    ) -> Result<Loaded, LoadError> {
        let counters = Map::counters(counters.max(1), words).map_err(refused)?;
        let sockets = Map::sockets(places.max(1)).map_err(refused)?;
        let program = Program::load(code, &[&counters, &sockets])?;
        Ok(Loaded {
            program,
            counters,
            words,
            sockets,
        })
    }
}

fn refused(error: io::Error) -> LoadError {
    LoadError {
        error,
        log: String::new(),
    }
}

/// Places and their sockets.
type Places = Vec<(u32, RawFd)>;

#[derive(Debug, Default)]
struct State {
    loaded: Option<Loaded>,
    /// It is in the plain program's place.
    active: bool,
    /// It does not come back to it.
    withdrawn: bool,
    /// Where it can be, with the places of sockets.
    attached: Option<(Arc<Attached>, Places)>,
}

/// A port's other program, to be installed and withdrawn while packets flow; copies are the same one.
///
/// Each frame is one program's or the other's. What the program has counted stays readable when it is withdrawn, and
/// when the interface goes away and comes back.
#[derive(Debug, Clone, Default)]
pub struct Offload(Arc<Mutex<State>>);

impl Offload {
    fn state(&self) -> MutexGuard<'_, State> {
        // whoever panicked has left a state that is whole: it is changed in single steps
        self.0.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// Puts a program in the plain program's place, as soon as the port has started. One that was there before is gone,
    /// and what it has counted.
    ///
    /// # Errors
    /// What the system says.
    pub fn install(&self, loaded: Loaded) -> io::Result<()> {
        let mut s = self.state();
        s.loaded = Some(loaded);
        (s.active, s.withdrawn) = (false, false);
        s.activate()
    }

    /// The program that was withdrawn is in the plain one's place again.
    ///
    /// # Errors
    /// What the system says.
    pub fn restore(&self) -> io::Result<()> {
        let mut s = self.state();
        s.withdrawn = false;
        match s.active {
            true => Ok(()),
            false => s.activate(),
        }
    }

    /// The plain program is back. What was counted stays readable.
    ///
    /// # Errors
    /// What the system says.
    pub fn withdraw(&self) -> io::Result<()> {
        let mut s = self.state();
        s.withdrawn = true;
        if let (true, Some((a, ..))) = (s.active, &s.attached) {
            a.link.replace(&a.plain)?;
        }
        s.active = false;
        Ok(())
    }

    /// Is it in the plain program's place?
    pub fn is_active(&self) -> bool {
        self.state().active
    }

    /// All numbers of all counters, one counter after the other; empty where nothing is installed.
    ///
    /// # Errors
    /// What the system says.
    pub fn counted(&self) -> io::Result<Vec<u64>> {
        match &self.state().loaded {
            Some(l) => l.counters.read_all(),
            None => Ok(Vec::new()),
        }
    }

    /// Packets that it has dropped: the first numbers of all counters, together.
    pub fn dropped(&self) -> u64 {
        let state = self.state();
        let Some(l) = &state.loaded else { return 0 };
        let all = l.counters.read_all().unwrap_or_default();
        all.iter().step_by(l.words.max(1)).sum()
    }

    /// The port has started: this socket takes the frames of `place`.
    pub(crate) fn attach(&self, a: &Arc<Attached>, place: u32, socket: RawFd) -> io::Result<()> {
        let mut s = self.state();
        match &mut s.attached {
            Some((b, sockets)) if Arc::ptr_eq(a, b) => {
                sockets.retain(|(p, _)| *p != place);
                sockets.push((place, socket));
            }
            other => *other = Some((Arc::clone(a), vec![(place, socket)])),
        }
        s.active = false;
        s.activate()
    }

    /// The interface is gone, or the port.
    pub(crate) fn detach(&self, a: &Arc<Attached>) {
        let mut s = self.state();
        if s.attached.as_ref().is_some_and(|(b, ..)| Arc::ptr_eq(a, b)) {
            s.attached = None;
            s.active = false;
        }
    }
}

impl State {
    fn activate(&mut self) -> io::Result<()> {
        if let (Some(l), Some((a, sockets)), false) = (&self.loaded, &self.attached, self.withdrawn)
        {
            for (place, socket) in sockets {
                l.sockets.set_socket(*place, *socket)?;
            }
            a.link.replace(&l.program)?;
            self.active = true;
        }
        Ok(())
    }
}
