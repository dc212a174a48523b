//! Sends UDP packets of 64 bytes out of an interface as fast as it takes them: what a chain at the other end is
//! measured with.
//!
//!     flood IF DESTINATION-MAC FROM-IP TO-IP FLOWS SECONDS

use etherparse::PacketBuilder;
use onefold_packet::{EtherAddr, Packet, Pkt, Timestamp};
use onefold_port_interface::Interface;
use onefold_port_packet::{Mode, PacketPort};
use onefold_runtime::Port;
use std::error::Error;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

/// Packets with one system call.
const BATCH: usize = 64;

fn main() -> Result<(), Box<dyn Error>> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let [interface, to, src, dst, flows, seconds] = &args[..] else {
        return Err("flood IF DESTINATION-MAC FROM-IP TO-IP FLOWS SECONDS".into());
    };
    let interface = Interface::find(interface)?;
    let to: EtherAddr = to.parse().map_err(|_| "expected a MAC address")?;
    let (src, dst): (Ipv4Addr, Ipv4Addr) = (src.parse()?, dst.parse()?);
    let (flows, seconds): (u16, f64) = (flows.parse()?, seconds.parse()?);
    let mut batches: Vec<Vec<Pkt>> = Vec::new();
    for i in 0..flows.max(1) {
        let b = PacketBuilder::ethernet2(interface.mac.0, to.0)
            .ipv4(src.octets(), dst.octets(), 64)
            .udp(1024 + i, 9);
        let mut frame = Vec::new();
        b.write(&mut frame, &[0; 18])?;
        if usize::from(i).is_multiple_of(BATCH) {
            batches.push(Vec::with_capacity(BATCH));
        }
        if let Some(batch) = batches.last_mut() {
            batch.push(Box::new(Packet::from_slice(&frame)));
        }
    }
    let mut port = PacketPort::open("flood", interface, Mode::Vectors(BATCH))?;
    port.start(false)?;
    let (begun, time) = (Instant::now(), Duration::from_secs_f64(seconds));
    let mut sent = 0u64;
    while begun.elapsed() < time {
        for batch in &mut batches {
            port.transmit(batch, Timestamp::ZERO)?;
            sent += batch.len() as u64;
        }
        while port.backlog() > 0 {
            port.flush()?;
        }
    }
    let seconds = begun.elapsed().as_secs_f64();
    let lost: u64 = port.losses().iter().map(|l| l.packets).sum();
    let rate = (sent - lost) as f64 / seconds / 1e6;
    println!("{} packets in {seconds:.2} s, {rate:.3} Mpps", sent - lost);
    Ok(())
}
