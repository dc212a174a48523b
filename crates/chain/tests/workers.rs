//! Chains for several workers: what each hands out, what the partition goes by, and what is refused.

use crate::common;

use onefold_chain::{ChainError, LivePort, Options, WorkerChains, load_workers, load_workers_live};
use onefold_packet::EtherAddr;
use onefold_partition::Hash;
use std::path::Path;

fn options() -> Options {
    Options {
        examples: vec![common::chains()],
        ..Default::default()
    }
}

fn example(name: &str, workers: usize) -> WorkerChains {
    load_workers(name, &options(), workers).unwrap()
}

/// A chain file of a test.
fn written(test: &str, text: &str, workers: usize) -> Result<WorkerChains, ChainError> {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join(test);
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("chain.yaml");
    std::fs::write(&file, text).unwrap();
    load_workers(&file.display().to_string(), &options(), workers)
}

fn errors(r: Result<WorkerChains, ChainError>) -> String {
    match r {
        Err(ChainError::Invalid(ds)) => ds.iter().map(|d| d.render(false)).collect(),
        Err(e) => e.to_string(),
        Ok(w) => panic!("taken: {:?}", w.ports),
    }
}

fn click(w: &WorkerChains, worker: usize, function: &str) -> String {
    let f = w.chains[worker]
        .functions
        .iter()
        .find(|f| f.name == function);
    f.unwrap().click.clone()
}

#[test]
fn each_worker_hands_out_its_own_ports() {
    let w = example("router-nat-lb", 3);
    // of ports as of identifiers
    for (worker, ports) in [(0, "1-21845"), (1, "21846-43690"), (2, "43691-65535")] {
        let text = click(&w, worker, "nat");
        let pattern = format!("pattern 172.16.2.1 {ports} - - 0 1,");
        assert_eq!(text.matches(&pattern).count(), 2, "{text}");
    }
    // all else is the same
    let names = |w: &WorkerChains, i: usize| -> Vec<(String, String)> {
        let all = w.chains[i].graph.elements.iter();
        all.map(|e| (e.name.clone(), e.class.clone())).collect()
    };
    assert_eq!(names(&w, 0), names(&w, 2));
    assert_eq!(click(&w, 0, "lb"), click(&w, 2, "lb"));
    // one worker has what the chain has
    let one = example("router-nat-lb", 1);
    let chain = onefold_chain::load("router-nat-lb", &options()).unwrap();
    assert_eq!(
        one.chains[0].graph.to_click_text(),
        chain.graph.to_click_text()
    );
}

/// Where one address stays the same it is hashed at both ends; behind a NAT in front of a balancer ports tell.
#[test]
fn what_tells_follows_from_the_chain() {
    use Hash::{Both, Destination, Source};
    let hashes =
        |name: &str| -> Vec<Hash> { example(name, 2).ports.iter().map(|p| p.hash).collect() };
    assert_eq!(hashes("routers-3"), [Both, Both]);
    assert_eq!(hashes("campus-dpi")[..2], [Both, Both]);
    assert_eq!(hashes("isp-edge"), [Destination, Source]);
    assert_eq!(hashes("napts-3"), [Destination, Source]);
    let w = example("router-nat-lb", 2);
    assert_eq!((w.ports[0].hash, w.ports[1].hash), (Both, Both));
    assert!(w.ports[0].pools.is_empty());
    assert_eq!(w.ports[1].pools.len(), 1);
    assert_eq!(w.ports[1].pools[0].ports, (1, 65535));
    let w = example("kitchen-sink", 2);
    let at = |n: &str| w.chains[0].ports.iter().position(|p| p.name == n).unwrap();
    let (trunk, servers) = (&w.ports[at("trunk")], &w.ports[at("servers")]);
    assert_eq!(servers.pools[0].forwards.len(), 1);
    assert_eq!(trunk.hosts, [std::net::Ipv4Addr::new(10, 0, 0, 22)]);
    // the gateway's MAC address is written down
    assert!(!trunk.neighbours && !servers.neighbours);
}

/// Where a router asks for its neighbours, also behind a firewall, and nowhere else.
#[test]
fn all_workers_learn_neighbours() {
    let text = "functions:
  fw: { firewall: { rules: [ 'allow all' ] } }
  r:
    router:
      interfaces:
        - { address: 10.0.0.1/8, mac: '02:00:00:00:00:02' }
        - { address: 172.16.1.1/24, mac: '02:00:00:00:00:03', gateway-mac: '02:00:00:00:00:04' }
      routes: [ default via 172.16.1.2 ]
  out: { firewall: { rules: [ 'allow all' ] } }
links: [ 'fw[1] <-> [0]r[1] <-> [0]out' ]
ports: { lan: 'fw[0]', wan: 'out[1]' }
";
    let w = written("neighbours", text, 2).unwrap();
    let asks: Vec<bool> = w.ports.iter().map(|p| p.neighbours).collect();
    assert!(asks[0], "{asks:?}");
    let alone = "functions: { fw: { firewall: { rules: [ 'allow all' ] } } }\nports: { lan: 'fw[0]', wan: 'fw[1]' }\n";
    let w = written("alone", alone, 2).unwrap();
    assert!(w.ports.iter().all(|p| !p.neighbours));
}

const BALANCED: &str = "functions:
  lb:
    load-balancer:
      address: 198.18.0.80
      servers: [ { address: 172.16.3.1 } ]
ports: { clients: 'lb[0]', servers: 'lb[1]' }
";

/// A balancer at interfaces asks for its neighbours itself: no router does it for it.
#[test]
fn all_workers_learn_a_balancers_neighbours() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("balancer-live");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("chain.yaml");
    let mac = "mac: '02:00:00:00:00:02', next-hop: '02:00:00:00:00:03'";
    let text = BALANCED.replace(
        "      address: 198.18.0.80\n",
        &format!(
            "      address: 198.18.0.80\n      encap-clients: {{ {mac}, address: 10.0.0.1/8 }}\n      \
             encap-servers: {{ {mac}, address: 172.16.3.9/24 }}\n"
        ),
    );
    std::fs::write(&file, text).unwrap();
    let live = ["clients", "servers"].map(|port| LivePort {
        port: port.to_string(),
        mac: Some(EtherAddr([2, 0, 0, 0, 0, 9])),
        mtu: 1500,
        learns: true,
    });
    let (w, attached) =
        load_workers_live(&file.display().to_string(), &options(), 2, &live).unwrap();
    assert_eq!((w.chains.len(), attached.len()), (2, 2));
    for (port, rule) in w.chains[1].ports.iter().zip(&w.ports) {
        let at = attached.iter().find(|a| a.port == port.name).unwrap();
        let asks = w.chains[1].graph.find(&at.asks().unwrap()).is_some();
        assert!(asks, "{}", port.name);
        assert!(rule.neighbours, "{}", port.name);
    }
}

#[test]
fn balancers_hash_clients() {
    let w = written("balancer", BALANCED, 2).unwrap();
    let hashes: Vec<Hash> = w.ports.iter().map(|p| p.hash).collect();
    assert_eq!(hashes, [Hash::Source, Hash::Destination]);
}

fn nat(more: &str, behind: &str) -> String {
    format!(
        "functions:
  nat:
    nat:
      pool: 203.0.113.1
{more}
  lb:
    load-balancer:
      address: 198.18.0.80
      servers: [ {{ address: 172.16.3.1 }} ]
{behind}ports: {{ in: 'nat[0]', out: 'lb[1]' }}
"
    )
}

#[test]
fn what_workers_cannot_divide_is_refused() {
    let linked = "links: [ 'nat[1] <-> [0]lb' ]\n";
    let few = errors(written(
        "few",
        &nat("      port-range: 1024-1025\n", linked),
        3,
    ));
    assert!(few.contains("2 ports are too few for 3 workers"), "{few}");
    assert!(
        few.contains("chain.yaml:5:") && few.contains("port-range"),
        "{few}"
    );
    assert!(written("enough", &nat("      port-range: 1024-1026\n", linked), 3).is_ok());

    let forward = "      forward: [ 'tcp 203.0.113.1:8080 -> 10.0.0.5:80' ]\n";
    // what is forwarded is handed out to nobody
    assert!(written("reserved", &nat(forward, linked), 2).is_ok());
    let shared = format!("{forward}      mapping: address-and-port\n");
    let told = errors(written("forwarded", &nat(&shared, linked), 2));
    assert!(
        told.contains("a port that is forwarded may be handed out"),
        "{told}"
    );
    assert!(told.contains("port-range"), "{told}");
    let apart = format!("{shared}      port-range: 10000-20000\n");
    assert!(written("apart", &nat(&apart, linked), 2).is_ok());

    let turned = "  back:
    load-balancer:
      address: 198.18.0.81
      servers: [ { address: 172.16.3.9 } ]
links: [ 'lb[1] <-> [1]back' ]
ports: { clients: 'lb[0]', servers: 'back[0]' }
";
    let facing = BALANCED.replace("ports: { clients: 'lb[0]', servers: 'lb[1]' }\n", turned);
    let told = errors(written("facing", &facing, 2));
    assert!(
        told.contains("no address and no port tells both directions"),
        "{told}"
    );
    assert!(written("facing", &facing, 1).is_ok());

    let six = "functions:\n  n:\n    nat: { pool: 203.0.113.1, nat64: { prefix: '64:ff9b::/96' } }\n\
               ports: { in: 'n[0]', out: 'n[1]' }\n";
    let told = errors(written("six", six, 2));
    let why = "IPv6 hosts have handles (nat64), which are one worker's";
    assert!(told.contains(why), "{told}");
    assert!(written("six", six, 1).is_ok());
}

/// What Linux cannot be asked about is told by name.
#[test]
fn nat64_is_nothing_that_the_kernel_has() {
    let six = "functions:\n  n:\n    nat: { pool: 203.0.113.1, nat64: { prefix: '64:ff9b::/96' } }\n\
               ports: { in: 'n[0]', out: 'n[1]' }\n";
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kernel64");
    std::fs::create_dir_all(&dir).unwrap();
    let file = dir.join("chain.yaml");
    std::fs::write(&file, six).unwrap();
    let loaded = onefold_chain::kernel::load_for_kernel(&file.display().to_string(), &options());
    let Err(ChainError::Invalid(ds)) = loaded else {
        panic!("taken");
    };
    let told: String = ds.iter().map(|d| d.render(false)).collect();
    let why = "n: NAT64, which Linux has not of its own, has no equivalent in the kernel";
    assert!(told.contains(why), "{told}");
}

#[test]
fn elements_that_workers_cannot_have_are_refused_by_name() {
    let chain = |elements: &str| {
        format!(
            "functions:
  f:
    click:
      config: |
        FromDevice(a) -> {elements} -> ToDevice(b);
        FromDevice(b) -> ToDevice(a);
    ports: [ a, b ]
ports: {{ a: 'f[0]', b: 'f[1]' }}
"
        )
    };
    let text = chain("rw :: IPRewriter(pattern 1.0.0.1 1024-65535 - - 0 0)");
    let told = errors(written("rewriter", &text, 2));
    assert!(
        told.contains("f/rw :: IPRewriter") && told.contains("cannot be divided"),
        "{told}"
    );
    let told = errors(written("dump", &chain("ToIPSummaryDump(/dev/null)"), 2));
    assert!(
        told.contains("every worker would do the same again"),
        "{told}"
    );
    let w = written("queue", &chain("q :: Queue(10) -> RatedUnqueue(5)"), 2).unwrap();
    let warned: String = w.warnings.iter().map(|d| d.render(false)).collect();
    assert!(
        warned.contains("f/q (Queue)") && warned.contains("RatedUnqueue"),
        "{warned}"
    );
    assert!(
        written("plain", &chain("Counter"), 2)
            .unwrap()
            .warnings
            .is_empty()
    );
}
