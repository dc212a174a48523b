//! What hosts do: transfers over TCP with a checksum, datagrams over UDP. All of it waits until it works, or
//! [`PATIENCE`] is over.

use crate::running::PATIENCE;
use onefold_testing::net::Net;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// Bytes that say where they are.
pub fn pattern(n: usize) -> Vec<u8> {
    (0..n).map(|i| (i ^ (i >> 8) ^ (i >> 15)) as u8).collect()
}

/// FNV-1a.
pub fn checksum(data: &[u8]) -> u64 {
    data.iter().fold(0xcbf2_9ce4_8422_2325, |h, b| {
        (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
    })
}

/// `client` sends so many bytes over TCP to `server`, which sends them back changed; both checksums must be right.
/// Gives the address that the server saw.
pub fn transfer(net: &Net, client: &str, server: &str, at: SocketAddr, bytes: usize) -> SocketAddr {
    transfer_to(net, (client, at), (server, at), bytes)
}

/// The same where the client knows the server by another address than its own.
pub fn transfer_to(
    net: &Net,
    (client, to): (&str, SocketAddr),
    (server, at): (&str, SocketAddr),
    bytes: usize,
) -> SocketAddr {
    let (ready, is_ready) = std::sync::mpsc::channel();
    let serve = net.start(server, move || {
        let listener = TcpListener::bind(at).expect("the server's address");
        ready.send(()).expect("the test waits");
        let (mut s, from) = listener.accept().expect("a client");
        s.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        let mut data = vec![0; bytes];
        s.read_exact(&mut data).expect("all bytes arrive");
        let sum = checksum(&data);
        data.iter_mut().for_each(|b| *b = !*b);
        s.write_all(&data).expect("all bytes leave");
        (sum, from)
    });
    is_ready.recv().expect("the server listens");
    let back = net.within(client, || {
        let mut s = TcpStream::connect_timeout(&to, PATIENCE).expect("a connection");
        s.set_read_timeout(Some(PATIENCE)).expect("a time limit");
        s.write_all(&pattern(bytes)).expect("all bytes leave");
        let mut data = vec![0; bytes];
        s.read_exact(&mut data).expect("all bytes come back");
        data
    });
    let (sum, from) = serve.join().expect("the server ends");
    assert_eq!(sum, checksum(&pattern(bytes)), "what the server got");
    assert!(
        back.iter().zip(pattern(bytes)).all(|(a, b)| *a == !b),
        "what came back"
    );
    from
}

/// A socket with this address. One that has just been closed may still be in a process that another test is about to
/// start.
fn bind(at: SocketAddr) -> UdpSocket {
    let begun = Instant::now();
    loop {
        match UdpSocket::bind(at) {
            Err(e) if e.kind() == ErrorKind::AddrInUse && begun.elapsed() < PATIENCE => {
                std::thread::sleep(std::time::Duration::from_millis(10));
            }
            bound => return bound.expect("the server's address"),
        }
    }
}

/// `client` sends datagrams of this length to `server` until one is answered with what it says. Gives the address
/// that the server saw.
pub fn datagrams(
    net: &Net,
    client: &str,
    server: &str,
    at: SocketAddr,
    bytes: usize,
) -> SocketAddr {
    datagrams_to(net, (client, at), (server, at), bytes)
}

/// The same where the client knows the server by another address than its own. Every datagram is answered.
pub fn datagrams_to(
    net: &Net,
    (client, to): (&str, SocketAddr),
    (server, at): (&str, SocketAddr),
    bytes: usize,
) -> SocketAddr {
    let socket = net.within(server, || bind(at));
    let moment = std::time::Duration::from_millis(100);
    socket.set_read_timeout(Some(moment)).expect("a time limit");
    let done = Arc::new(AtomicBool::new(false));
    let over = done.clone();
    let serve = std::thread::spawn(move || {
        let mut data = [0; 65_536];
        let mut first = None;
        while !over.load(Ordering::Relaxed) {
            let Ok((n, from)) = socket.recv_from(&mut data) else {
                continue;
            };
            first.get_or_insert((n, from));
            data[..n].reverse();
            // what is too long for the way is sent again, in fragments
            let _ = socket.send_to(&data[..n], from);
        }
        first.expect("a datagram")
    });
    let any: SocketAddr = match to {
        SocketAddr::V4(_) => ([0, 0, 0, 0], 0).into(),
        SocketAddr::V6(_) => ([0u16; 8], 0).into(),
    };
    let s = net.within(client, || UdpSocket::bind(any).expect("a socket"));
    let mut data = pattern(bytes);
    let mut got = vec![0; 65_536];
    let begun = Instant::now();
    let wait = std::time::Duration::from_millis(300);
    s.set_read_timeout(Some(wait)).expect("a time limit");
    s.send_to(&data, to).expect("a datagram leaves");
    let n = loop {
        match s.recv_from(&mut got) {
            Ok((n, _)) => break n,
            Err(_) if begun.elapsed() < PATIENCE => {
                let _ = s.send_to(&data, to);
            }
            Err(e) => panic!("no answer: {e}"),
        }
    };
    done.store(true, Ordering::Relaxed);
    data.reverse();
    assert_eq!(got.get(..n), Some(&data[..]));
    let (n, from) = serve.join().expect("the server ends");
    assert_eq!(n, bytes);
    from
}
