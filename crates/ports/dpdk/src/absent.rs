//! Without DPDK: the same names, and the one error that there is.

use crate::error::DpdkError;
use crate::spec::Spec;
use onefold_packet::{Pkt, Timestamp};
use onefold_port_interface::Interface;
use onefold_runtime::{Port, PortError};
use std::convert::Infallible;

/// DPDK, which this binary was built without.
#[derive(Debug)]
pub struct Dpdk(Infallible);

/// A port of a device, of which there is none.
#[derive(Debug)]
pub struct DpdkPort(Infallible);

impl Dpdk {
    /// Fails.
    ///
    /// # Errors
    /// Always: [`DpdkError::NotBuilt`].
    pub fn start(specs: &[Spec], _extra: &[String], _interrupts: bool) -> Result<Dpdk, DpdkError> {
        let first = specs.first().map(|s| s.name.clone());
        Err(DpdkError::NotBuilt {
            port: first.unwrap_or_default(),
        })
    }

    /// There is no such value.
    pub fn remarks(&self) -> &[String] {
        match self.0 {}
    }

    /// There is no such value.
    ///
    /// # Errors
    /// Never.
    pub fn open(&mut self, _spec: &Spec) -> Result<DpdkPort, DpdkError> {
        match self.0 {}
    }

    /// There is no such value.
    ///
    /// # Errors
    /// Never.
    pub fn open_for(&mut self, _spec: &Spec) -> Result<Vec<DpdkPort>, DpdkError> {
        match self.0 {}
    }
}

impl DpdkPort {
    /// There is no such value.
    pub fn interface(&self) -> Interface {
        match self.0 {}
    }

    /// There is no such value.
    pub fn shown(&self) -> &str {
        match self.0 {}
    }

    /// There is no such port.
    ///
    /// # Errors
    /// Never.
    pub fn check(_spec: &Spec, _has: u32, _needed: u32) -> Result<(), DpdkError> {
        Ok(())
    }
}

impl Port for DpdkPort {
    fn next_at(&mut self) -> Option<Timestamp> {
        match self.0 {}
    }
    fn receive(&mut self, _: &mut Vec<Pkt>, _: &mut Vec<Pkt>, _: Timestamp, _: usize) {
        match self.0 {}
    }
    fn transmit(&mut self, _: &mut Vec<Pkt>, _: Timestamp) -> Result<(), PortError> {
        match self.0 {}
    }
    fn finish(&mut self) -> Result<(), PortError> {
        match self.0 {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_to_type_is_said() {
        let s = Spec::parse("net_null0").unwrap();
        let e = Dpdk::start(&[s], &[], false).unwrap_err().to_string();
        assert!(
            e.contains("net_null0") && e.contains("--features dpdk"),
            "{e}"
        );
        assert!(e.contains("apt-get install libdpdk-dev"), "{e}");
    }
}
