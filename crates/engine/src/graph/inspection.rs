//! Elements that look at packets without being given them.

use crate::graph::core::Core;
use onefold_element::{
    BatchNeeds, FlowLeases, InspectCx, Inspected, InspectedBatch, NO_FLOW_LEASE, StateStore,
};

impl Core {
    /// Does an element implement [`Element::inspect`]?
    pub fn inspects(&self, node: u32) -> bool {
        let elem = self.nodes.get(node as usize).and_then(|n| n.elem.as_ref());
        elem.is_some_and(|e| e.inspects())
    }

    /// [`Element::inspect`]; an element that is at work already lets nothing pass.
    #[inline(always)]
    pub fn inspect(&mut self, node: u32, p: &Inspected<'_>, cx: &mut InspectCx<'_>) -> bool {
        let elem = (self.nodes.get_mut(node as usize)).and_then(|n| n.elem.as_mut());
        elem.is_some_and(|e| e.inspect(p, cx))
    }

    /// [`Element::hints`].
    ///
    /// [`Element::hints`]: onefold_element::Element::hints
    pub fn hints(&self, node: u32) -> bool {
        let elem = self.nodes.get(node as usize).and_then(|n| n.elem.as_ref());
        elem.is_some_and(|e| e.hints())
    }

    /// [`Element::inspects_batches`].
    ///
    /// [`Element::inspects_batches`]: onefold_element::Element::inspects_batches
    pub fn inspects_batches(&self, node: u32, store: &StateStore) -> Option<BatchNeeds> {
        let elem = self.nodes.get(node as usize).and_then(|n| n.elem.as_ref());
        elem.and_then(|e| e.inspects_batches(store))
    }

    /// [`Element::inspect_batch`]; an element that is at work already lets nothing pass.
    ///
    /// [`Element::inspect_batch`]: onefold_element::Element::inspect_batch
    #[inline(always)]
    pub fn inspect_batch(
        &mut self,
        node: u32,
        b: &InspectedBatch<'_>,
        cx: &mut InspectCx<'_>,
    ) -> usize {
        let elem = (self.nodes.get_mut(node as usize)).and_then(|n| n.elem.as_mut());
        elem.map_or(0, |e| e.inspect_batch(b, cx).min(b.packets.len()))
    }

    /// [`Element::leases`].
    ///
    /// [`Element::leases`]: onefold_element::Element::leases
    #[inline(always)]
    pub fn leases<'a>(&self, node: u32, store: &'a mut StateStore) -> Option<FlowLeases<'a>> {
        let elem = self.nodes.get(node as usize).and_then(|n| n.elem.as_ref());
        elem.and_then(|e| e.leases(store))
    }

    /// [`Element::lease`].
    ///
    /// [`Element::lease`]: onefold_element::Element::lease
    pub fn lease(
        &mut self,
        node: u32,
        p: &Inspected<'_>,
        hint: u32,
        cx: &mut InspectCx<'_>,
    ) -> u32 {
        let elem = (self.nodes.get_mut(node as usize)).and_then(|n| n.elem.as_mut());
        elem.map_or(NO_FLOW_LEASE, |e| e.lease(p, hint, cx))
    }

    /// [`Element::prefetch_flows`].
    ///
    /// [`Element::prefetch_flows`]: onefold_element::Element::prefetch_flows
    #[inline(always)]
    pub fn prefetch_flows(&self, node: u32, hints: &[u32], store: &StateStore) {
        let elem = self.nodes.get(node as usize).and_then(|n| n.elem.as_ref());
        if let Some(e) = elem {
            e.prefetch_flows(hints, store);
        }
    }

    /// [`Element::prefetch_packet`].
    ///
    /// [`Element::prefetch_packet`]: onefold_element::Element::prefetch_packet
    #[inline(always)]
    pub fn prefetch_packet(&self, node: u32, net: &[u8], store: &StateStore) {
        let elem = self.nodes.get(node as usize).and_then(|n| n.elem.as_ref());
        if let Some(e) = elem {
            e.prefetch_packet(net, store);
        }
    }
}
