//! Elements of Click configurations that several workers cannot have, or have each for itself.

use crate::error::Reader;
use crate::stitch::Chain;
use onefold_click::diag::Diagnostic;
use onefold_click::source::Location;
use onefold_element::{Effect, ElementSpec};

/// Their bindings are not divided: only those of the kinds `nat` and `load-balancer` are.
const REWRITERS: &[&str] = &[
    "IPRewriter",
    "TCPRewriter",
    "UDPRewriter",
    "IPAddrRewriter",
    "IPAddrPairRewriter",
    "ICMPPingRewriter",
];
/// They make packets, or write a file: every worker would.
const ALONE: &[&str] = &[
    "InfiniteSource",
    "RandomSource",
    "RatedSource",
    "TimedSource",
    "FastUDPSource",
    "FastUDPFlows",
    "FastTCPFlows",
    "ICMPPingSource",
    "ICMP6PingSource",
    "FromDump",
    "FromIPSummaryDump",
    "ToDump",
    "ToIPSummaryDump",
    "KernelTun",
    "KernelTap",
    "ControlSocket",
    "ChatterSocket",
];

/// Records as errors what several workers cannot have; gives back warnings about what each has for itself.
pub(super) fn look(chain: &Chain, reader: &mut Reader) -> Vec<Diagnostic> {
    let mut own: Vec<&ElementSpec> = Vec::new();
    for (i, e) in chain.graph.elements.iter().enumerate() {
        let function = e.name.split('/').next().unwrap_or_default();
        let written = |f: &&crate::stitch::FunctionInfo| f.name == function && f.kind == "click";
        let port = (chain.ports.iter()).any(|p| p.source == Some(i) || p.sinks.contains(&i));
        if port || !chain.functions.iter().any(|f| written(&f)) {
            continue;
        }
        let class = e.class.as_str();
        if REWRITERS.contains(&class) {
            let hint = "use the function kinds nat and load-balancer, whose flows workers divide, or one worker";
            let what = "a rewriter of a Click configuration cannot be divided among workers";
            reader.diagnostics.push(told(e, what).hint(hint));
        } else if ALONE.contains(&class) {
            let what = "every worker would do the same again";
            reader
                .diagnostics
                .push(told(e, what).hint("use one worker"));
        } else if onefold_elements::lookup(class).is_some_and(|c| own_state(c.effect, class)) {
            own.push(e);
        }
    }
    let Some(first) = own.first() else {
        return Vec::new();
    };
    const SHOWN: usize = 8;
    let mut names: Vec<String> = (own.iter().take(SHOWN))
        .map(|e| format!("{} ({})", e.name, e.class))
        .collect();
    if own.len() > SHOWN {
        names.push(format!("and {} more", own.len() - SHOWN));
    }
    let message = format!(
        "each worker has its own of these, with rates, capacities and orders of its own: {}",
        names.join(", ")
    );
    let warning = Diagnostic::warning(message);
    vec![match location(first) {
        Some(l) => warning.at_location(l),
        None => warning,
    }]
}

/// Does what an element of this class does depend on packets of other flows? Tables of neighbours are each worker's own
/// without anybody seeing it.
fn own_state(effect: Effect, class: &str) -> bool {
    let kinds = [
        Effect::OrderSensitive,
        Effect::Timed,
        Effect::Random,
        Effect::Holding,
    ];
    kinds.contains(&effect) && !matches!(class, "ARPQuerier" | "ARPTable" | "IP6NDSolicitor")
}

fn told(e: &ElementSpec, what: &str) -> Diagnostic {
    let d = Diagnostic::error(format!("{} :: {}: {what}", e.name, e.class));
    match location(e) {
        Some(l) => d.at_location(l),
        None => d,
    }
}

fn location(e: &ElementSpec) -> Option<Location> {
    (e.decl.line > 0).then(|| Location {
        file: e.decl.file.to_string(),
        line: e.decl.line,
        column: e.decl.column.max(1),
        length: 1,
    })
}
