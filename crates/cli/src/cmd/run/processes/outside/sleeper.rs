//! A process that has devices besides its rings sleeps on descriptors; a thread waits for its bell meanwhile.

use anyhow::Result;
use onefold_engine::shadow::Shadow;
use onefold_nf::{LONGEST_SLEEP, Region, Watch};
use onefold_runtime::{Clock, Mailbox, Worker, mailbox};
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};

/// See the module's text.
pub struct Sleeper {
    watch: Watch,
    /// The thread is to wait.
    arm: SyncSender<()>,
    rung: Mailbox<()>,
}

impl Sleeper {
    /// Of process `me`; it ends the sleep of this worker.
    ///
    /// # Errors
    /// There is no descriptor or no thread to be had.
    pub fn new(region: Arc<Region>, me: u32, worker: &mut Worker<Shadow>) -> Result<Sleeper> {
        let watch = Watch::new(region, me);
        let (sender, rung) = mailbox::<()>()?;
        worker.wake_by(rung.wakes());
        let (arm, armed) = sync_channel::<()>(1);
        let other = watch.clone();
        std::thread::Builder::new()
            .name("bell".into())
            .spawn(move || {
                while armed.recv().is_ok() {
                    other.wait(LONGEST_SLEEP);
                    // one that is full wakes, too
                    let _ = sender.send(());
                }
            })?;
        Ok(Sleeper { watch, arm, rung })
    }

    /// Sleeps until a device or a ring has something, or `awake` says so, which is asked once others see the sleep.
    ///
    /// # Errors
    /// The system cannot wait for the devices.
    pub fn sleep(
        &mut self,
        (worker, clock): (&mut Worker<Shadow>, &Clock),
        awake: impl FnOnce() -> bool,
    ) -> Result<()> {
        self.watch.lie_down();
        if !awake() {
            // a thread that waits still, waits for this, too
            let _ = self.arm.try_send(());
            worker.wait(clock)?;
        }
        self.watch.get_up();
        while self.rung.take().is_some() {}
        Ok(())
    }
}
