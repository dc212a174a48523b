//! The control socket from outside.

use onefold_control::{
    Client, ClientError, Failure, Handler, Kind, MAX_CLIENTS, MAX_REQUEST, MetricsServer, Request,
    Server, SocketError, Stream, find, running,
};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::Duration;

fn folder(name: &str) -> PathBuf {
    let f = std::env::temp_dir().join(format!("onefold-control-{}-{name}", std::process::id()));
    let _ = std::fs::remove_dir_all(&f);
    f
}

fn echo(request: Request, stream: &mut Stream<'_>) -> Result<Value, Failure> {
    match request {
        Request::Status { rules, .. } => Ok(json!({ "rules": rules })),
        Request::Capture { count, .. } => {
            for n in 0..count {
                let _ = stream.send(&json!({ "packet": n }));
            }
            Ok(json!({ "packets": count }))
        }
        _ => Err(Failure::new(Kind::Unsupported, "not here")),
    }
}

fn server(name: &str) -> (Server, PathBuf) {
    let folder = folder(name);
    let mut s = Server::bind_name(&folder, "edge", false).unwrap();
    let handler: Arc<Handler> = Arc::new(echo);
    s.serve(handler).unwrap();
    (s, folder)
}

#[test]
fn requests_are_answered_and_failures_are_typed() {
    let (s, folder) = server("answers");
    let mode = std::fs::metadata(s.path()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let mut c = Client::connect(&find(&folder, None).unwrap(), None).unwrap();
    assert_eq!(
        c.ask(&Request::Status {
            rules: true,
            servers: false
        })
        .unwrap()["rules"],
        true
    );
    let failed = c.ask(&Request::Reload {
        chain: None,
        set: Vec::new(),
    });
    assert!(matches!(failed, Err(ClientError::Refused(f)) if f.kind == Kind::Unsupported));
    let capture: Request = serde_json::from_value(json!({
        "request": "capture", "matching": { "port": "lan" }, "count": 3
    }))
    .unwrap();
    let mut lines = 0;
    let end = c.ask_for(&capture, |v| {
        assert_eq!(v.unwrap()["packet"], lines);
        lines += 1;
        true
    });
    assert_eq!((lines, end.unwrap()["packets"].clone()), (3, json!(3)));
}

/// What is no request is answered with an error, and the connection goes on; what is too long ends it.
#[test]
fn hostile_clients_are_told_so_and_bounded() {
    let (s, _) = server("hostile");
    let mut c = UnixStream::connect(s.path()).unwrap();
    let mut lines = BufReader::new(c.try_clone().unwrap());
    let mut said = |c: &mut UnixStream, text: &[u8]| -> Value {
        c.write_all(text).unwrap();
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    };
    for text in [
        &b"{}\n"[..],
        b"\xff\xfe\n",
        b"{\"request\":\"status\",\"x\":1}\n",
        b"[[[[[\n",
    ] {
        let v = said(&mut c, text);
        assert_eq!(
            (v["ok"].clone(), v["error"]["kind"].clone()),
            (json!(false), json!("bad-request"))
        );
    }
    assert_eq!(said(&mut c, b"{\"request\":\"status\"}\n")["ok"], true);
    let long = vec![b' '; MAX_REQUEST + 1];
    assert_eq!(said(&mut c, &long)["error"]["kind"], "bad-request");
    let mut rest = Vec::new();
    let _ = c.read_to_end(&mut rest);
    assert!(rest.is_empty());
    let others: Vec<_> = (0..MAX_CLIENTS + 4)
        .map(|_| UnixStream::connect(s.path()).unwrap())
        .collect();
    let mut refused = 0;
    for mut o in others {
        o.set_read_timeout(Some(std::time::Duration::from_secs(5)))
            .unwrap();
        if o.write_all(b"{\"request\":\"status\"}\n").is_err() {
            refused += 1;
            continue;
        }
        let mut line = String::new();
        let got = BufReader::new(&o).read_line(&mut line);
        refused += usize::from(got.is_err() || line.is_empty() || line.contains("\"busy\""));
        std::mem::forget(o);
    }
    assert!(refused >= 4, "{refused}");
}

#[test]
fn a_name_is_taken_once_and_dead_sockets_are_replaced() {
    let (s, folder) = server("names");
    assert!(matches!(
        Server::bind_name(&folder, "edge", false),
        Err(SocketError::InUse(_))
    ));
    assert!(matches!(
        Server::bind_name(&folder, "../edge", false),
        Err(SocketError::Name(_))
    ));
    let mut other = Server::bind_name(&folder, "edge", true).unwrap();
    other.serve(Arc::new(echo)).unwrap();
    assert_eq!(other.name(), Some("edge-2"));
    let names = |f: &PathBuf| running(f).into_iter().map(|f| f.name).collect::<Vec<_>>();
    assert_eq!(names(&folder), ["edge", "edge-2"]);
    assert!(matches!(find(&folder, None), Err(SocketError::Several(all)) if all.len() == 2));
    drop(other);
    drop(s);
    assert!(matches!(find(&folder, None), Err(SocketError::None(_))));
    assert!(matches!(
        find(&folder, Some("edge")),
        Err(SocketError::Nobody(_))
    ));
    // what a process that was killed leaves
    let dead = folder.join("edge.sock");
    drop(std::os::unix::net::UnixListener::bind(&dead).unwrap());
    assert!(dead.exists());
    let again = Server::bind_name(&folder, "edge", false).unwrap();
    drop(again);
    std::fs::write(&dead, "a file").unwrap();
    assert!(matches!(
        Server::bind_name(&folder, "edge", false),
        Err(SocketError::NoSocket(_))
    ));
    std::fs::remove_dir_all(&folder).unwrap();
}

/// Where others may write, a socket may be anybody's.
#[test]
fn folders_that_others_may_write_to_are_refused() {
    let folder = folder("folders");
    std::fs::create_dir(&folder).unwrap();
    let mode = |m| std::fs::set_permissions(&folder, std::fs::Permissions::from_mode(m)).unwrap();
    mode(0o777);
    assert!(matches!(
        Server::bind_name(&folder, "edge", true),
        Err(SocketError::Folder(_))
    ));
    assert!(matches!(
        find(&folder, Some("edge")),
        Err(SocketError::Folder(_))
    ));
    mode(0o700);
    drop(Server::bind_name(&folder, "edge", true).unwrap());
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn metrics_are_served_and_nothing_else() {
    let s = MetricsServer::start(([127, 0, 0, 1], 0).into(), || Ok("x 1\n".to_string())).unwrap();
    let ask = |text: &str| {
        let mut c = TcpStream::connect(s.address()).unwrap();
        c.write_all(text.as_bytes()).unwrap();
        let mut said = String::new();
        let _ = c.read_to_string(&mut said);
        said
    };
    let said = ask("GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(
        said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n\r\nx 1\n"),
        "{said}"
    );
    assert!(ask("GET / HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404"));
    assert!(ask("POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405"));
    assert!(ask(&"x".repeat(17 << 10)).starts_with("HTTP/1.1 400"));
}

#[test]
fn a_server_ends_though_somebody_else_listens_at_its_path() {
    let (s, folder) = server("replaced");
    let path = s.path().to_path_buf();
    std::fs::remove_file(&path).unwrap();
    let other = UnixListener::bind(&path).unwrap();
    let (ended, end) = channel();
    std::thread::spawn(move || {
        drop(s);
        let _ = ended.send(());
    });
    let ended = end.recv_timeout(Duration::from_secs(60));
    assert!(ended.is_ok(), "it waits for a client");
    assert!(path.exists(), "what stands there is somebody else's");
    drop(other);
    let _ = std::fs::remove_dir_all(folder);
}
