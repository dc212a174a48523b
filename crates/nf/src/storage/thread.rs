//! A thread that carries buffers out, where the kernel's rings are not permitted.

use super::request::{Data, Request};
use crate::native::OwnBell;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::Duration;

/// See the module's text.
pub struct Worker<R> {
    to: Option<SyncSender<Vec<Request<R>>>>,
    done: Receiver<Vec<Request<R>>>,
    /// Buffers that it has done.
    ready: Arc<AtomicUsize>,
    /// It has one.
    busy: bool,
    thread: Option<JoinHandle<()>>,
}

impl<R: Data> Worker<R> {
    pub fn new(bell: Option<OwnBell>) -> Worker<R> {
        let (to, requests) = sync_channel::<Vec<Request<R>>>(1);
        let (tell, done) = sync_channel(1);
        let ready = Arc::new(AtomicUsize::new(0));
        let counted = ready.clone();
        let thread = std::thread::spawn(move || {
            for mut all in requests {
                all.iter_mut().for_each(Request::perform);
                // before it can be taken, so that the count is never less than nothing
                counted.fetch_add(1, Ordering::Release);
                if tell.send(all).is_err() {
                    break;
                }
                if let Some(bell) = &bell {
                    bell.ring();
                }
            }
        });
        Worker {
            to: Some(to),
            done,
            ready,
            busy: false,
            thread: Some(thread),
        }
    }

    /// Is a buffer done?
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire) > 0
    }

    pub fn begin(&mut self, all: Vec<Request<R>>) {
        if let Some(to) = &self.to {
            // there is room for one, and it has none
            self.busy = to.send(all).is_ok();
        }
    }

    pub fn poll(&mut self) -> Option<Vec<Request<R>>> {
        let all = self.done.try_recv().ok()?;
        Some(self.took(all))
    }

    pub fn wait(&mut self, most: Duration) -> Option<Vec<Request<R>>> {
        let all = self.done.recv_timeout(most).ok()?;
        Some(self.took(all))
    }

    fn took(&mut self, all: Vec<Request<R>>) -> Vec<Request<R>> {
        self.ready.fetch_sub(1, Ordering::AcqRel);
        self.busy = false;
        all
    }
}

impl<R> Drop for Worker<R> {
    fn drop(&mut self) {
        self.to = None;
        // one that still has a buffer has been waited for long enough: the buffer is its own
        if let Some(thread) = self.thread.take().filter(|_| !self.busy) {
            let _ = thread.join();
        }
    }
}
