//! A firewall that tracks connections, and a router with the same rules that translates them, beside a NAPT (a rewriter
//! alone, and the function that is one): established connections, and new ones.

use super::{
    Axis, ChainSpec, Experiment, Level, Plan, PlanError, PointSpec, Published, Quantity, Ratio,
    Scale, Traffic, UnseenSpec, Which,
};
use crate::experiment::acl::NEW_PORT;

/// See the module.
pub const EXPERIMENT: Experiment = Experiment {
    name: "stateful",
    title: "Connection tracking beside a NAPT",
    shows: "What it costs to track connections: an office's firewall (established connections pass, \
            a list for new ones), a router with the same rules that also masquerades and forwards a port, a NAPT \
            that is one rewriter, and function nat, in turns. 'Established': 4,000 flows that were opened, \
            TCP and UDP, half of the packets answers. 'New': each packet is the first one of a \
            connection; all tables have room for 131,072 and are full, so that each new one takes \
            another one's place.",
    x: Axis {
        name: "connections",
        log: false,
        labels: true,
    },
    y: Quantity::AboveCeiling,
    plan,
    published,
};

const FIREWALL: &str = "firewall with connection tracking";
const ROUTER: &str = "router with connection tracking and NAT";
const NAPT: &str = "NAPT";
const NAT: &str = "function nat";
/// Places on the axis.
const PLACES: [(f64, &str); 2] = [(0.0, "established"), (1.0, "new")];

const RULES: &str = "\
*filter
:FORWARD DROP [0:0]
:FROM_LAN - [0:0]
:TO_SERVERS - [0:0]
-A FORWARD -m conntrack --ctstate RELATED,ESTABLISHED -j ACCEPT
-A FORWARD -m conntrack --ctstate INVALID -j DROP
-A FORWARD -i lan0 -o wan0 -j FROM_LAN
-A FORWARD -i wan0 -o lan0 -j TO_SERVERS
-A FROM_LAN ! -s 10.1.0.0/16 -j DROP
-A FROM_LAN -p tcp -m tcp --dport 25 -j DROP
-A FROM_LAN -p tcp -m multiport --dports 22,53,80,143,443,465,587,993,8080 -m conntrack --ctstate NEW -j ACCEPT
-A FROM_LAN -p udp -m multiport --dports 53,123,443,3478 -j ACCEPT
-A FROM_LAN -s 10.1.2.0/24 -j ACCEPT
-A TO_SERVERS -d 10.1.9.10/32 -p tcp -m tcp --dport 443 -m conntrack --ctstate NEW -j ACCEPT
-A TO_SERVERS -d 10.1.9.11/32 -p tcp -m multiport --dports 25,587 -m conntrack --ctstate NEW -j ACCEPT
COMMIT
";

const FIREWALL_CHAIN: &str = "\
functions:
  fw:
    firewall:
      rules-file: office.iptables
      interfaces: { inside: lan0, outside: wan0 }
      connections: { capacity: 131072 }
ports:
  lan: fw[0]
  wan: fw[1]
";

/// The rules of a router's table nat, in front of the others.
const NAT_RULES: &str = "\
*nat
:PREROUTING ACCEPT [0:0]
:POSTROUTING ACCEPT [0:0]
-A PREROUTING -i wan0 -p tcp -m tcp --dport 443 -j DNAT --to-destination 10.1.9.10
-A POSTROUTING -o wan0 -j MASQUERADE
COMMIT
";

const ROUTER_CHAIN: &str = "\
functions:
  fw:
    firewall:
      rules-file: office.iptables
      interfaces: { inside: lan0, outside: wan0 }
      addresses: { outside: [203.0.113.1/24] }
      connections: { capacity: 131072 }
ports:
  lan: fw[0]
  wan: fw[1]
";

/// A NAPT that makes room for new flows when it is full, both ways.
const NAPT_CHAIN: &str = "\
nat :: IPRewriter(pattern 198.51.100.1-198.51.100.8 1024-65535 - - 0 1, drop,
  MAPPING_CAPACITY 131072, UDP_GUARANTEE 0, TCP_GUARANTEE 0);
FromDevice(lan) -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> u :: IPClassifier(tcp or udp, -) -> nat
  -> EtherEncap(0x0800, 02:00:00:00:03:00, 02:00:00:00:03:01) -> ToDevice(wan);
FromDevice(wan) -> d :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> v :: IPClassifier(tcp or udp, -)
  -> [1] nat;
nat[1] -> EtherEncap(0x0800, 02:00:00:00:02:00, 02:00:00:00:02:01) -> ToDevice(lan);
c[1] -> Discard; d[1] -> Discard; u[1] -> Discard; v[1] -> Discard;
";

/// The same by the function of that name, which keeps what RFC 4787 and 5382 want of a NAT.
const NAT_CHAIN: &str = "\
functions:
  nat:
    nat:
      pool: 198.51.100.1-198.51.100.8
      capacity: 131072
      encap-inside: { mac: '02:00:00:00:02:00', next-hop: '02:00:00:00:02:01' }
      encap-outside: { mac: '02:00:00:00:03:00', next-hop: '02:00:00:00:03:01' }
ports:
  lan: nat[0]
  wan: nat[1]
";

fn plan(scale: &Scale) -> Result<Plan, PlanError> {
    let mut plan = Plan::default();
    let all = PLACES.map(|(x, _)| x);
    let wanted = scale.places(&all, &all, all[all.len() - 1])?;
    let file = |name: &str, text: &str| (name.to_string(), text.to_string());
    let chains = [
        (
            FIREWALL,
            ChainSpec::Files(vec![
                file("chain.yaml", FIREWALL_CHAIN),
                file("office.iptables", RULES),
            ]),
        ),
        (
            ROUTER,
            ChainSpec::Files(vec![
                file("chain.yaml", ROUTER_CHAIN),
                file("office.iptables", &format!("{NAT_RULES}{RULES}")),
            ]),
        ),
        (NAPT, ChainSpec::Click(NAPT_CHAIN.into())),
        (NAT, ChainSpec::Files(vec![file("chain.yaml", NAT_CHAIN)])),
    ];
    for (x, label) in PLACES.into_iter().filter(|(x, _)| wanted.contains(x)) {
        let new = x > 0.0;
        for (series, chain) in &chains {
            plan.points.push(PointSpec {
                label: Some(label.into()),
                levels: vec![Level::Reference, Level::Flow, Level::Auto],
                traffic: Traffic {
                    flows: if scale.quick { 100 } else { 4000 },
                    tcp: 0.5,
                    replies: !new,
                    strangers: new.then(|| UnseenSpec {
                        share: 1.0,
                        frames: Vec::new(),
                        vary: NEW_PORT,
                    }),
                    ..Traffic::default()
                },
                group: x as usize,
                ..PointSpec::new(*series, x, chain.clone())
            });
        }
        for (of, who) in [(FIREWALL, "firewall"), (ROUTER, "router")] {
            for level in [Level::Flow, Level::Auto] {
                for (to, other) in [(NAPT, "the NAPT"), (NAT, "function nat")] {
                    plan.ratios.push(Ratio {
                        name: format!(
                            "{label}: rate of the {who} in rates of {other}, {}",
                            level.name()
                        ),
                        of: Which::new(of, level, x),
                        to: Which::new(to, level, x),
                    });
                }
            }
        }
    }
    Ok(plan)
}

fn published() -> Vec<Published> {
    vec![Published {
        source: "None of the papers",
        setting: "their firewalls are lists without connections",
        reported: "The aim here: established connections at 1.3 times what a NAPT costs above the ceiling, \
            new ones at 1.5 times.",
        erratum: None,
        lines: Vec::new(),
    }]
}
