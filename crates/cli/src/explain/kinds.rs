//! What elements do to a packet, in the coarse kinds in which operations are counted.

use onefold_chain::Chain;
use std::collections::BTreeMap;

/// Kinds of operations, in the order in which they are listed.
pub const KINDS: [&str; 10] = [
    "strip", "classify", "look-up", "rewrite", "ttl", "annotate", "fragment", "encap", "count",
    "other",
];

/// Operations by kind.
pub type Ops = BTreeMap<&'static str, u32>;

/// What an element counts as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counted {
    /// Devices and links: not an operation.
    Io,
    /// Header checks and marks, told separately.
    Check,
    /// Nothing happens to the packet: wires, sinks that drop.
    Nothing,
    /// An operation of this kind.
    As(&'static str),
}

/// By class name. Classes that are not listed count as `other`.
pub fn of_class(class: &str) -> Counted {
    use Counted::{As, Check, Io, Nothing};
    match class {
        "NFLink" => Io,
        "Null" | "PushNull" | "PullNull" | "Discard" | "Idle" | "Queue" | "SimpleQueue"
        | "ThreadSafeQueue" | "Unqueue" | "Tee" | "Message" => Nothing,
        "Strip"
        | "Unstrip"
        | "StripToNetworkHeader"
        | "StripIPHeader"
        | "StripTCPHeader"
        | "StripUDPHeader"
        | "StripEtherVlanHeader"
        | "StripEtherVLANHeader"
        | "VLANDecap" => As("strip"),
        "CheckLength" | "CheckPaint" | "PaintSwitch" | "HostEtherFilter" | "EtherSwitch"
        | "IPFilter" | "IPClassifier" | "IP6Filter" | "IP6Classifier" | "Classifier"
        | "DropBroadcasts" | "Switch" | "StaticSwitch" | "HashSwitch" | "RoundRobinSwitch"
        | "PayloadMatcher" | "PayloadFilter" | "IPGWOptions" => As("classify"),
        "ARPQuerier" | "EtherEncap" | "EtherRewrite" | "EtherVlanEncap" | "EtherVLANEncap"
        | "EnsureEther" | "VLANEncap" | "IP6Encap" | "UDPIPEncap" | "IPEncap"
        | "IP6NDSolicitor" => As("encap"),
        "DecIPTTL" | "DecIP6HLIM" => As("ttl"),
        "GetIPAddress" | "GetIP6Address" | "SetIPAddress" | "SetIP6Address" | "StoreIPAddress"
        | "Paint" | "PaintTee" | "SetTimestamp" | "SetAnnoByte" | "SetVlanAnno" | "SetVLANAnno"
        | "SetPacketType" => As("annotate"),
        "LoopGuard" => Check,
        "IPFragmenter" | "IP6Fragmenter" => As("fragment"),
        c if c.starts_with("Check") || c.starts_with("Mark") => Check,
        c if c.contains("Lookup") || c.contains("Route") || c.contains("IPTable") => As("look-up"),
        c if c.contains("Rewriter") || c.contains("Mapper") => As("rewrite"),
        c if c.starts_with("Set") || c.starts_with("Store") || c.starts_with("Fix") => {
            As("rewrite")
        }
        c if c.contains("Counter") || c == "FlowMonitor" => As("count"),
        "ConnTrack" => As("classify"),
        "ConnDstNat" | "ConnSrcNat" | "IP6PrefixTranslate" | "NAT64" => As("rewrite"),
        _ => As("other"),
    }
}

/// By element: its class's kind; the chain's devices are I/O whatever their class.
pub fn of_elements(chain: &Chain) -> Vec<Counted> {
    let mut v: Vec<Counted> = chain
        .graph
        .elements
        .iter()
        .map(|e| of_class(&e.class))
        .collect();
    for p in &chain.ports {
        for i in p.source.iter().chain(&p.sinks) {
            if let Some(c) = v.get_mut(*i) {
                *c = Counted::Io;
            }
        }
    }
    // devices that are no port of the chain: sources have no input, sinks no output
    for (i, e) in chain.graph.elements.iter().enumerate() {
        if e.class.starts_with("FromD")
            || e.class.starts_with("ToD")
            || e.class.starts_with("Kernel")
        {
            v[i] = Counted::Io;
        }
    }
    v
}

/// All of them.
pub fn total(ops: &Ops) -> u32 {
    ops.values().sum()
}

/// `strip 3, classify 2`
pub fn words(ops: &Ops) -> String {
    let parts: Vec<String> = KINDS
        .iter()
        .filter_map(|k| ops.get(k).map(|n| format!("{k} {n}")))
        .collect();
    match parts.is_empty() {
        true => "none".into(),
        false => parts.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_of_classes() {
        for (class, kind) in [
            ("Strip", "strip"),
            ("IPClassifier", "classify"),
            ("RadixIPLookup", "look-up"),
            ("IPRewriter", "rewrite"),
            ("DecIPTTL", "ttl"),
            ("GetIPAddress", "annotate"),
            ("IPFragmenter", "fragment"),
            ("EtherEncap", "encap"),
        ] {
            assert_eq!(of_class(class), Counted::As(kind), "{class}");
            assert!(KINDS.contains(&kind));
        }
        assert_eq!(of_class("CheckIPHeader"), Counted::Check);
        assert_eq!(of_class("NFLink"), Counted::Io);
    }
}
