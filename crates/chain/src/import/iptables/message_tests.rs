//! What is said of rules that are not understood.

use super::tests::wrong;
use super::{Request, parse};
use crate::import::chains::Interfaces;
use crate::import::rule::Traffic;
use crate::import::terms::Family;

#[test]
fn messages_begin_with_what_is_wrong() {
    for (rule, said) in [
        (
            "-s 10.0.0.0/33 -j DROP",
            "`10.0.0.0/33`: a prefix is at most 32 bits long",
        ),
        (
            "-p tpc --dport 80 -j DROP",
            "`tpc` is no protocol; did you mean 'tcp'?",
        ),
        (
            "-p tcp --dport 70000 -j DROP",
            "`70000`: a port is at most 65535",
        ),
        (
            "-p tcp --dport htpp -j DROP",
            "`htpp` is no port or service; did you mean 'http'?",
        ),
        (
            "-p tcp --dprot 80 -j DROP",
            "option '--dprot' is not supported; did you mean '--dport' or '--dports'?",
        ),
        (
            "-m state --state ESTABLISHD -j DROP",
            "connection state 'ESTABLISHD' is not supported; did you mean 'ESTABLISHED'?",
        ),
        (
            "-m multiprot --dports 1 -j DROP",
            "match 'multiprot' is not supported; did you mean 'multiport'?",
        ),
        (
            "-p tcp --tcp-flags SNY ACK -j DROP",
            "`SNY` is no TCP flag; did you mean 'SYN'?",
        ),
        (
            "-p icmp --icmp-type echo-reqest -j DROP",
            "`echo-reqest` is no ICMP type; did you mean 'echo-request' or 'info-request'?",
        ),
        (
            "-p tcp -j ACEPT",
            "there is no chain 'ACEPT'; did you mean 'ACCEPT'?",
        ),
    ] {
        assert_eq!(wrong(rule), said, "{rule}");
    }
}

/// All of them are said, each at the word that it is about.
#[test]
fn all_that_is_wrong_is_said_at_once() {
    let rules = "*filter\n:FORWARD DROP [0:0]\n-A FORWARD -p tcp -j ACEPT\n-A FORWARD -s 10.0.0.0/33 -j DROP\n\
                 -A FORWARD -p tpc -j DROP\nCOMMIT\n";
    let chain = "functions:\n  fw: { firewall: { rules-file: RULES } }\nports: { a: 'fw[0]', b: 'fw[1]' }\n";
    let dir = std::env::temp_dir().join(format!("onefold-messages-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    std::fs::write(dir.join("x.rules"), rules).unwrap();
    let chain = chain.replace("RULES", "x.rules");
    let read = crate::load_text(&chain, "chain.yaml", &[], &mut crate::Reader::new(&dir));
    std::fs::remove_dir_all(&dir).unwrap();
    let Err(crate::ChainError::Invalid(all)) = read else {
        panic!("it is wrong");
    };
    let told: Vec<String> = all.iter().map(|d| d.render(false)).collect();
    for (said, at) in [
        (
            "there is no chain 'ACEPT'; did you mean 'ACCEPT'?",
            "x.rules:3:22",
        ),
        (
            "`10.0.0.0/33`: a prefix is at most 32 bits long",
            "x.rules:4:15",
        ),
        ("`tpc` is no protocol; did you mean 'tcp'?", "x.rules:5:15"),
    ] {
        let is = |t: &&String| t.contains(said) && t.contains(at);
        assert!(told.iter().any(|t| is(&t)), "{said} {at}: {told:#?}");
    }
}

/// Prefixes without connections, and connections that are translated: one of both.
#[test]
fn prefixes_beside_a_table_nat_are_refused() {
    let interfaces = Interfaces {
        inside: Some("lan0".into()),
        outside: Some("wan0".into()),
        ..Interfaces::default()
    };
    let request = Request {
        family: Family::V6,
        chain: None,
        interfaces: &interfaces,
        host: false,
        traffic: Traffic::Forwarded,
    };
    let read = |more: &str| {
        let text = format!(
            "*mangle\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -s fd00::/48 -o wan0 -j SNPT --src-pfx fd00::/48 \
             --dst-pfx 2001:db8::/48\nCOMMIT\n{more}*filter\n:FORWARD DROP [0:0]\n-A FORWARD -m conntrack --ctstate \
             ESTABLISHED -j ACCEPT\n-A FORWARD -j ACCEPT\nCOMMIT\n"
        );
        parse(&text, &request)
    };
    assert!(read("").is_ok());
    let nat = "*nat\n:POSTROUTING ACCEPT [0:0]\n-A POSTROUTING -o wan0 -j MASQUERADE\nCOMMIT\n";
    let e = read(nat).unwrap_err();
    assert!(
        e[0].0 == 3 && e[0].1.contains("beside a table nat"),
        "{e:?}"
    );
}
