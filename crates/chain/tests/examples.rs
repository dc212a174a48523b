//! The example chains: every one loads, is built, has the form that the schema promises, and lets a packet through.

use crate::common;

use common::{Frame, build, chains, example, send};
use serde_json::Value;

const CLIENT: [u8; 4] = [10, 1, 0, 1];
const SERVER: [u8; 4] = [198, 18, 0, 80];

/// Chain, entry, a frame that passes, exit.
fn smoke() -> Vec<(String, &'static str, Frame, &'static str)> {
    let web = Frame::tcp(CLIENT, SERVER, 80, 2);
    let mut all = vec![
        ("napt-fw-lb".to_string(), "clients", web.clone(), "tcp"),
        (
            "napt-fw-lb".into(),
            "clients",
            Frame::udp(CLIENT, SERVER, 1234),
            "servers",
        ),
        // a rule that allows all of a prefix, and what comes back through the NAT is tested below
        (
            "isp-edge".into(),
            "lan",
            Frame::udp([204, 152, 184, 9], [167, 1, 2, 3], 9).with(|f| {
                f.proto = 1;
                f.sport = 0x0800;
                f.dport = 0;
            }),
            "wan",
        ),
        ("campus-dpi".into(), "campus", web.clone(), "internet"),
        ("router-nat-lb".into(), "clients", web.clone(), "servers"),
        ("ipv6-edge".into(), "lan", web.clone(), "wan"),
        ("office-fw".into(), "lan", web.clone(), "wan"),
        ("l2fwd".into(), "in", web.clone(), "out"),
        ("l3fwd".into(), "in", web.clone(), "out"),
        ("fw10".into(), "in", web.clone(), "out"),
        ("fw-l3fwd".into(), "in", web.clone(), "out"),
        ("fw-l3fwd-l2fwd".into(), "in", web.clone(), "out"),
        (
            "kitchen-sink".into(),
            "trunk",
            web.clone().with(|f| f.vlan = Some(42)),
            "servers",
        ),
    ];
    for n in 1..=10 {
        all.push((
            format!("routers-{n}"),
            "left",
            web.clone().with(|f| f.mac = [0, 1, 0]),
            "right",
        ));
        all.push((format!("napts-{n}"), "inside", web.clone(), "outside"));
    }
    all
}

#[test]
fn a_packet_passes_every_example() {
    let mut seen = std::collections::BTreeSet::new();
    for (name, entry, frame, exit) in smoke() {
        let chain = example(&name);
        let mut graph = build(&chain);
        let mut bytes = frame.bytes();
        if frame.proto == 1 {
            // an echo request: its checksum covers no pseudo header
            let icmp = &mut bytes[34..];
            icmp[2..4].fill(0);
            icmp[6..8].fill(0);
            let c = !onefold_packet::checksum::fold(onefold_packet::checksum::sum(icmp, 0));
            icmp[2..4].copy_from_slice(&c.to_be_bytes());
        }
        let out = send(&chain, &mut graph, entry, &[bytes]);
        let ports: Vec<&str> = out.iter().map(|o| o.0.as_str()).collect();
        assert_eq!(ports, [exit], "{name}: {:?}", graph.drops());
        let folder = name
            .rsplit_once('-')
            .filter(|(_, n)| n.parse::<u32>().is_ok());
        seen.insert(folder.map_or(name.clone(), |(b, _)| format!("{b}-N")));
    }
    let mut folders = std::collections::BTreeSet::new();
    for f in std::fs::read_dir(chains()).unwrap() {
        let f = f.unwrap();
        assert!(
            f.path().join("README.md").is_file(),
            "{:?} has no README.md",
            f.path()
        );
        folders.insert(f.file_name().to_string_lossy().into_owned());
    }
    assert_eq!(seen, folders, "every example is tried");
}

#[test]
fn answers_come_back_through_the_nat() {
    let chain = example("kitchen-sink");
    let mut graph = build(&chain);
    let ask = Frame::udp(CLIENT, [198, 18, 1, 1], 53).with(|f| f.vlan = Some(42));
    let out = send(&chain, &mut graph, "trunk", &[ask.bytes()]);
    let ip = &out[0].1[14..];
    assert_eq!(&ip[12..15], [203, 0, 113], "translated");
    let (nat, port) = (
        [ip[12], ip[13], ip[14], ip[15]],
        u16::from_be_bytes([ip[20], ip[21]]),
    );
    let answer = Frame::udp([198, 18, 1, 1], nat, port).with(|f| {
        f.sport = 53;
        f.mac = [0, 0, 7];
    });
    let back = send(&chain, &mut graph, "servers", &[answer.bytes()]);
    assert_eq!(back.len(), 1, "{:?}", graph.drops());
    assert_eq!(back[0].0, "trunk");
    // tagged again, to the client, to the port it asked from
    let f = &back[0].1;
    assert_eq!((f[12], f[13], f[15]), (0x81, 0, 42));
    assert_eq!(&f[18 + 16..18 + 20], CLIENT);
    assert_eq!(&f[18 + 22..18 + 24], 5000u16.to_be_bytes());
}

/// Servers that listen elsewhere, chosen by a hash of the source with weights: a client stays with its server, and each
/// has flows in proportion to its weight; answers have the port that was asked.
#[test]
fn balanced_servers_have_ports_and_weights() {
    let text = "functions:\n  lb:\n    load-balancer:\n      address: 198.18.0.80\n      policy: source-hash\n      \
                servers:\n        - { address: 172.16.3.1, port: 8080, weight: 3 }\n        - { address: 172.16.3.2 }\n\
                ports: { clients: \"lb[0]\", servers: \"lb[1]\" }\n";
    let dir = std::env::temp_dir().join(format!("onefold-lb-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let chain = common::load_in(&dir, text).unwrap();
    let mut graph = build(&chain);
    let mut first = 0;
    for n in 0..400u16 {
        let [a, b] = n.to_be_bytes();
        let client = [10, 7, a, b];
        let mut servers = std::collections::BTreeSet::new();
        for sport in [4000, 4001] {
            let ask = Frame::tcp(client, SERVER, 80, 2).with(|f| f.sport = sport);
            let out = send(&chain, &mut graph, "clients", &[ask.bytes()]);
            let ip = &out[0].1[14..];
            let to = (
                [ip[16], ip[17], ip[18], ip[19]],
                u16::from_be_bytes([ip[22], ip[23]]),
            );
            servers.insert(to);
            let answer = Frame::tcp(to.0, client, sport, 18).with(|f| f.sport = to.1);
            let back = send(&chain, &mut graph, "servers", &[answer.bytes()]);
            let ip = &back[0].1[14..];
            assert_eq!(
                (&ip[12..16], &ip[20..22]),
                (&SERVER[..], &80u16.to_be_bytes()[..])
            );
        }
        assert_eq!(servers.len(), 1, "{client:?}");
        match servers.pop_first().unwrap() {
            ([172, 16, 3, 1], 8080) => first += 1,
            to => assert_eq!(to, ([172, 16, 3, 2], 80)),
        }
    }
    assert!(
        (240..360).contains(&first),
        "{first} of 400, three quarters wanted"
    );
}

#[test]
fn the_campus_looks_into_payloads() {
    let chain = example("campus-dpi");
    let mut graph = build(&chain);
    let server = [10, 80, 0, 1];
    let web = |payload: &[u8]| {
        Frame::tcp([192, 0, 2, 1], server, 80, 16)
            .with(|f| f.payload = payload.to_vec())
            .bytes()
    };
    let mut ports = |payload: &[u8]| -> Vec<String> {
        send(&chain, &mut graph, "internet", &[web(payload)])
            .into_iter()
            .map(|o| o.0)
            .collect()
    };
    assert_eq!(ports(b"GET / HTTP/1.1"), ["campus"]);
    assert_eq!(ports(b"GET /a/../../etc/passwd"), Vec::<String>::new());
    assert_eq!(ports(b"GET /?q=1 UNION ALL select"), ["alerts", "campus"]);
    assert_eq!(ports(b"MZ\x90\x00"), ["alerts", "campus"]);
    assert_eq!(ports(b"..ONEFOLD-EVIL.."), Vec::<String>::new());
    let counts = graph.read_handler("dpi/down_dpi.counts").unwrap();
    assert!(counts.contains("sid 1000001: path traversal"), "{counts}");
}

/// Checks a value against the part of JSON Schema that our schema uses; anything else in a schema is a failure.
fn conforms(root: &Value, schema: &Value, v: &Value, at: &str) -> Result<(), String> {
    let Some(s) = schema.as_object() else {
        return match schema {
            Value::Bool(true) => Ok(()),
            _ => Err(format!("{at}: nothing is allowed here")),
        };
    };
    for (key, rule) in s {
        match key.as_str() {
            "$schema"
            | "title"
            | "description"
            | "default"
            | "$defs"
            | "format"
            | "required"
            | "additionalProperties" => {}
            "$ref" => {
                let path = rule
                    .as_str()
                    .and_then(|r| r.strip_prefix('#'))
                    .unwrap_or("");
                let target = root.pointer(path).ok_or(format!("{at}: no {rule}"))?;
                conforms(root, target, v, at)?;
            }
            "type" => {
                let is = |t: &Value| match t.as_str() {
                    Some("object") => v.is_object(),
                    Some("array") => v.is_array(),
                    Some("string") => v.is_string(),
                    Some("integer") => v.is_i64() || v.is_u64(),
                    Some("number") => v.is_number(),
                    Some("boolean") => v.is_boolean(),
                    Some("null") => v.is_null(),
                    _ => false,
                };
                let ok = rule
                    .as_array()
                    .map_or_else(|| is(rule), |a| a.iter().any(is));
                if !ok {
                    return Err(format!("{at}: expected {rule}, found {v}"));
                }
            }
            "anyOf" | "oneOf" => {
                let all = rule.as_array().cloned().unwrap_or_default();
                let fits = all
                    .iter()
                    .filter(|r| conforms(root, r, v, at).is_ok())
                    .count();
                if fits == 0 || (key == "oneOf" && fits > 1) {
                    return Err(format!(
                        "{at}: {fits} of {} alternatives fit {v}",
                        all.len()
                    ));
                }
            }
            "allOf" => {
                for r in rule.as_array().into_iter().flatten() {
                    conforms(root, r, v, at)?;
                }
            }
            "enum" => {
                if !rule.as_array().is_some_and(|a| a.contains(v)) {
                    return Err(format!("{at}: {v} is not one of {rule}"));
                }
            }
            "const" => {
                if rule != v {
                    return Err(format!("{at}: {v} is not {rule}"));
                }
            }
            "minimum" | "maximum" => {
                let (a, b) = (v.as_f64().unwrap_or(0.0), rule.as_f64().unwrap_or(0.0));
                if (key == "minimum" && a < b) || (key == "maximum" && a > b) {
                    return Err(format!("{at}: {v} is beyond the {key} {rule}"));
                }
            }
            "items" => {
                for (i, item) in v.as_array().into_iter().flatten().enumerate() {
                    conforms(root, rule, item, &format!("{at}/{i}"))?;
                }
            }
            "properties" => {}
            other => {
                return Err(format!(
                    "the schema uses '{other}', which this test does not know"
                ));
            }
        }
    }
    if let Some(o) = v.as_object() {
        let properties = s.get("properties").and_then(Value::as_object);
        for (k, value) in o {
            match (
                properties.and_then(|p| p.get(k)),
                s.get("additionalProperties"),
            ) {
                (Some(p), _) => conforms(root, p, value, &format!("{at}/{k}"))?,
                (None, Some(more)) => conforms(root, more, value, &format!("{at}/{k}"))?,
                (None, None) => {}
            }
        }
        for r in s
            .get("required")
            .and_then(Value::as_array)
            .into_iter()
            .flatten()
        {
            if !r.as_str().is_some_and(|r| o.contains_key(r)) {
                return Err(format!("{at}: {r} is missing"));
            }
        }
    }
    Ok(())
}

#[test]
fn examples_have_the_form_of_the_schema() {
    let schema = onefold_chain::schema();
    let mut n = 0;
    for f in std::fs::read_dir(chains()).unwrap() {
        let path = f.unwrap().path().join("chain.yaml");
        let text = std::fs::read_to_string(&path).unwrap();
        // parameters are substituted before the file is read
        let mut plain = text.replace("$(n)", "3").replace("$(vlan)", "42");
        for i in ["$(i)", "$(i-1)", "$(i+1)"] {
            plain = plain.replace(i, "1");
        }
        let v: Value = serde_saphyr::from_str(&plain).unwrap();
        conforms(&schema, &schema, &v, "").unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        n += 1;
        // and what has not is refused
        let bad: Value = serde_saphyr::from_str(&format!("{plain}\nlnks: []\n")).unwrap();
        assert!(conforms(&schema, &schema, &bad, "").is_err());
    }
    assert!(n >= 13, "{n}");
    for bad in [
        "functions: {}",
        "functions: { a: { vlan: { id: 70000 } } }\nports: {}",
        "functions: { a: { vlan: { id: x } } }\nports: {}",
        "functions: { a: { firewall: { default: maybe } } }\nports: {}",
        "functions: { a: { dpi: { patterns: [ { text: a } ] } } }\nports: {}",
        "functions: { a: { router: {} } }\nports: {}",
        "functions: []\nports: {}",
    ] {
        let v: Value = serde_saphyr::from_str(bad).unwrap();
        assert!(conforms(&schema, &schema, &v, "").is_err(), "{bad}");
    }
}
