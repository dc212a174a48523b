//! What the tests of chains share: where the examples are, frames, and running them through a chain.
#![allow(dead_code)]

use onefold_chain::{Chain, ChainError, Options, Reader, load_text};
use onefold_element::ElemId;
use onefold_engine::{BuildOptions, Graph};
use onefold_packet::checksum;
use std::path::{Path, PathBuf};

/// The project's folder of examples.
pub fn chains() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../chains")
}

/// Loads an example by name.
pub fn example(name: &str) -> Chain {
    let options = Options {
        set: Vec::new(),
        examples: vec![chains()],
    };
    match onefold_chain::load(name, &options) {
        Ok(c) => c,
        Err(ChainError::Invalid(ds)) => panic!("{name}: {ds:?}"),
        Err(e) => panic!("{name}: {e}"),
    }
}

/// Loads a chain file's text; errors come back as texts. Files are relative to `dir`.
pub fn load_in(dir: &Path, text: &str) -> Result<Chain, Vec<String>> {
    let mut reader = Reader::new(dir);
    load_text(text, "t/chain.yaml", &[], &mut reader).map_err(|e| match e {
        ChainError::Invalid(ds) => ds.iter().map(|d| d.to_string()).collect(),
        other => vec![other.to_string()],
    })
}

/// All errors of a chain that must be refused, one a line.
pub fn errors(text: &str) -> String {
    load_in(Path::new("."), text)
        .expect_err("must be refused")
        .join("\n")
}

/// Builds the reference graph.
pub fn build(chain: &Chain) -> Graph {
    Graph::build(chain.graph.clone(), &BuildOptions::default())
        .unwrap_or_else(|e| panic!("{}: {:#?}", chain.name, e.0))
}

/// Sends frames into a port; gives back what leaves, with the port's name.
pub fn send(
    chain: &Chain,
    graph: &mut Graph,
    port: &str,
    frames: &[Vec<u8>],
) -> Vec<(String, Vec<u8>)> {
    let p = chain.ports.iter().find(|p| p.name == port).expect("port");
    let source = ElemId(p.source.expect("entry") as u32);
    let mut out = Vec::new();
    for f in frames {
        graph.inject(source, f, graph.now());
        graph.drain_transmitted(|e, p| {
            let at = chain
                .ports
                .iter()
                .find(|c| c.sinks.contains(&(e.0 as usize)));
            out.push((
                at.map_or(String::new(), |c| c.name.clone()),
                p.data().to_vec(),
            ));
        });
    }
    assert!(graph.totals().balanced(), "packets are conserved");
    out
}

/// A frame with an IPv4 or IPv6 packet, checksums right.
#[derive(Clone)]
pub struct Frame {
    /// Last three bytes of the destination MAC address 02:00:00:x:y:z.
    pub mac: [u8; 3],
    pub src: [u8; 4],
    pub dst: [u8; 4],
    pub proto: u8,
    pub sport: u16,
    pub dport: u16,
    pub flags: u8,
    pub payload: Vec<u8>,
    pub vlan: Option<u16>,
}

impl Frame {
    pub fn udp(src: [u8; 4], dst: [u8; 4], dport: u16) -> Frame {
        Frame {
            mac: [0, 0, 2],
            src,
            dst,
            proto: 17,
            sport: 5000,
            dport,
            flags: 0,
            payload: b"payload of a packet".to_vec(),
            vlan: None,
        }
    }

    pub fn tcp(src: [u8; 4], dst: [u8; 4], dport: u16, flags: u8) -> Frame {
        Frame {
            proto: 6,
            flags,
            ..Frame::udp(src, dst, dport)
        }
    }

    pub fn with(mut self, f: impl FnOnce(&mut Frame)) -> Frame {
        f(&mut self);
        self
    }

    pub fn bytes(&self) -> Vec<u8> {
        let mut t = Vec::new();
        t.extend(self.sport.to_be_bytes());
        t.extend(self.dport.to_be_bytes());
        let at = if self.proto == 6 {
            t.extend([
                0, 0, 0, 1, 0, 0, 0, 1, 0x50, self.flags, 0x20, 0, 0, 0, 0, 0,
            ]);
            16
        } else {
            t.extend(((8 + self.payload.len()) as u16).to_be_bytes());
            t.extend([0, 0]);
            6
        };
        t.extend(&self.payload);
        let pseudo: u32 = [&self.src[..], &self.dst[..]]
            .concat()
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
            .sum::<u32>()
            + u32::from(self.proto)
            + t.len() as u32;
        let c = !checksum::fold(checksum::sum(&t, pseudo.into()));
        t[at..at + 2].copy_from_slice(&c.to_be_bytes());
        let mut ip = vec![0x45, 0];
        ip.extend(((20 + t.len()) as u16).to_be_bytes());
        ip.extend([0, 1, 0, 0, 64, self.proto, 0, 0]);
        ip.extend(self.src);
        ip.extend(self.dst);
        let c = !checksum::fold(checksum::sum(&ip, 0));
        ip[10..12].copy_from_slice(&c.to_be_bytes());
        let mut f = vec![2, 0, 0];
        f.extend(self.mac);
        f.extend([2, 0, 0, 0, 0, 1]);
        if let Some(v) = self.vlan {
            f.extend([0x81, 0]);
            f.extend(v.to_be_bytes());
        }
        f.extend([8, 0]);
        f.extend(ip);
        f.extend(t);
        f
    }
}
