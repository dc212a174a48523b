//! Printing packets: Print, IPPrint, IP6Print, ARPPrint.

mod arp_print;
mod ip6_print;
mod ip_line;
mod ip_print;
mod line;
mod packet_print;

use onefold_element::{Effect, Element, ElementClass};

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    arp_print::ARP_PRINT,
    ip6_print::IP6_PRINT,
    ip_print::IP_PRINT,
    packet_print::PRINT,
];

/// A printer's class. What it prints comes in the order of arrival.
const fn printer(
    name: &'static str,
    usage: &'static str,
    summary: &'static str,
    new: fn() -> Box<dyn Element>,
) -> ElementClass {
    ElementClass {
        name,
        ports: "1/1",
        processing: "a/a",
        flow: "x/x",
        effect: Effect::OrderSensitive,
        usage,
        summary,
        new,
    }
}
