//! `memory:FILE,rate=PPS`: a capture's frames as a port at which they arrive in real time, again and again.

use super::{Device, Kind};
use anyhow::{Result, bail};
use onefold_capture::CaptureReader;
use onefold_packet::EtherAddr;
use onefold_port_interface::Interface;
use onefold_runtime::{CapturePort, HIGHEST_RATE, Keep, PacedPort};

/// What arrives, and how often.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Paced {
    pub file: String,
    /// Packets a second.
    pub rate: u64,
    /// The last eight bytes of each packet say when it came.
    pub stamp: bool,
}

/// Reads `memory:FILE,rate=PPS[,stamp]`.
pub(super) fn parse(port: &str, file: &str, rate: &str) -> Result<Kind, String> {
    let plain = rate.strip_suffix(",stamp");
    let (rate, stamp) = (plain.unwrap_or(rate), plain.is_some());
    let (number, unit) = match rate.strip_suffix(['k', 'K']) {
        Some(n) => (n, 1e3),
        None => match rate.strip_suffix('M') {
            Some(n) => (n, 1e6),
            None => (rate, 1.0),
        },
    };
    let pps = number.parse::<f64>().unwrap_or(f64::NAN) * unit;
    if file.is_empty() || !(1.0..=HIGHEST_RATE as f64).contains(&pps) {
        return Err(format!(
            "memory:FILE,rate=PPS: a capture and packets a second, for instance memory:lan.pcap,rate=500k, not \
             'memory:{file},rate={rate}'"
        ));
    }
    let device = Device {
        interface: format!("memory of {port}"),
        keeps_mac: true,
        keeps_neighbours: true,
        shared: true,
    };
    let paced = Paced {
        file: file.to_string(),
        rate: pps as u64,
        stamp,
    };
    Ok(Kind::Paced(device, paced))
}

/// The port, and what stands for an interface behind it.
///
/// # Errors
/// The capture cannot be read, or has no frame.
pub(super) fn open(port: &str, device: &Device, paced: &Paced) -> Result<(Interface, PacedPort)> {
    let reads = CapturePort::new(port).reads(CaptureReader::open(&paced.file)?);
    let (memory, warnings) = reads.into_memory(Keep::Nothing);
    if let Some(w) = warnings.first() {
        bail!("{w}");
    }
    if memory.is_empty() {
        bail!("port {port}: there is no frame in {}", paced.file);
    }
    let interface = Interface {
        name: device.interface.clone(),
        index: 0,
        mac: EtherAddr([2, 0, 0, 0, 0, 1]),
        mtu: 65_535,
        up: true,
        running: true,
        addresses: Vec::new(),
        forwards: [false; 2],
    };
    let port = PacedPort::new(memory, paced.rate).stamped(paced.stamp);
    Ok((interface, port))
}
