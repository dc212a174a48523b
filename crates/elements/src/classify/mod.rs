//! Classification: Classifier, IPClassifier, IPFilter and the small filters.

pub mod filter;

mod classifier;
mod ether_switch;
mod ip_filter;
mod small;

use onefold_element::ElementClass;
use onefold_element::handler::HandlerInfo;
use std::sync::OnceLock;

/// Classes of this family.
pub const CLASSES: &[ElementClass] = &[
    small::CHECK_LENGTH,
    small::CHECK_PAINT,
    classifier::CLASSIFIER,
    ether_switch::ETHER_SWITCH,
    small::HOST_ETHER_FILTER,
    ip_filter::IP6_CLASSIFIER,
    ip_filter::IP_CLASSIFIER,
    ip_filter::IP_FILTER,
    small::PAINT_SWITCH,
];

/// Most `patternN` handlers that are listed.
const MAX_PATTERN_HANDLERS: usize = 1024;

/// `program` and `rule_counts`, then `pattern0` to `pattern<n-1>`, read and write. Names are made once for the whole
/// process.
pub(crate) fn pattern_handlers(n: usize) -> &'static [HandlerInfo] {
    static ALL: OnceLock<Vec<HandlerInfo>> = OnceLock::new();
    let all = ALL.get_or_init(|| {
        let mut v = vec![HandlerInfo::r("program"), HandlerInfo::r("rule_counts")];
        v.extend((0..MAX_PATTERN_HANDLERS).map(|i| {
            let name: &'static str = Box::leak(format!("pattern{i}").into_boxed_str());
            HandlerInfo::rw(name).sets(i as u16, "")
        }));
        v
    });
    &all[..2 + n.min(MAX_PATTERN_HANDLERS)]
}
