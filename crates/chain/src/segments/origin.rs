//! Which port of the chain packets come from that arrive somewhere within it.

use crate::stitch::Chain;

/// Classes of elements without inputs that never let a packet go.
const SILENT: &[&str] = &["Idle", "AddressInfo"];

/// Who is in front of each element.
pub(super) struct Origins<'a> {
    chain: &'a Chain,
    before: Vec<Vec<usize>>,
}

impl<'a> Origins<'a> {
    pub fn new(chain: &'a Chain) -> Origins<'a> {
        let mut before = vec![Vec::new(); chain.graph.elements.len()];
        for c in &chain.graph.connections {
            if let Some(b) = before.get_mut(c.to.0) {
                b.push(c.from.0);
            }
        }
        Origins { chain, before }
    }

    /// The port that all packets at this element have come in at; `None`: there are several, or elements that make
    /// packets by themselves.
    pub fn of(&self, element: usize) -> Option<&'a str> {
        let mut seen = vec![false; self.before.len()];
        let mut ahead = vec![element];
        let mut port: Option<&str> = None;
        while let Some(e) = ahead.pop() {
            if std::mem::replace(seen.get_mut(e)?, true) {
                continue;
            }
            let before = self.before.get(e)?;
            if !before.is_empty() {
                ahead.extend(before);
                continue;
            }
            let class = self.chain.graph.elements.get(e)?.class.as_str();
            if SILENT.contains(&class) {
                continue;
            }
            let found = self.chain.ports.iter().find(|p| p.source == Some(e))?;
            if port.is_some_and(|p| p != found.name) {
                return None;
            }
            port = Some(&found.name);
        }
        port
    }
}
