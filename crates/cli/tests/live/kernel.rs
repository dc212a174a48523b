//! What the kernels of hosts have lost, by their own counters: a packet that they count is not lost by Onefold.

use onefold_testing::net::Net;
use std::fs::read_to_string;

/// Datagrams and frames that these hosts have dropped for want of room: at sockets (`drops` of `/proc/net/udp`), at
/// interfaces (`drop`, received and sent, of `/proc/net/dev`), and on the way between (`dropped` of
/// `/proc/net/softnet_stat`, of the whole machine).
pub fn lost(net: &Net, hosts: &[&str]) -> u64 {
    let of_host = |h: &&str| net.within(h, || sockets() + interfaces());
    hosts.iter().map(of_host).sum::<u64>() + backlogs()
}

/// A file of this thread's namespace.
fn table(name: &str) -> String {
    read_to_string(format!("/proc/thread-self/net/{name}")).expect("the kernel's table")
}

fn number(line: &str, column: usize, base: u32) -> u64 {
    let word = line.split_whitespace().nth(column).unwrap_or("0");
    u64::from_str_radix(word, base).unwrap_or(0)
}

/// Has this thread's host the address of a neighbour? Until then the kernel keeps what is to go there, and sends it
/// from whichever core the answer comes to: what is sent meanwhile may overtake it.
pub fn knows_a_neighbour() -> bool {
    let text = table("arp");
    // ATF_COM
    let known = |l: &str| l.split_whitespace().nth(2) == Some("0x2");
    text.lines().skip(1).any(known)
}

fn sockets() -> u64 {
    let text = table("udp");
    text.lines().skip(1).map(|l| number(l, 12, 10)).sum()
}

fn interfaces() -> u64 {
    let text = table("dev");
    let counts = text.lines().skip(2).filter_map(|l| l.split_once(':'));
    counts
        .map(|(_, c)| number(c, 3, 10) + number(c, 11, 10))
        .sum()
}

fn backlogs() -> u64 {
    let text = table("softnet_stat");
    text.lines().map(|l| number(l, 1, 16)).sum()
}

/// Every number is read where the kernel writes it: datagrams that nobody reads run over a small buffer.
#[test]
fn drops_at_a_socket_are_seen() {
    let Some(net) = Net::new(&["a"]) else { return };
    net.within("a", || {
        let open = || std::net::UdpSocket::bind("127.0.0.1:0").expect("a socket");
        let (from, to) = (open(), open());
        let at = to.local_addr().expect("an address");
        let before = sockets();
        for _ in 0..4096 {
            let _ = from.send_to(&[0; 1024], at);
        }
        assert!(sockets() > before);
    });
}
