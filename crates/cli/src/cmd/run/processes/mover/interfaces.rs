//! What is behind the ports of a chain of processes: started, and looked after while it runs.

use super::Mover;
use anyhow::Result;
use onefold_nf::LONGEST_SLEEP;
use std::time::Duration;

impl Mover {
    /// From now on packets of network interfaces are taken; what came before is not for the chain. Nobody may be told
    /// that it runs before this.
    ///
    /// # Errors
    /// A device refuses.
    pub fn start(&mut self) -> Result<()> {
        for io in self.ios.iter_mut().filter(|_| self.live) {
            if let Some(p) = &mut io.port {
                p.start(io.entry.is_some())?;
            }
        }
        Ok(())
    }

    /// How long it may sleep at most: there are ports that do not tell of packets.
    pub(super) fn longest_sleep(&self) -> Duration {
        let ports = self
            .ios
            .iter()
            .filter_map(|io| io.port.as_ref()?.longest_sleep());
        ports.min().unwrap_or(LONGEST_SLEEP).min(LONGEST_SLEEP)
    }

    /// Looks after interfaces.
    pub(super) fn attend(&mut self) {
        for io in &mut self.ios {
            if let Some(remark) = io.port.as_mut().and_then(|p| p.attend()) {
                eprintln!("port {}: {remark}", io.name);
            }
        }
    }
}
