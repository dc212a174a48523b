//! A chain between hosts that is asked and changed while they use it: the ISP edge, or another one.

use crate::common;
use crate::running::{PATIENCE, Running};
use onefold_testing::net::{Net, connect_from};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpListener, UdpSocket};
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A client network and the Internet with the ISP edge between them.
pub struct Edge {
    pub net: Net,
    pub folder: PathBuf,
    pub socket: PathBuf,
    pub onefold: Running,
}

/// Datagrams that are sent to a port before it is said to be closed.
pub const TRIES: u64 = 3;
pub const SERVER: [u8; 4] = [203, 0, 113, 254];

impl Edge {
    /// Running with these rules; with more options.
    pub fn start(name: &str, rules: &str, options: &[&str]) -> Option<Edge> {
        Edge::compared(name, rules, options, "off")
    }

    /// The same, with this share of the packets compared with the reference graph.
    pub fn compared(name: &str, rules: &str, options: &[&str], share: &str) -> Option<Edge> {
        let net = Net::new(&["a", "o", "b"])?;
        net.pair(("a", "va"), ("o", "oa"));
        net.pair(("b", "vb"), ("o", "ob"));
        net.ip("a", "addr add 204.152.0.10/16 dev va");
        net.ip("a", "route add default via 204.152.0.1");
        net.ip("b", "addr add 203.0.113.254/24 dev vb");
        let folder = common::temp(name);
        let file = folder.join("edge.rules");
        std::fs::write(&file, rules).expect("a file");
        let set = format!("rules={}", file.display());
        let mut args = vec!["isp-edge", "--set", &set];
        args.extend(["--port", "lan=packet:oa", "--port", "wan=packet:ob"]);
        args.extend(options);
        Some(Edge::of(net, folder, &args, share))
    }

    /// Of these hosts, with a chain in the middle.
    pub fn of(net: Net, folder: PathBuf, args: &[&str], share: &str) -> Edge {
        let socket = folder.join("edge.sock");
        let control = socket.display().to_string();
        let args = [args, &["--control", &control]].concat();
        let onefold = Running::compared(&net, "o", &args, share);
        Edge {
            net,
            folder,
            socket,
            onefold,
        }
    }

    pub fn rules(&self, text: &str) {
        std::fs::write(self.folder.join("edge.rules"), text).expect("a file");
    }

    /// Reload number `i`, of two lists of rules in turn: all that has flows goes on, and nothing is dropped.
    pub fn reload(&self, i: u64) {
        self.rules(match i % 2 {
            0 => "deny dst port 4444\nallow all\n",
            _ => "allow all\n",
        });
        let v = self.json(&["reload"]);
        assert_eq!(v["lost"], serde_json::json!([]), "{v}");
        assert_eq!(v["dropped"], 0, "{v}");
    }

    /// `onefold COMMAND ... --socket SOCKET`.
    pub fn command(&self, args: &[&str]) -> Command {
        let mut c = Command::new(env!("CARGO_BIN_EXE_onefold"));
        c.args(args).arg("--socket").arg(&self.socket);
        c.current_dir(common::root()).stdin(Stdio::null());
        c
    }

    pub fn ask(&self, args: &[&str]) -> Output {
        self.command(args).output().expect("the binary runs")
    }

    /// The JSON object that it answers with; it must succeed.
    pub fn json(&self, args: &[&str]) -> Value {
        let o = self.ask(&[args, &["--json"]].concat());
        let said = String::from_utf8_lossy(&o.stderr);
        assert!(o.status.success(), "{args:?}: {said}");
        serde_json::from_slice(&o.stdout).expect("JSON")
    }

    pub fn status(&self) -> Value {
        self.json(&["status"])
    }

    /// Does a datagram get to the server?
    pub fn is_open(&self, port: u16) -> bool {
        self.opens(SERVER, port)
    }

    /// Does a datagram get to this server?
    pub fn opens(&self, server: [u8; 4], port: u16) -> bool {
        let at: SocketAddr = (server, port).into();
        let server = self
            .net
            .within("b", || UdpSocket::bind(at).expect("the server's address"));
        let client = self
            .net
            .within("a", || UdpSocket::bind("0.0.0.0:0").expect("a socket"));
        server
            .set_read_timeout(Some(Duration::from_millis(60)))
            .expect("a time limit");
        // again, as it may be late
        (0..TRIES).any(|_| {
            client.send_to(b"hello", at).expect("it leaves");
            server.recv_from(&mut [0; 64]).is_ok()
        })
    }
}

/// Connections through the chain that say something all the time, and notice if they break.
pub struct Connections {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicU64>,
    /// By connection: when it was answered last, in milliseconds since all began.
    answered: Arc<Vec<AtomicU64>>,
    begun: Instant,
    threads: Vec<std::thread::JoinHandle<u64>>,
}

impl Connections {
    pub fn open(edge: &Edge, n: usize, port: u16) -> Connections {
        Connections::over(edge, &[SERVER], n, port)
    }

    /// The same to these servers in turn.
    pub fn over(edge: &Edge, servers: &[[u8; 4]], n: usize, port: u16) -> Connections {
        Connections::waiting(edge, servers, n, port, PATIENCE)
    }

    /// The same, which wait so long for an answer.
    pub fn waiting(
        edge: &Edge,
        servers: &[[u8; 4]],
        n: usize,
        port: u16,
        patience: Duration,
    ) -> Connections {
        let any = |s: &[u8; 4]| (Ipv4Addr::UNSPECIFIED, Ipv4Addr::from(*s));
        let ways: Vec<_> = servers.iter().map(any).collect();
        Connections::open_all(edge, &ways, (n, port), patience)
    }

    /// The same from these clients' addresses to these servers', in turn.
    pub fn along(edge: &Edge, ways: &[(Ipv4Addr, Ipv4Addr)], n: usize, port: u16) -> Connections {
        Connections::open_all(edge, ways, (n, port), PATIENCE)
    }

    fn open_all(
        edge: &Edge,
        ways: &[(Ipv4Addr, Ipv4Addr)],
        (n, port): (usize, u16),
        patience: Duration,
    ) -> Connections {
        let any: SocketAddr = ([0, 0, 0, 0], port).into();
        let stop = Arc::new(AtomicBool::new(false));
        let rounds = Arc::new(AtomicU64::new(0));
        let listener = edge.net.within("b", || {
            TcpListener::bind(any).expect("the server's address")
        });
        std::thread::spawn(move || {
            for s in listener.incoming().take(n).flatten() {
                std::thread::spawn(move || {
                    let mut from = s.try_clone().expect("a second handle");
                    let _ = std::io::copy(&mut from, &mut &s);
                });
            }
        });
        let mut streams = Vec::new();
        for i in 0..n {
            let (from, to) = ways[i % ways.len()];
            let at = SocketAddrV4::new(to, port);
            let s = edge.net.within("a", || {
                connect_from(from, at, PATIENCE).expect("a connection")
            });
            s.set_read_timeout(Some(patience)).expect("a time limit");
            s.set_nodelay(true).expect("no delay");
            streams.push(s);
        }
        let answered: Arc<Vec<AtomicU64>> = Arc::new((0..n).map(|_| AtomicU64::new(0)).collect());
        let begun = Instant::now();
        let threads = streams.into_iter().enumerate().map(|(i, mut s)| {
            let (stop, rounds) = (stop.clone(), rounds.clone());
            let answered = answered.clone();
            std::thread::spawn(move || {
                let (mut n, mut back) = (0u64, [0; 512]);
                let ends = (s.local_addr().ok(), s.peer_addr().ok());
                let broken = |e: std::io::Error| -> ! {
                    let seconds = begun.elapsed().as_secs();
                    panic!("connection {i}, {ends:?}, after {seconds} s: {e}")
                };
                while !stop.load(Ordering::Relaxed) {
                    let said = [(n as u8).wrapping_add(i as u8); 512];
                    s.write_all(&said).unwrap_or_else(|e| broken(e));
                    s.read_exact(&mut back).unwrap_or_else(|e| broken(e));
                    assert_eq!(said, back);
                    n += 1;
                    rounds.fetch_add(1, Ordering::Relaxed);
                    let now = begun.elapsed().as_millis() as u64;
                    answered[i].store(now, Ordering::Relaxed);
                    std::thread::sleep(Duration::from_millis(2));
                }
                n
            })
        });
        Connections {
            threads: threads.collect(),
            stop,
            rounds,
            answered,
            begun,
        }
    }

    /// Those that have had no answer for so long.
    pub fn silent(&self, most: Duration) -> Vec<usize> {
        let now = self.begun.elapsed().as_millis() as u64;
        let since = |n: &usize| now.saturating_sub(self.answered[*n].load(Ordering::Relaxed));
        let all = 0..self.answered.len();
        all.filter(|n| since(n) > most.as_millis() as u64).collect()
    }

    /// Waits until each has said something more, on average.
    pub fn go_on(&self) {
        let from = self.rounds.load(Ordering::Relaxed);
        let begun = Instant::now();
        while self.rounds.load(Ordering::Relaxed) < from + self.threads.len() as u64 {
            assert!(begun.elapsed() < PATIENCE, "no connection goes on");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// None has broken.
    pub fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        for t in self.threads {
            assert!(t.join().expect("the connection holds") > 0);
        }
    }
}

pub fn number(v: &Value, path: &[&str]) -> u64 {
    path.iter().fold(v, |v, key| &v[key]).as_u64().unwrap_or(0)
}

/// Packets that ports have lost, for whatever reason.
pub fn lost(v: &Value) -> u64 {
    let ports = v["ports"].as_object().into_iter().flatten();
    let lost = ports.flat_map(|(_, p)| p["lost"].as_object().into_iter().flatten());
    lost.filter_map(|(_, n)| n.as_u64()).sum()
}
