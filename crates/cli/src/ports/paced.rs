//! `memory:FILE,rate=PPS`: a capture's frames as a port at which they arrive in real time, again and again.

use super::{Device, Kind};
use anyhow::{Result, bail};
use onefold_capture::CaptureReader;
use onefold_packet::EtherAddr;
use onefold_port_interface::Interface;
use onefold_runtime::{CapturePort, HIGHEST_RATE, Keep, PacedPort};

/// Reads `memory:FILE,rate=PPS`.
pub(super) fn parse(port: &str, file: &str, rate: &str) -> Result<Kind, String> {
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
    Ok(Kind::Paced(device, file.to_string(), pps as u64))
}

/// The port, and what stands for an interface behind it.
///
/// # Errors
/// The capture cannot be read, or has no frame.
pub(super) fn open(
    port: &str,
    device: &Device,
    file: &str,
    rate: u64,
) -> Result<(Interface, PacedPort)> {
    let reads = CapturePort::new(port).reads(CaptureReader::open(file)?);
    let (memory, warnings) = reads.into_memory(Keep::Nothing);
    if let Some(w) = warnings.first() {
        bail!("{w}");
    }
    if memory.is_empty() {
        bail!("port {port}: there is no frame in {file}");
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
    Ok((interface, PacedPort::new(memory, rate)))
}
