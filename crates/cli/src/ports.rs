//! `--port PORT=KIND:NAME`: ports that are not captures bound by `--in` and `--out`.

use anyhow::{Result, bail};
use onefold_capture::CaptureReader;
use onefold_runtime::{CapturePort, MemoryPort, Port};

/// What is behind a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// Frames in memory: those of a capture, read before the clock starts, or none. What leaves is kept in memory while the chain runs.
    Memory(Option<String>),
    /// A capture whose frames arrive; what leaves is counted.
    Pcap(String),
}

/// A port and what is behind it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PortArg {
    /// The chain's port.
    pub port: String,
    /// What is behind it.
    pub kind: Kind,
}

/// Reads `PORT=KIND:NAME`.
///
/// # Errors
/// What is wrong, in words.
pub fn port_arg(s: &str) -> Result<PortArg, String> {
    let shape = || format!("expected PORT=KIND:NAME, for instance lan=memory:lan.pcap, not '{s}'");
    let (port, rest) = s.split_once('=').ok_or_else(shape)?;
    let (kind, name) = rest.split_once(':').ok_or_else(shape)?;
    let kind = match (kind, name) {
        ("memory", "") => Kind::Memory(None),
        ("memory", file) => Kind::Memory(Some(file.to_string())),
        ("pcap", "") => return Err("pcap: wants a file, pcap:FILE".to_string()),
        ("pcap", file) => Kind::Pcap(file.to_string()),
        (other, _) => {
            return Err(format!(
                "'{other}' is no kind of port; there are memory: and pcap:"
            ));
        }
    };
    Ok(PortArg {
        port: port.to_string(),
        kind,
    })
}

impl PortArg {
    /// The capture that packets come from, if they do.
    pub fn input(&self) -> Option<&str> {
        match &self.kind {
            Kind::Memory(file) => file.as_deref(),
            Kind::Pcap(file) => Some(file),
        }
    }

    /// Makes it ready.
    ///
    /// # Errors
    /// When the capture cannot be read.
    pub fn open(&self) -> Result<Box<dyn Port>> {
        Ok(match &self.kind {
            Kind::Pcap(file) => {
                Box::new(CapturePort::new(&self.port).reads(CaptureReader::open(file)?))
            }
            Kind::Memory(None) => Box::new(MemoryPort::new(true)),
            Kind::Memory(Some(file)) => {
                let p = CapturePort::new(&self.port).reads(CaptureReader::open(file)?);
                let (memory, warnings) = p.into_memory(true);
                if let Some(w) = warnings.first() {
                    bail!("{w}");
                }
                Box::new(memory)
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds() {
        let kind = |s| port_arg(s).map(|p| p.kind);
        assert_eq!(kind("lan=memory:"), Ok(Kind::Memory(None)));
        let file = Kind::Memory(Some("a:b.pcap".to_string()));
        assert_eq!(kind("lan=memory:a:b.pcap"), Ok(file));
        assert_eq!(kind("lan=pcap:x"), Ok(Kind::Pcap("x".to_string())));
        for wrong in ["lan", "lan=memory", "lan=pcap:", "lan=carrier-pigeon:7"] {
            assert!(port_arg(wrong).is_err(), "{wrong}");
        }
    }
}
