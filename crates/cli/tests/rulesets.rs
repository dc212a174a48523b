//! Ten rulesets of different kinds, whole, in the form in which the tools print them: each loads, is proved, does the
//! same at every level, and does what the kernel does with it. Each is a folder of `rulesets/` with its chain; `make
//! soak-rulesets` sends each 10^5 packets.

use crate::common;

use common::kernel::{can, compare, listed};
use common::{json, root, run};
use serde_json::Value;
use std::path::PathBuf;

/// The folders, and how many of a thousand packets that the kernel is asked about leave it at least.
const ALL: [(&str, u64); 10] = [
    ("campus-ipv6", 200),
    ("data-centre", 100),
    ("docker-host", 300),
    ("guest-wifi", 200),
    ("isp-access", 100),
    ("kube-node", 300),
    ("laptop", 300),
    ("office-router", 300),
    ("openwrt", 200),
    ("site-to-site", 200),
];

fn folder(name: &str) -> PathBuf {
    root().join("crates/cli/tests/rulesets").join(name)
}

/// Loads, is proved, and does the same at every level.
fn holds(name: &str, chain: &str) {
    let dir = folder(name);
    let (out, _) = run(&dir, 0, &["check", chain]);
    assert!(out.contains(": ok"), "{name}: {out}");
    let args = [
        "verify",
        chain,
        "--prove",
        "--level",
        "all",
        "--packets",
        "1000",
        "-q",
    ];
    let v = json(&dir, 0, &args);
    assert_eq!(v["verdict"], "proved", "{name}: {v}");
    assert_eq!(v["differences"], 0, "{name}: {v}");
    let levels = v["levels"].as_array().map_or(&[][..], Vec::as_slice);
    let enough = |l: &Value| l["packets"].as_u64() > Some(500);
    assert!(
        levels.len() >= 3 && levels.iter().all(enough),
        "{name}: {v}"
    );
}

/// The kernel does the same with so many packets, of which enough leave it.
fn agrees(name: &str, packets: u64, seed: u64) -> Value {
    let least = ALL.iter().find(|r| r.0 == name).map_or(0, |r| r.1);
    let (packets, seed) = (packets.to_string(), seed.to_string());
    let args = ["chain.yaml", "--packets", &packets, "--seed", &seed];
    let v = compare(&folder(name), 0, &args);
    assert_eq!(v["differences"], 0, "{name}: {v}");
    let number = |k: &str| v[k].as_u64().unwrap_or(0);
    assert!(
        number("compared") * 5 > number("packets") * 2,
        "{name}: {v}"
    );
    assert!(
        number("with_output") * 1000 >= number("packets") * least,
        "{name}: {v}"
    );
    v
}

/// A test for each folder.
macro_rules! rulesets {
    ($($test:ident: $name:literal;)*) => {
        $(
            #[test]
            fn $test() {
                holds($name, "chain.yaml");
                if can() {
                    agrees($name, 3000, 1);
                }
            }
        )*
        #[test]
        fn every_folder_has_its_test() {
            let dir = folder("");
            let entries = std::fs::read_dir(dir).expect("the folder").flatten();
            let mut there: Vec<String> = entries
                .filter(|e| e.path().is_dir())
                .map(|e| e.file_name().to_string_lossy().into_owned())
                .collect();
            there.sort();
            assert_eq!(there, [$($name),*]);
            assert_eq!(there, ALL.map(|r| r.0));
        }
    };
}

rulesets! {
    a_campus_of_ipv6: "campus-ipv6";
    a_data_centre_with_sets_and_maps: "data-centre";
    a_host_of_containers: "docker-host";
    a_network_for_guests: "guest-wifi";
    an_access_list_of_a_provider: "isp-access";
    a_node_of_kubernetes: "kube-node";
    a_laptop_with_virtual_machines: "laptop";
    a_router_of_an_office: "office-router";
    a_router_of_openwrt: "openwrt";
    a_branch_behind_a_tunnel: "site-to-site";
}

/// With the host at port 2, where chains INPUT and OUTPUT count: the kernel is not asked there.
#[test]
fn a_laptop_and_its_own_packets() {
    holds("laptop", "host.yaml");
}

/// What `nft -j` prints of the text is what the chain reads.
#[test]
fn the_json_is_of_the_text() {
    if !can() {
        return;
    }
    for name in ["data-centre", "openwrt"] {
        let dir = folder(name);
        let objects = |text: &str| -> Vec<Value> {
            let v: Value = serde_json::from_str(text).expect("JSON");
            let all = v["nftables"].as_array().cloned().unwrap_or_default();
            // who printed it
            let mut all: Vec<Value> = (all.into_iter())
                .filter(|o| o.get("metainfo").is_none())
                .collect();
            // elements have no order, and newer tools other numbers
            all.iter_mut().for_each(sorted);
            all
        };
        let stored = std::fs::read_to_string(dir.join("rules.json")).expect("rules.json");
        let (stored, listed) = (objects(&stored), objects(&listed(&dir.join("rules.nft"))));
        assert_eq!(stored.len(), listed.len(), "{name}");
        for (a, b) in stored.iter().zip(&listed) {
            assert_eq!(
                a, b,
                "{name}: scripts/rulesets-json.sh makes rules.json anew"
            );
        }
    }
}

/// Puts elements of sets in order, and leaves handles out.
fn sorted(v: &mut Value) {
    match v {
        Value::Object(m) => {
            m.remove("handle");
            for (key, v) in m.iter_mut() {
                sorted(v);
                if let (true, Value::Array(all)) = (matches!(key.as_str(), "set" | "elem"), v) {
                    all.sort_by_key(Value::to_string);
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(sorted),
        _ => {}
    }
}

/// `make soak-rulesets`: RULESETS_PACKETS (100,000) packets for each.
#[test]
#[ignore = "minutes: make soak-rulesets"]
fn a_hundred_thousand_packets_each() {
    if !can() {
        return;
    }
    let said = std::env::var("RULESETS_PACKETS").ok();
    let packets = said.and_then(|n| n.parse().ok()).unwrap_or(100_000);
    let (mut compared, mut known) = (0, 0);
    for (name, _) in ALL {
        let v = agrees(name, packets, 7);
        let told = |k: &str| v[k].as_u64().unwrap_or(0);
        let all = v["known"].as_array().into_iter().flatten();
        let documented: u64 = all.filter_map(|k| k["packets"].as_u64()).sum();
        println!(
            "{name}: {} packets, {} compared, {} left the kernel, {documented} met something documented",
            told("packets"),
            told("compared"),
            told("with_output"),
        );
        compared += told("compared");
        known += documented;
    }
    println!(
        "soak: {} rulesets, {packets} packets each, {compared} compared with the kernel, 0 differences, {known} met \
         something documented",
        ALL.len()
    );
}
