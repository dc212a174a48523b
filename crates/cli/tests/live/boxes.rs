//! A proxy of somebody else's in a chain on interfaces: a client and a server that know nothing of it.

use crate::common;
use crate::running::{PATIENCE, Running};
use onefold_testing::net::Net;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};

const CHAIN: &str = r#"
functions:
  count: { monitor: {}, run: process }
  proxy:
    external:
      command: [haproxy, -f, haproxy.cfg, -db]
      ports:
        - veth: { name: near, addresses: [10.0.0.1/24] }
        - veth: { name: far, addresses: [10.0.1.1/24] }
      sysctls: { net.ipv4.ip_forward: 1 }
      # what goes to port 80, and what comes back for it, is the proxy's, whatever address it is for
      set-up:
        - ip rule add fwmark 1 lookup 100
        - ip route add local default dev lo table 100
        - nft -f proxy.nft
      ready: ["ss -ltn | grep -q :8080"]
links:
  - count[1] <-> [0]proxy
ports:
  lan: count[0]
  wan: proxy[1]
"#;

const NFT: &str = "
table ip proxy {
  chain prerouting {
    type filter hook prerouting priority mangle;
    meta l4proto tcp socket transparent 1 meta mark set 1 accept
    iifname near tcp dport 80 meta mark set 1 tproxy to :8080 accept
  }
}
";

const HAPROXY: &str = "
defaults
  mode http
  timeout connect 10s
  timeout client 20s
  timeout server 20s
frontend near
  bind :8080 transparent
  default_backend far
backend far
  option transparent
  source 0.0.0.0 usesrc clientip
  http-response set-header X-Passed haproxy
  server any 0.0.0.0
";

/// HTTP through haproxy as a transparent proxy: the client asks the server, the server sees the client's address, and
/// the answer has what the proxy puts into it. Other TCP passes the box as a router.
#[test]
fn haproxy_is_a_transparent_proxy_in_a_chain() {
    if !std::path::Path::new("/usr/sbin/haproxy").exists()
        || !std::path::Path::new("/usr/sbin/nft").exists()
    {
        onefold_testing::skip("haproxy or nft is not installed");
        return;
    }
    let Some(net) = Net::new(&["a", "o", "b"]) else {
        return;
    };
    net.pair(("a", "va"), ("o", "oa"));
    net.pair(("b", "vb"), ("o", "ob"));
    net.ip("a", "addr add 10.0.0.2/24 dev va");
    net.ip("a", "route add default via 10.0.0.1");
    net.ip("b", "addr add 10.0.1.2/24 dev vb");
    net.ip("b", "route add default via 10.0.1.1");
    let dir = common::temp("live-haproxy");
    for (file, text) in [
        ("chain.yaml", CHAIN),
        ("proxy.nft", NFT),
        ("haproxy.cfg", HAPROXY),
    ] {
        std::fs::write(dir.join(file), text).expect("a file");
    }
    let chain = dir.join("chain.yaml").display().to_string();
    let onefold = Running::compared(
        &net,
        "o",
        &[&chain, "--port", "lan=packet:oa", "--port", "wan=packet:ob"],
        "0",
    );
    for (port, passed) in [(80, true), (81, false)] {
        let at: SocketAddr = ([10, 0, 1, 2], port).into();
        let (ready, is_ready) = std::sync::mpsc::channel();
        let body = vec![b'x'; 100_000];
        let serve = net.start("b", move || {
            let listener = TcpListener::bind(at).expect("the server's address");
            ready.send(()).expect("the test waits");
            let (mut s, from) = listener.accept().expect("a client");
            s.set_read_timeout(Some(PATIENCE)).expect("a time limit");
            let mut asked = Vec::new();
            let mut some = [0; 1000];
            while !asked.windows(4).any(|w| w == b"\r\n\r\n") {
                let n = s.read(&mut some).expect("a request");
                assert!(
                    n > 0,
                    "the request ends: {}",
                    String::from_utf8_lossy(&asked)
                );
                asked.extend(&some[..n]);
            }
            let head = format!(
                "HTTP/1.1 200 OK\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
                body.len()
            );
            s.write_all(&[head.as_bytes(), &body].concat())
                .expect("an answer");
            from
        });
        is_ready.recv().expect("the server listens");
        let answer = net.within("a", || {
            let mut s = TcpStream::connect_timeout(&at, PATIENCE).expect("a connection");
            s.set_read_timeout(Some(PATIENCE)).expect("a time limit");
            s.write_all(b"GET / HTTP/1.1\r\nHost: far\r\nConnection: close\r\n\r\n")
                .expect("a request");
            let mut all = Vec::new();
            s.read_to_end(&mut all).expect("an answer");
            all
        });
        let from = serve.join().expect("the server ends");
        assert_eq!(
            from.ip(),
            std::net::Ipv4Addr::new(10, 0, 0, 2),
            "port {port}"
        );
        let (head, rest) = answer.split_at(
            answer
                .windows(4)
                .position(|w| w == b"\r\n\r\n")
                .expect("a head")
                + 4,
        );
        let head = String::from_utf8_lossy(head).to_lowercase();
        assert_eq!(head.contains("x-passed: haproxy"), passed, "{head}");
        assert_eq!(rest, [b'x'; 100_000], "port {port}");
    }
    let v = onefold.stop();
    let doors = &v["processes"][1]["black_box"];
    assert!(
        doors[0]["into"].as_u64() > Some(20) && doors[1]["into"].as_u64() > Some(20),
        "{v}"
    );
}
