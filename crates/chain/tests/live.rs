//! What a function takes from a network interface that its port is at.

use crate::common;

use onefold_chain::{Attached, LivePort, load_live};
use onefold_packet::EtherAddr;

const MAC: EtherAddr = EtherAddr([2, 0xaa, 0, 0, 0, 1]);

/// The Click text of a function of an example whose ports are interfaces, and what became of them.
fn live(example: &str, function: &str, ports: &[LivePort]) -> (String, Vec<Attached>) {
    let options = onefold_chain::Options {
        examples: vec![common::chains()],
        ..Default::default()
    };
    let (chain, attached) = load_live(example, &options, ports).unwrap();
    let f = chain.functions.iter().find(|f| f.name == function).unwrap();
    (f.click.clone(), attached)
}

fn port(name: &str) -> LivePort {
    LivePort {
        port: name.to_string(),
        mac: Some(MAC),
        mtu: 1400,
        learns: true,
    }
}

#[test]
fn a_router_behind_a_firewall_takes_the_address_and_asks() {
    let (text, attached) = live("isp-edge", "router", &[port("lan")]);
    assert_eq!(attached[0].at, Some(("router[0]".to_string(), "router")));
    assert!(text.contains(&format!("HostEtherFilter({MAC}")), "{text}");
    assert!(
        text.contains(&format!("ARPQuerier(204.152.0.1, {MAC})")),
        "{text}"
    );
    assert!(
        text.contains("IPFragmenter(1400)"),
        "the interface's MTU: {text}"
    );
    // the other side is as it was written
    assert!(
        text.contains("EtherEncap(0x0800, 02-00-00-00-00-03, 02-00-00-00-00-04)"),
        "{text}"
    );
    assert!(text.contains("IPFragmenter(1500)"), "{text}");
}

#[test]
fn a_nat_answers_for_its_pool_and_asks_for_its_gateway() {
    let (text, attached) = live("isp-edge", "nat", &[port("wan"), port("lan")]);
    assert_eq!(attached[0].at, Some(("nat[1]".to_string(), "nat")));
    let asks = attached[0].asks();
    assert_eq!(asks.as_deref(), Some("nat/arpq1"));
    assert!(
        text.contains(&format!("arpq1 :: ARPQuerier(203.0.113.1, {MAC})")),
        "{text}"
    );
    assert!(text.contains("0.0.0.0/0 203.0.113.254 0"), "{text}");
    let pool: Vec<String> = (1..=8).map(|i| format!("203.0.113.{i}")).collect();
    let answers = format!("ARPResponder({} {MAC})", pool.join(" "));
    assert!(text.contains(&answers), "{text}");
    assert!(
        text.contains("EtherEncap(0x0800, 02-00-00-00-00-04, 02-00-00-00-00-03)"),
        "{text}"
    );
}

#[test]
fn what_is_kept_stays() {
    let kept = LivePort {
        mac: None,
        learns: false,
        ..port("wan")
    };
    let (text, _) = live("isp-edge", "nat", &[kept]);
    let (written, _) = live("isp-edge", "nat", &[]);
    assert_eq!(text, written);
}

#[test]
fn ipv6_neighbours_are_asked_for() {
    let (text, _) = live("ipv6-edge", "router", &[port("wan")]);
    assert!(
        text.contains(&format!("IP6NDSolicitor(2001:db8:ffff::1, {MAC})")),
        "{text}"
    );
    assert!(text.contains("-> [1]enc1"), "{text}");
}

#[test]
fn rows_of_functions_are_followed_to_their_ends() {
    let (text, attached) = live("routers-3", "r3", &[port("left"), port("right")]);
    let at: Vec<_> = attached.iter().map(|a| a.at.clone().unwrap().0).collect();
    assert_eq!(at, ["r1[0]", "r3[1]"]);
    assert!(
        text.contains(&format!("ARPQuerier(172.16.3.1, {MAC})")),
        "{text}"
    );
    let (_, attached) = live("kitchen-sink", "lb", &[port("trunk"), port("servers")]);
    let at: Vec<_> = attached.iter().map(|a| a.at.clone().unwrap().0).collect();
    assert_eq!(at, ["router[0]", "lb[1]"]);
    // frames pass a firewall and an inspection as they are
    let (_, attached) = live("campus-dpi", "fw", &[port("campus"), port("internet")]);
    assert!(attached.iter().all(|a| a.at.is_none()), "{attached:?}");
}

#[test]
fn an_mtu_that_is_written_is_needed() {
    let text = "
functions:
  r:
    router:
      interfaces:
        - { address: 10.0.0.1/24, mac: \"02:00:00:00:00:01\", mtu: 9000 }
        - { address6: \"2001:db8::1/64\", mac: \"02:00:00:00:00:02\", gateway-mac: \"02:00:00:00:00:03\" }
ports: { a: \"r[0]\", b: \"r[1]\" }
";
    let dir = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("live-mtu");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("chain.yaml"), text).unwrap();
    let name = dir.display().to_string();
    let (_, attached) = load_live(&name, &Default::default(), &[port("a"), port("b")]).unwrap();
    let needed: Vec<u32> = attached.iter().map(|a| a.mtu).collect();
    // what IPv6 needs at least (RFC 8200 5)
    assert_eq!(needed, [9000, 1280]);
}

#[test]
fn a_side_without_an_address_says_what_it_needs() {
    let text = "
functions:
  n:
    nat:
      pool: 203.0.113.1
      encap-inside: { mac: \"02:00:00:00:00:01\", next-hop: \"02:00:00:00:00:02\" }
ports: { a: \"n[0]\", b: \"n[1]\" }
";
    let dir = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("live-address");
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("chain.yaml"), text).unwrap();
    let name = dir.display().to_string();
    let e = load_live(&name, &Default::default(), &[port("a")]).unwrap_err();
    let onefold_chain::ChainError::Invalid(ds) = e else {
        panic!("{e}")
    };
    assert!(ds[0].message.contains("needs 'address'"), "{:?}", ds[0]);
}

/// Functions of IPv6: who is asked, from which address, and what is answered for.
#[test]
fn functions_of_ipv6_ask_and_answer() {
    let encap = "{ mac: \"02:00:00:00:00:01\", next-hop: \"02:00:00:00:00:02\", address6: \"2001:db8:f::1/64\", \
                 gateway6: \"2001:db8:f::9\" }";
    let dir = std::path::PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("live-ipv6");
    std::fs::create_dir_all(&dir).unwrap();
    let click = |function: &str| {
        let text =
            format!("functions:\n  f:\n    {function}\nports: {{ a: \"f[0]\", b: \"f[1]\" }}\n");
        std::fs::write(dir.join("chain.yaml"), text).unwrap();
        let name = dir.display().to_string();
        let made = load_live(&name, &Default::default(), &[port("b")]);
        made.map(|(chain, _)| (common::build(&chain), chain.functions[0].click.clone()).1)
    };
    let prefixes = "prefixes: [ { inside: \"fd00::/48\", outside: \"2001:db8:1::/48\" } ]";
    let balancer = "address: \"2001:db8:80::80\", servers: [ { address: \"2001:db8:3::1\" } ]";
    for function in [
        format!("nat: {{ {prefixes}, encap-outside: {encap} }}"),
        format!("nat: {{ {prefixes}, pool: 203.0.113.1, encap-outside: {encap} }}"),
        format!("load-balancer: {{ {balancer}, encap-servers: {encap} }}"),
    ] {
        let text = click(&function).unwrap();
        for part in [
            format!("ndq1 :: IP6NDSolicitor(2001:db8:f::1, {MAC})"),
            format!("IP6NDAdvertiser(2001:db8:f::1/128 {MAC})"),
            "LookupIP6Route(2001:db8:f::/64 ::0 0, ::/0 2001:db8:f::9 0)".to_string(),
            // what comes in at the other side for its own link goes no further
            "stays0 :: Discard(".to_string(),
        ] {
            assert!(text.contains(&part), "{part}: {text}");
        }
    }
    let none = "{ mac: \"02:00:00:00:00:01\", next-hop: \"02:00:00:00:00:02\" }";
    let e = click(&format!("nat: {{ {prefixes}, encap-outside: {none} }}")).unwrap_err();
    let onefold_chain::ChainError::Invalid(ds) = e else {
        panic!("{e}")
    };
    assert!(ds[0].message.contains("needs 'address6'"), "{:?}", ds[0]);
}
