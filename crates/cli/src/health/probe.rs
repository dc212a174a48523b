//! Tries: TCP connections that are closed as soon as they are established, many at a time, none of them waited for.
//!
//! They are the host's, made by its kernel, not the chain's: a try goes where the host's routes lead, with an address
//! of the host.

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use rustix::net::{AddressFamily, SocketFlags, SocketType, connect, socket_with, sockopt};
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

/// What came of a try.
#[derive(Debug)]
pub enum Tried {
    /// It was established.
    Answered,
    /// It was not: why, in words.
    Failed(String),
    /// It could not be tried here, which says nothing of the server.
    Unable(io::Error),
}

/// A connection that is being made.
pub struct Attempt<K> {
    /// Whose.
    pub key: K,
    socket: OwnedFd,
    deadline: Instant,
    timeout: Duration,
}

/// Begins a try.
///
/// # Errors
/// What came of it, if that is known at once.
pub fn begin<K>(key: K, to: SocketAddr, timeout: Duration) -> Result<Attempt<K>, (K, Tried)> {
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let family = match to {
        SocketAddr::V4(_) => AddressFamily::INET,
        SocketAddr::V6(_) => AddressFamily::INET6,
    };
    let socket = match socket_with(family, SocketType::STREAM, flags, None) {
        Ok(s) => s,
        Err(e) => return Err((key, Tried::Unable(e.into()))),
    };
    match connect(&socket, &to) {
        // one within the host may be there at once
        Ok(()) => Err((key, Tried::Answered)),
        Err(rustix::io::Errno::INPROGRESS) => Ok(Attempt {
            key,
            socket,
            deadline: Instant::now() + timeout,
            timeout,
        }),
        Err(e) => Err((key, failed(e.into()))),
    }
}

/// Is it the server's failure, or one of this host or process?
fn failed(e: io::Error) -> Tried {
    use rustix::io::Errno;
    const OURS: [Errno; 7] = [
        Errno::ACCESS,
        Errno::PERM,
        Errno::MFILE,
        Errno::NFILE,
        Errno::NOBUFS,
        Errno::NOMEM,
        Errno::ADDRNOTAVAIL,
    ];
    let ours = e
        .raw_os_error()
        .is_some_and(|n| OURS.iter().any(|o| o.raw_os_error() == n));
    match ours {
        true => Tried::Unable(e),
        false => Tried::Failed(e.to_string()),
    }
}

/// Waits until something has come of one of them, but no longer than this; what has.
///
/// # Errors
/// The kernel's, of waiting.
pub fn wait<K>(attempts: &mut Vec<Attempt<K>>, longest: Duration) -> io::Result<Vec<(K, Tried)>> {
    let nearest = attempts.iter().map(|a| a.deadline).min();
    let left = nearest.map(|d| d.saturating_duration_since(Instant::now()));
    let wait = left.map_or(longest, |l| l.min(longest));
    // not before it: rounded up
    let wait = PollTimeout::try_from(wait.as_millis() as i64 + 1).unwrap_or(PollTimeout::MAX);
    let ready: Vec<bool> = {
        let mut all: Vec<PollFd<'_>> = attempts
            .iter()
            .map(|a| PollFd::new(a.socket.as_fd(), PollFlags::POLLOUT))
            .collect();
        match poll(&mut all, wait) {
            // a signal: nobody is looked at this time
            Err(nix::errno::Errno::EINTR) => vec![false; all.len()],
            Err(e) => return Err(e.into()),
            Ok(_) => all.iter().map(|p| p.any().unwrap_or(false)).collect(),
        }
    };
    let now = Instant::now();
    let mut done = Vec::new();
    let all = std::mem::take(attempts);
    for (a, ready) in all.into_iter().zip(ready) {
        if ready {
            let tried = match sockopt::socket_error(&a.socket) {
                Ok(Ok(())) => Tried::Answered,
                Ok(Err(e)) | Err(e) => failed(e.into()),
            };
            done.push((a.key, tried));
        } else if a.deadline <= now {
            let why = format!("no answer within {} s", a.timeout.as_secs_f64());
            done.push((a.key, Tried::Failed(why)));
        } else {
            attempts.push(a);
        }
    }
    Ok(done)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddrV4, TcpListener};

    fn tried(to: SocketAddr, timeout: Duration) -> Tried {
        let mut all = match begin((), to, timeout) {
            Ok(a) => vec![a],
            Err(((), t)) => return t,
        };
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_secs(30) {
            if let Some(((), t)) = wait(&mut all, Duration::from_millis(50)).unwrap().pop() {
                return t;
            }
        }
        panic!("nothing has come of it")
    }

    #[test]
    fn somebody_listens_or_nobody() {
        for own in ["127.0.0.1:0", "[::1]:0"] {
            let listener = TcpListener::bind(own).unwrap();
            let to = listener.local_addr().unwrap();
            let long = Duration::from_secs(20);
            assert!(matches!(tried(to, long), Tried::Answered), "{own}");
            drop(listener);
            let failed = matches!(tried(to, long), Tried::Failed(why) if why.contains("refused"));
            assert!(failed, "{own}");
        }
    }

    #[test]
    fn who_does_not_answer_has_failed_in_time() {
        use rustix::net::{bind, getsockname, listen, socket};
        let listener = socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0)).unwrap();
        listen(&listener, 0).unwrap();
        let to: SocketAddr = getsockname(&listener).unwrap().try_into().unwrap();
        // whom nobody takes out of the queue is there until it is full: then the kernel answers nobody
        let mut why = None;
        for _ in 0..8 {
            if let Tried::Failed(said) = tried(to, Duration::from_millis(150)) {
                why = Some(said);
                break;
            }
        }
        assert_eq!(why.as_deref(), Some("no answer within 0.15 s"));
    }

    #[test]
    fn what_is_wrong_here_is_not_the_servers_fault() {
        let errno = |e: rustix::io::Errno| failed(e.into());
        assert!(matches!(errno(rustix::io::Errno::ACCESS), Tried::Unable(_)));
        assert!(matches!(
            errno(rustix::io::Errno::HOSTUNREACH),
            Tried::Failed(_)
        ));
        assert!(matches!(
            errno(rustix::io::Errno::CONNREFUSED),
            Tried::Failed(_)
        ));
    }
}
