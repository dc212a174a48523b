//! The thread, over loopback.

use super::*;
use onefold_chain::Probe;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, channel};

/// Longest time for what takes a moment.
const PATIENCE: Duration = Duration::from_secs(60);

fn plan(servers: &[u16], probe: bool, file: Option<PathBuf>) -> HealthPlan {
    HealthPlan {
        function: "lb".into(),
        mapper: "lb/servers".into(),
        servers: servers
            .iter()
            .map(|port| HealthServer {
                address: Ipv4Addr::LOCALHOST.into(),
                port: Some(*port),
            })
            .collect(),
        file,
        probe: probe.then_some(Probe {
            port: None,
            interval: Duration::from_millis(40),
            timeout: Duration::from_millis(40),
            rise: 2,
            fall: 3,
        }),
    }
}

fn start(plans: Vec<HealthPlan>) -> (Health, Receiver<String>) {
    let (send, heard) = channel();
    let tell = move |element: &str, down: &str| {
        assert_eq!(element, "lb/servers");
        send.send(down.to_string()).is_ok()
    };
    (Health::start(plans, Box::new(tell)).unwrap(), heard)
}

fn next(heard: &Receiver<String>) -> String {
    heard.recv_timeout(PATIENCE).expect("it is told")
}

#[test]
fn a_listener_goes_away_and_comes_back() {
    let listen = |port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).unwrap();
    let (stays, goes) = (listen(0), listen(0));
    let port = |l: &TcpListener| l.local_addr().unwrap().port();
    let (a, b) = (port(&stays), port(&goes));
    let plans = vec![plan(&[a, b], true, None)];
    let (health, heard) = start(plans.clone());
    assert_eq!(next(&heard), "", "all are up");
    assert!(heard.recv_timeout(Duration::from_millis(300)).is_err());
    drop(goes);
    assert_eq!(next(&heard), format!("127.0.0.1:{b}"));
    // a new graph is told before it takes packets, and again
    let shared = health.shared();
    let known = vec![("lb/servers".to_string(), format!("127.0.0.1:{b}"))];
    assert_eq!(shared.known(&plans), known);
    shared.watch(plans.clone());
    assert_eq!(next(&heard), format!("127.0.0.1:{b}"));
    let _back = listen(b);
    assert_eq!(next(&heard), "");
    // whom nobody watches any more is up
    shared.watch(Vec::new());
    assert_eq!(shared.known(&plans), []);
    drop(health);
    assert!(heard.recv().is_err(), "the thread has ended");
}

#[test]
fn a_file_says_who_is_down() {
    let path = std::env::temp_dir().join(format!("onefold-health-said-{}", std::process::id()));
    let _ = std::fs::remove_file(&path);
    let write = |text: &str| {
        let new = path.with_extension("new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(&new, &path).unwrap();
    };
    let (health, heard) = start(vec![plan(&[80, 81], false, Some(path.clone()))]);
    assert_eq!(next(&heard), "", "there is no file yet");
    write("127.0.0.1:81 down\n");
    assert_eq!(next(&heard), "127.0.0.1:81");
    write("127.0.0.1:80 down\n127.0.0.1:81 do");
    write("127.0.0.1 down\n");
    assert_eq!(next(&heard), "127.0.0.1:80 127.0.0.1:81");
    // what is not understood, or not there, changes nothing
    write("127.0.0.1 dow\n");
    assert!(heard.recv_timeout(FILES * 2).is_err());
    std::fs::remove_file(&path).unwrap();
    assert!(heard.recv_timeout(FILES * 2).is_err());
    write("");
    assert_eq!(next(&heard), "");
    drop(health);
    std::fs::remove_file(&path).unwrap();
}

#[test]
fn who_does_not_hear_is_told_again() {
    let path = std::env::temp_dir().join(format!("onefold-health-again-{}", std::process::id()));
    std::fs::write(&path, "127.0.0.1:80 down\n").unwrap();
    let (send, heard) = channel();
    let times = AtomicU32::new(0);
    let tell = move |_: &str, down: &str| {
        send.send(down.to_string()).unwrap();
        times.fetch_add(1, Ordering::Relaxed) == 2
    };
    let plans = vec![plan(&[80], false, Some(path.clone()))];
    let _health = Health::start(plans, Box::new(tell)).unwrap();
    for _ in 0..3 {
        assert_eq!(next(&heard), "127.0.0.1:80");
    }
    assert!(heard.recv_timeout(FILES * 2).is_err());
    std::fs::remove_file(&path).unwrap();
}
