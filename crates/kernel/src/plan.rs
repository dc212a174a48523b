//! What is read of a chain before its namespaces are made.

use crate::KernelError;
use crate::host;
use crate::wires::{End, Wires};
use onefold_chain::import::RuleFormat;
use onefold_chain::kernel::{KernelFirewall, KernelForm, KernelFunction, KernelPlan};
use std::net::IpAddr;

/// MTU of wires on which no router says another one.
pub(crate) const MTU: u16 = 9000;
/// Most hops of a packet that goes round between routers, and of the answer to it.
const MOST_HOPS: usize = 2 * 256;

/// Networks of all routers' interfaces.
pub(crate) fn networks(plan: &KernelPlan) -> Vec<(IpAddr, u8)> {
    let routers = plan.functions.iter().filter_map(|f| match &f.form {
        KernelForm::Router(r) => Some(r),
        KernelForm::Firewall(_) => None,
    });
    let interfaces = routers.flat_map(|r| &r.interfaces);
    let addresses = interfaces.flat_map(|i| i.address.iter().chain(&i.address6));
    let parsed = addresses.filter_map(|a| {
        let (a, l) = a.split_once('/')?;
        Some((a.parse().ok()?, l.parse().ok()?))
    });
    parsed.collect()
}

/// Own addresses of the firewall that translates.
pub(crate) fn own(plan: &KernelPlan) -> Vec<IpAddr> {
    let nats = plan.functions.iter().filter_map(|f| match &f.form {
        KernelForm::Firewall(w) => w.translates.as_ref(),
        KernelForm::Router(_) => None,
    });
    let all = nats.flat_map(|nat| nat.addresses.iter().flatten());
    all.map(|(a, _)| *a).collect()
}

/// Does a function translate addresses, and if so, does it draw ports?
///
/// # Errors
/// Two do: what is between them cannot be seen.
pub(crate) fn translates(plan: &KernelPlan) -> Result<Option<bool>, KernelError> {
    let nats = plan.functions.iter().filter_map(|f| match &f.form {
        KernelForm::Firewall(w) => Some((f, w.translates.as_ref()?)),
        KernelForm::Router(_) => None,
    });
    let mut nats = nats.map(|(f, nat)| (f.name.clone(), nat.draws));
    match (nats.next(), nats.next()) {
        (Some((first, _)), Some((second, _))) => Err(KernelError::TwoNats { first, second }),
        (one, _) => Ok(one.map(|(_, draws)| draws)),
    }
}

/// The firewalls, each with its function.
pub(crate) fn firewalls(
    plan: &KernelPlan,
) -> impl Iterator<Item = (&KernelFunction, &KernelFirewall)> {
    plan.functions.iter().filter_map(|f| match &f.form {
        KernelForm::Firewall(w) => Some((f, w)),
        KernelForm::Router(_) => None,
    })
}

/// Formats of all rulesets.
pub(crate) fn formats(plan: &KernelPlan) -> impl Iterator<Item = RuleFormat> {
    firewalls(plan)
        .flat_map(|(_, w)| &w.rules)
        .map(|r| r.format)
}

/// Address and MTU of a function's port.
pub(crate) fn interface(plan: &KernelPlan, (f, port): (usize, usize)) -> (String, u16) {
    match plan.functions.get(f).map(|f| &f.form) {
        Some(KernelForm::Router(r)) => match r.interfaces.get(port) {
            Some(i) => (i.mac.clone(), i.mtu),
            None => (String::new(), MTU),
        },
        form => {
            let said = match form {
                Some(KernelForm::Firewall(w)) => w.mtu,
                _ => None,
            };
            let n = f * 2 + port;
            let mac = format!(
                "02:0f:ff:{:02x}:{:02x}:{:02x}",
                n >> 16 & 255,
                n >> 8 & 255,
                n & 255
            );
            (mac, said.unwrap_or(MTU))
        }
    }
}

/// The smallest MTU of the interfaces that a packet enters by: of the port where it comes in, and of those behind
/// firewalls that pass it on, up to the first router.
pub(crate) fn entered(plan: &KernelPlan, wires: &Wires, at: (usize, usize)) -> u16 {
    let mut least = interface(plan, at).1;
    let (mut f, mut port) = at;
    // Bound: a firewall passes a packet once
    for _ in 0..plan.functions.len() {
        let form = plan.functions.get(f).map(|f| &f.form);
        let passes = matches!(form, Some(KernelForm::Firewall(_))).then_some(());
        let other = (f, usize::from(port == 0));
        let Some(End::Function(g, q)) = passes.and_then(|()| wires.peers.get(&other)) else {
            break;
        };
        (f, port) = (*g, *q);
        least = least.min(interface(plan, (f, port)).1);
    }
    least
}

/// How often a marker goes there and back until everything that came of a packet has been worked on. Each time it
/// passes two wires, and everything that was on its way before it as many. A packet passes each function once, and an
/// answer to it, but where there are two routers it may go round until its hop limit ends it.
pub(crate) fn rounds(plan: &KernelPlan) -> usize {
    let routers = plan.functions.iter();
    let routers = routers
        .filter(|f| matches!(f.form, KernelForm::Router(_)))
        .count();
    match routers {
        0 | 1 => plan.functions.len() + 1,
        _ => MOST_HOPS / 2 + plan.functions.len(),
    }
}

/// Families that all functions have rules, or addresses at all interfaces, for.
pub(crate) fn families(plan: &KernelPlan) -> [bool; 2] {
    let of = |v6: usize| {
        plan.functions.iter().all(|f| match &f.form {
            KernelForm::Firewall(w) => w.families[v6],
            KernelForm::Router(r) => r.interfaces.iter().all(|i| match v6 {
                0 => i.address.is_some(),
                _ => i.address6.is_some(),
            }),
        })
    };
    [of(0), of(1) && host::has_ipv6()]
}
