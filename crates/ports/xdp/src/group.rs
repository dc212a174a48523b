//! Sockets of one interface that are several workers': all of them have one program.

use crate::device::SharedFrames;
use crate::offload::Offload;
use crate::program::{Program, ProgramError};
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// See the module's text. A clone is the same group.
#[derive(Debug, Clone)]
pub(crate) struct Group {
    /// Sockets that there is room for.
    places: u32,
    /// All of them are one queue's.
    shared: Option<Arc<SharedFrames>>,
    /// The interface's number, and its program, as long as a queue has it.
    attached: Arc<Mutex<(u32, Weak<Program>)>>,
    /// What may be in the program's place.
    offload: Offload,
}

impl Group {
    /// Of the first `queues` queues, a socket each.
    pub fn new(queues: u32) -> Group {
        Group {
            places: queues,
            shared: None,
            attached: Arc::new(Mutex::new((0, Weak::new()))),
            offload: Offload::default(),
        }
    }

    /// Of so many sockets of one queue.
    pub fn of_queue(sockets: u32) -> Group {
        Group {
            shared: Some(Arc::default()),
            ..Group::new(sockets)
        }
    }

    /// What they have in common, if they are of one queue.
    pub fn frames(&self) -> Option<&SharedFrames> {
        self.shared.as_deref()
    }

    /// What may be in the program's place.
    pub fn offload(&self) -> &Offload {
        &self.offload
    }

    /// The program of the interface with this number: attached now, if none of the group's queues has it yet.
    ///
    /// # Errors
    /// See [`ProgramError`].
    pub fn program(&self, index: u32) -> Result<Arc<Program>, ProgramError> {
        let mut attached = self.attached.lock().unwrap_or_else(PoisonError::into_inner);
        if let (i, Some(program)) = (attached.0, attached.1.upgrade())
            && i == index
        {
            return Ok(program);
        }
        let program = Arc::new(Program::attach(index, self.places, &self.offload)?);
        *attached = (index, Arc::downgrade(&program));
        Ok(program)
    }
}
