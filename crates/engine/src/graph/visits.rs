//! Which elements packets come to: what a comparison of batches with single packets must know where batches may be seen.

/// A packet at an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Visit {
    pub node: u32,
}

/// The visits that followed from one packet, in order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Visits(pub(crate) Vec<Visit>);

impl Visits {
    /// Was an element visited twice, by a packet that goes round or by several that were made of one?
    pub fn again(&self) -> bool {
        let mut nodes: Vec<u32> = self.0.iter().map(|v| v.node).collect();
        nodes.sort_unstable();
        nodes.windows(2).any(|w| w[0] == w[1])
    }
}
