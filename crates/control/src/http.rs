//! `GET /metrics`: a server of HTTP/1.1 that knows nothing else. One request at a time, each with a limit of time and
//! length; the connection is closed behind the answer.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Longest request with its headers, in bytes.
pub const MAX_HTTP_REQUEST: usize = 16 << 10;
/// Longest time for each step of a request.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Listens until it is dropped.
#[derive(Debug)]
pub struct MetricsServer {
    at: SocketAddr,
    ends: Arc<AtomicBool>,
    thread: Option<std::thread::JoinHandle<()>>,
}

impl MetricsServer {
    /// Answers `GET /metrics` at `at` with what `text` says, in the text format of Prometheus.
    ///
    /// # Errors
    /// When the address cannot be had.
    pub fn start(
        at: SocketAddr,
        text: impl Fn() -> Result<String, String> + Send + 'static,
    ) -> std::io::Result<MetricsServer> {
        let listener = TcpListener::bind(at)?;
        let at = listener.local_addr()?;
        let ends = Arc::new(AtomicBool::new(false));
        let stop = ends.clone();
        let thread = std::thread::Builder::new().name("metrics".into());
        let thread = thread.spawn(move || {
            for client in listener.incoming() {
                if stop.load(Ordering::Acquire) {
                    return;
                }
                match client {
                    // whoever does not take the answer does not get it
                    Ok(client) => drop(answer(client, &text)),
                    Err(_) => std::thread::sleep(Duration::from_millis(10)),
                }
            }
        })?;
        Ok(MetricsServer {
            at,
            ends,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.at
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.ends.store(true, Ordering::Release);
        let mut at = self.at;
        if at.ip().is_unspecified() {
            at.set_ip(match at {
                SocketAddr::V4(_) => std::net::Ipv4Addr::LOCALHOST.into(),
                SocketAddr::V6(_) => std::net::Ipv6Addr::LOCALHOST.into(),
            });
        }
        let woken = TcpStream::connect_timeout(&at, TIMEOUT).is_ok();
        if let Some(thread) = self.thread.take().filter(|_| woken) {
            let _ = thread.join();
        }
    }
}

fn answer(
    mut client: TcpStream,
    text: &impl Fn() -> Result<String, String>,
) -> std::io::Result<()> {
    client.set_read_timeout(Some(TIMEOUT))?;
    client.set_write_timeout(Some(TIMEOUT))?;
    let mut request = Vec::new();
    let mut part = [0; 1024];
    while !request.windows(4).any(|w| w == b"\r\n\r\n") {
        let n = client.read(&mut part)?;
        request.extend_from_slice(part.get(..n).unwrap_or_default());
        if n == 0 || request.len() > MAX_HTTP_REQUEST {
            return say(&mut client, "400 Bad Request", "no request\n");
        }
    }
    let line = request.split(|b| *b == b'\r').next().unwrap_or_default();
    let line = String::from_utf8_lossy(line);
    let mut words = line.split(' ');
    match (words.next(), words.next()) {
        (Some("GET"), Some("/metrics")) => match text() {
            Ok(text) => say(&mut client, "200 OK", &text),
            Err(why) => say(&mut client, "503 Service Unavailable", &format!("{why}\n")),
        },
        (Some("GET"), Some(_)) => say(&mut client, "404 Not Found", "GET /metrics\n"),
        _ => say(&mut client, "405 Method Not Allowed", "GET /metrics\n"),
    }
}

fn say(client: &mut TcpStream, status: &str, text: &str) -> std::io::Result<()> {
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        text.len()
    );
    client.write_all(head.as_bytes())?;
    client.write_all(text.as_bytes())
}
