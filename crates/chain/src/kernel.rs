//! A chain as a Linux kernel can have it: for each function the rules and routes that `iptables-restore`, `nft` and
//! `ip route` take, as the operator wrote them, and which interface is connected to which.
//!
//! This is what `onefold compare kernel` loads into network namespaces. The texts are those of the operator's files,
//! not what the importers made of them: the kernel judges the importers, too. What has no equivalent in the kernel is
//! an error with its place and a hint.
//!
//! A chain that is loaded for this differs from the one that runs in what the kernel cannot be made to share: ICMP
//! errors are not limited in rate (the kernel's clock is not the chain's), no redirects are sent (the kernel limits
//! theirs by a clock of its own), connections stay for days (the kernel's clock again), and the routers' ports at the
//! chain's edge have a fixed neighbour, so that nobody has to answer ARP.

mod says;

use crate::error::ChainError;
use crate::file::{Function, Loc};
use crate::import::{Family, Route, RouteKind, RuleFormat, format_of, select};
use crate::kinds::KindCx;
use crate::kinds::firewall::{Back, Firewall};
use crate::kinds::router::Router;
use crate::links::PortRef;
use crate::live::Live;
use crate::load::{Options, load_as};
use crate::stitch::{Chain, Wiring};
use crate::workers::Share;
use says::{
    asks_about_connections, asks_for_destinations, asks_for_ways_back, draws, goes_by_mtu,
    takes_turns, translates,
};
use std::collections::HashSet;
use std::net::IpAddr;

/// The neighbour of a router's port that has none in the chain file.
pub const NEIGHBOR: &str = "02:0f:00:00:00:fe";
/// Limits of ICMP errors: as wide as they can be said.
const ICMP_RATE: u32 = 1_000_000;
const ICMP_BURST: u32 = 10_000;

/// How long connections stay on both sides, in seconds: the chain's clock goes by what the generator says, the
/// kernel's by the wall.
pub const KERNEL_SECONDS: u32 = 1_000_000;

/// A chain's functions, and how they are connected.
#[derive(Debug, Clone, Default)]
pub struct KernelPlan {
    /// The functions, in the order of the chain.
    pub functions: Vec<KernelFunction>,
    /// Links, each way apart.
    pub links: Vec<(KernelPort, KernelPort)>,
    /// The chain's ports: name, where packets enter, where they leave.
    pub ports: Vec<(String, Option<KernelPort>, Option<KernelPort>)>,
    /// Ports of routers whose neighbour is given by [`NEIGHBOR`] if the chain file names none.
    edges: HashSet<(String, usize)>,
}

/// A function's port.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct KernelPort {
    /// The function's name.
    pub function: String,
    /// Its port, from 0.
    pub port: usize,
}

/// A function.
#[derive(Debug, Clone)]
pub struct KernelFunction {
    /// Its name.
    pub name: String,
    /// What it is.
    pub form: KernelForm,
}

/// What a function is in the kernel.
#[derive(Debug, Clone)]
pub enum KernelForm {
    /// Rules at the hook that forwarded packets pass.
    Firewall(KernelFirewall),
    /// Addresses and routes.
    Router(KernelRouter),
}

/// A firewall.
#[derive(Debug, Clone, Default)]
pub struct KernelFirewall {
    /// Names of the interfaces at port 0 and port 1, where the chain file says them.
    pub interfaces: [Option<String>; 2],
    /// The groups of these interfaces.
    pub groups: [u32; 2],
    /// What `ipset restore` is given before the rules.
    pub sets: Option<String>,
    /// The rulesets, at most one for each family; one of nftables may be for both.
    pub rules: Vec<KernelRules>,
    /// Which families it has rules for: IPv4, IPv6.
    pub families: [bool; 2],
    /// Rules ask about connections.
    pub tracks: bool,
    /// Rules ask whether connections are assured.
    pub asks_assured: bool,
    /// Rules count packets: each of them has to come to both sides, or to neither.
    pub counts: bool,
    /// A file whose rules draw packets at random: the kernel draws others.
    pub chance: Option<String>,
    /// What is to be known where rules translate addresses.
    pub translates: Option<KernelNat>,
    /// The MTU of both ports, where rules go by it.
    pub mtu: Option<u16>,
}

/// A firewall that translates addresses.
#[derive(Debug, Clone, Default)]
pub struct KernelNat {
    /// The router's own addresses at port 0 and port 1, each with the length of its network's prefix.
    pub addresses: [Vec<(IpAddr, u8)>; 2],
    /// Rules draw ports whatever a packet has: at random, or from a range.
    pub draws: bool,
}

/// A ruleset, as it stands in its file.
#[derive(Debug, Clone)]
pub struct KernelRules {
    /// [`RuleFormat::Iptables`] or [`RuleFormat::Nftables`].
    pub format: RuleFormat,
    /// The family that it was read for.
    pub family: Family,
    /// The file's name, for messages.
    pub file: String,
    /// The file's text.
    pub text: String,
}

/// A router.
#[derive(Debug, Clone, Default)]
pub struct KernelRouter {
    /// Its interfaces, by port.
    pub interfaces: Vec<KernelInterface>,
    /// Its routes, in order.
    pub routes: Vec<KernelRoute>,
}

/// An interface of a router.
#[derive(Debug, Clone, Default)]
pub struct KernelInterface {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// IPv4 address with the length of its network's prefix.
    pub address: Option<String>,
    /// IPv6 address with the length of its network's prefix.
    pub address6: Option<String>,
    /// Its MAC address.
    pub mac: String,
    /// Most bytes of an IP packet.
    pub mtu: u16,
}

/// A route: as it was understood, and where it is written.
#[derive(Debug, Clone)]
pub struct KernelRoute {
    /// As it was understood.
    pub route: Route,
    /// Where.
    pub file: String,
    /// Its line there.
    pub line: u32,
}

impl From<&PortRef> for KernelPort {
    fn from(p: &PortRef) -> KernelPort {
        KernelPort {
            function: p.function.clone(),
            port: p.port,
        }
    }
}

/// Loads a chain for a comparison with the kernel, see the module's text.
///
/// # Errors
/// Those of [`crate::load`], and each function that has no equivalent in the kernel, with a hint.
pub fn load_for_kernel(name: &str, options: &Options) -> Result<(Chain, KernelPlan), ChainError> {
    let how = (Live::default(), Share::default(), &[][..]);
    let (chain, mut reader) = load_as(name, options, how, Some(KernelPlan::default()), false)?;
    Ok((chain, reader.kernel.take().unwrap_or_default()))
}

impl KernelPlan {
    /// Notes the ports at the chain's edge, before functions are built.
    pub(crate) fn find_edges(&mut self, edges: impl IntoIterator<Item = PortRef>) {
        let both = |p: PortRef| (p.function, p.port);
        self.edges.extend(edges.into_iter().map(both));
    }

    /// Notes how functions are connected.
    pub(crate) fn wire(&mut self, wiring: &Wiring) {
        for (l, _) in &wiring.links {
            let ends: [KernelPort; 2] = [(&l.from).into(), (&l.to).into()];
            let [from, to] = ends;
            if l.both {
                self.links.push((to.clone(), from.clone()));
            }
            self.links.push((from, to));
        }
        let ports = wiring.ports.iter().map(|(name, entry, exit, _)| {
            let at = |p: &Option<PortRef>| p.as_ref().map(KernelPort::from);
            (name.clone(), at(entry), at(exit))
        });
        self.ports = ports.collect();
    }

    /// The function as it is loaded for the comparison.
    pub(crate) fn prepared(&self, name: &str, f: &Function) -> Function {
        let mut f = f.clone();
        if let Some(w) = &mut f.firewall {
            w.connections.stay(KERNEL_SECONDS);
        }
        if let Some(r) = &mut f.router {
            r.redirects = Some(false);
            let number = |value| Loc {
                value,
                start: 0,
                len: 0,
            };
            r.icmp_rate = Some(number(ICMP_RATE));
            r.icmp_burst = Some(number(ICMP_BURST));
            for (n, i) in r.interfaces.iter_mut().enumerate() {
                if i.gateway_mac.is_none() && self.edges.contains(&(name.to_string(), n)) {
                    i.gateway_mac = Some(Loc {
                        value: NEIGHBOR.to_string(),
                        start: i.mac.start,
                        len: i.mac.len,
                    });
                }
            }
        }
        f
    }
}

/// What a function is in the kernel; what it is not is told, and `None` comes back.
pub(crate) fn form(f: &Function, cx: &mut KindCx<'_>) -> Option<KernelForm> {
    if let Some(k) = &f.firewall {
        return firewall(k, cx).map(KernelForm::Firewall);
    }
    if let Some(k) = &f.router {
        return router(k, cx).map(KernelForm::Router);
    }
    let nat64 = f.nat.as_ref().is_some_and(|n| n.nat64.is_some());
    let kind = [
        ("NAT64, which Linux has not of its own,", nat64),
        ("a nat function", f.nat.is_some()),
        ("a load balancer", f.load_balancer.is_some()),
        ("a dpi function", f.dpi.is_some()),
        ("a monitor", f.monitor.is_some()),
        ("a vlan function", f.vlan.is_some()),
        ("a Click configuration", f.click.is_some()),
        ("a program of its own", f.native.is_some()),
        ("a black box", f.external.is_some()),
    ];
    if let Some((what, _)) = kind.iter().find(|k| k.1) {
        refuse(
            cx,
            &format!("{what} has no equivalent in the kernel that this comparison can load"),
            "it compares firewall functions with rules-file in the format iptables or nftables, and router functions",
        );
    }
    None
}

fn refuse(cx: &mut KindCx<'_>, why: &str, hint: &str) {
    let text = format!("{}: {why}", cx.name);
    let span = cx.span;
    cx.reader.error_hint(span, text, hint);
}

fn firewall(k: &Firewall, cx: &mut KindCx<'_>) -> Option<KernelFirewall> {
    let whole = "the kernel is given the ruleset whole, and decides by it alone: leave '";
    for (given, what) in [
        (k.chain.is_some(), "chain"),
        (k.default.is_some(), "default"),
        (k.back != Back::Same, "back"),
    ] {
        if given {
            refuse(
                cx,
                &format!("'{what}' has no equivalent in the kernel"),
                &format!("{whole}{what}' out of the chain file for this comparison"),
            );
            return None;
        }
    }
    if cx.wired(2) {
        let hint = "its answers are programs' of the kernel's own host: connect nothing to port 2 for this comparison";
        refuse(
            cx,
            "the host at port 2 has no equivalent in the kernel",
            hint,
        );
        return None;
    }
    let mut out = KernelFirewall {
        interfaces: [k.interfaces.inside.clone(), k.interfaces.outside.clone()],
        groups: [k.interfaces.inside_group, k.interfaces.outside_group].map(|g| g.unwrap_or(0)),
        sets: k.sets_text(cx),
        ..KernelFirewall::default()
    };
    let mut nat = KernelNat {
        addresses: k.own(cx).by_port(),
        draws: false,
    };
    let (mut ok, mut translated) = (true, false);
    for (family, rules, file) in [
        (Family::V4, &k.rules, &k.rules_file),
        (Family::V6, &k.rules6, &k.rules6_file),
    ] {
        if rules.as_ref().is_some_and(|r| !r.is_empty()) {
            refuse(
                cx,
                "rules in IPFilter's language have no equivalent in the kernel",
                "give 'rules-file' what iptables-save or 'nft -j list ruleset' prints",
            );
            ok = false;
        }
        let Some(f) = file else { continue };
        out.families[usize::from(family == Family::V6)] = true;
        let to = (&mut out.rules, &mut out.tracks, &mut out.asks_assured);
        ok &= ruleset(k, cx, family, f, to);
    }
    for r in &out.rules {
        translated |= translates(&r.text, r.format);
        nat.draws |= draws(&r.text, r.format);
        out.counts |= takes_turns(r, "nth", "inc");
        if takes_turns(r, "random", "random") {
            out.chance = Some(r.file.clone());
        }
    }
    if let Some(r) = out.rules.iter().find(|r| asks_for_ways_back(r)) {
        let why = format!(
            "'{}' asks for ways back to addresses (rpfilter, fib)",
            r.file
        );
        let hint = "the kernel's firewall passes packets from port to port, whatever its routes say: leave these rules \
                    out for this comparison";
        refuse(cx, &why, hint);
        ok = false;
    }
    if let Some(r) = out.rules.iter().find(|r| asks_for_destinations(r)) {
        let why = format!(
            "'{}' asks whom frames are addressed to (pkttype, ether daddr)",
            r.file
        );
        let hint = "what reaches the kernel's firewall is addressed to it, as it is there as a router: leave these rules \
                    out for this comparison";
        refuse(cx, &why, hint);
        ok = false;
    }
    if out.rules.iter().any(|r| goes_by_mtu(&r.text)) {
        out.mtu = Some(k.mtu.as_ref().map_or(1500, |m| m.value));
    }
    if translated {
        out.tracks = true;
        out.translates = Some(nat);
    }
    if ok && out.rules.is_empty() {
        refuse(cx, "there is no ruleset to compare", "give 'rules-file'");
        ok = false;
    }
    ok.then_some(out)
}

/// Adds a file's ruleset, unless the same one is there.
fn ruleset(
    k: &Firewall,
    cx: &mut KindCx<'_>,
    family: Family,
    f: &Loc<String>,
    (to, tracks, assured): (&mut Vec<KernelRules>, &mut bool, &mut bool),
) -> bool {
    let span = cx.at(f);
    let Some((id, text)) = cx.reader.read(&f.value, span) else {
        return false;
    };
    let file = cx.reader.sources.name(id).to_string();
    let format = format_of(&text, k.format);
    if !matches!(format, RuleFormat::Iptables | RuleFormat::Nftables) {
        let text = format!(
            "{}: '{file}' is in no format that the kernel's tools read",
            cx.name
        );
        let hint = "compared are the formats iptables and nftables";
        cx.reader.error_hint(span, text, hint);
        return false;
    }
    if format == RuleFormat::Nftables
        && let Some(other) = to.iter().find(|r| r.format == RuleFormat::Nftables)
    {
        // tables of family inet would be there twice
        if other.file != file {
            let text = format!("{}: two rulesets of nftables", cx.name);
            let hint = "give 'rules-file' and 'rules6-file' the same file: what 'nft -j list ruleset' prints has both \
                        families";
            cx.reader.error_hint(span, text, hint);
            return false;
        }
        return true;
    }
    *tracks |= asks_about_connections(&text, format);
    *assured |= text.to_lowercase().contains("assured");
    to.push(KernelRules {
        format,
        family,
        file,
        text,
    });
    true
}

/// A route for the router itself.
fn is_ours(r: &Route) -> bool {
    matches!(r.kind, RouteKind::Local | RouteKind::Broadcast)
}

fn router(k: &Router, cx: &mut KindCx<'_>) -> Option<KernelRouter> {
    let text = |v: &Option<Loc<String>>| v.as_ref().map(|v| v.value.clone());
    let interface = |i: &crate::kinds::router::Interface| KernelInterface {
        name: i.name.clone(),
        address: text(&i.address),
        address6: text(&i.address6),
        mac: i.mac.value.clone(),
        mtu: i.mtu.as_ref().map_or(1500, |m| m.value),
    };
    let routes = k.all_routes(cx).into_iter().filter(|r| r.0.is_used());
    let mut routes: Vec<KernelRoute> = routes
        .map(|(route, file, line)| KernelRoute { route, file, line })
        .collect();
    // IPv6 routes of one metric are next hops of one route: the kernel puts them together
    let chosen = select(k.all_routes(cx)).routes;
    if let Some((route, file, line)) = chosen.iter().find(|r| !r.0.more.is_empty()) {
        let why = format!(
            "the route to {} has several next hops ({file}:{line}): the kernel chooses among them by a hash of its own",
            route.prefix_text()
        );
        refuse(cx, &why, "leave one next hop for this comparison");
        return None;
    }
    if let Some(r) = routes
        .iter()
        .find(|r| is_ours(&r.route) && !k.has(&r.route))
    {
        let why = format!(
            "{} ({}:{}) is an address of no interface of this router",
            r.route.prefix_text(),
            r.file,
            r.line
        );
        refuse(cx, &why, "leave its route out for this comparison");
        return None;
    }
    // they come with the interfaces' addresses
    routes.retain(|r| !is_ours(&r.route));
    Some(KernelRouter {
        interfaces: k.interfaces.iter().map(interface).collect(),
        routes,
    })
}
