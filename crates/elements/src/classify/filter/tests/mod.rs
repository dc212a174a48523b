//! The language, by example.

use super::*;
use onefold_element::NameDb;
use onefold_element::args::ArgScope;

mod props;
mod six;

fn scope() -> ArgScope<'static> {
    ArgScope {
        names: NameDb::builtin(),
        element: "",
        elements: &[],
    }
}

fn parse(text: &str) -> Expr {
    match parse_pattern(text, &scope()) {
        Ok(p) => p.expr,
        Err(e) => panic!("{text}: {e} {:?}", e.hint),
    }
}

fn error(text: &str) -> String {
    match parse_pattern(text, &scope()) {
        Ok(p) => panic!("{text} was read as {}", p.expr),
        Err(e) => {
            assert!(
                e.span.start <= e.span.end && e.span.end as usize <= text.len(),
                "{text}: {:?}",
                e.span
            );
            match e.hint {
                Some(ref h) => format!("{e} ({h})"),
                None => e.to_string(),
            }
        }
    }
}

/// A name may stand for an address and for a network: what is asked for decides.
#[test]
fn a_name_is_an_address_or_a_network() {
    let mut names = NameDb::default();
    let d = names.define("", "inside");
    d.ip4 = Some([10, 0, 0, 1]);
    d.ip4_prefix = Some(([10, 0, 0, 0], [255, 0, 0, 0]));
    names.define("", "only").ip4_prefix = Some(([172, 16, 0, 0], [255, 240, 0, 0]));
    let scope = ArgScope {
        names: &names,
        ..scope()
    };
    let read = |t: &str| bare(parse_pattern(t, &scope).unwrap().expr);
    for (named, plain) in [
        ("dst net inside", "dst net 10.0.0.0/8"),
        ("dst host inside", "dst host 10.0.0.1"),
        ("src inside", "src host 10.0.0.1"),
        ("net only", "net 172.16.0.0/12"),
        ("src only", "src net 172.16.0.0/12"),
    ] {
        assert_eq!(read(named), bare(parse(plain)), "{named}");
    }
}

/// Removes the places, so that trees from different texts can be compared.
fn bare(mut e: Expr) -> Expr {
    fn clear(e: &mut Expr) {
        match e {
            Expr::Const(_) => {}
            Expr::Test(t) => t.span = Span::default(),
            Expr::All(v) | Expr::Any(v) => v.iter_mut().for_each(clear),
            Expr::Not(e) => clear(e),
            Expr::Choose { cases, otherwise } => {
                cases.iter_mut().for_each(|(c, v)| {
                    clear(c);
                    clear(v);
                });
                clear(otherwise);
            }
        }
    }
    clear(&mut e);
    e
}

/// A packet as the predicates see it.
#[derive(Debug, Clone)]
struct Model {
    src: u32,
    dst: u32,
    proto: u8,
    tos: u8,
    id: u16,
    ttl: u8,
    /// Flags and fragment offset.
    frag: u16,
    /// The transport header as far as it is there.
    transport: Vec<u8>,
    options: bool,
    mac: [u8; 12],
}

impl Model {
    fn ip_header(&self) -> Vec<u8> {
        let hl = if self.options { 6 } else { 5 };
        let mut h = vec![0x40 | hl, self.tos, 0, 0];
        h.extend(self.id.to_be_bytes());
        h.extend(self.frag.to_be_bytes());
        h.extend([self.ttl, self.proto, 0, 0]);
        h.extend(self.src.to_be_bytes());
        h.extend(self.dst.to_be_bytes());
        if self.options {
            h.extend([1, 1, 1, 0]);
        }
        let len = h.len() + self.transport.len();
        h[2..4].copy_from_slice(&(len as u16).to_be_bytes());
        h
    }
    fn bytes(&self) -> (Vec<u8>, usize) {
        let mut b = self.ip_header();
        let n = b.len();
        b.extend(&self.transport);
        (b, n)
    }
    fn first(&self) -> bool {
        self.frag & 0x1fff == 0
    }
    fn u16_at(&self, at: usize) -> Option<u32> {
        let b = self.transport.get(at..at + 2)?;
        Some(u32::from(b[0]) << 8 | u32::from(b[1]))
    }
}

/// Runs `f` on the view of a model.
fn on<T>(m: &Model, f: impl Fn(&View<'_>) -> T) -> T {
    let (b, n) = m.bytes();
    f(&View {
        net: &b,
        transport: &b[n..],
        mac: &m.mac,
        net6: &[],
    })
}

fn plain(proto: u8, sport: u16, dport: u16) -> Model {
    let mut transport = vec![0; 20];
    transport[..2].copy_from_slice(&sport.to_be_bytes());
    transport[2..4].copy_from_slice(&dport.to_be_bytes());
    Model {
        src: 0x0a00_0001,
        dst: 0x0a00_0002,
        proto,
        tos: 0,
        id: 7,
        ttl: 64,
        frag: 0,
        transport,
        options: false,
        mac: [0; 12],
    }
}

fn matches(text: &str, m: &Model) -> bool {
    let e = parse(text);
    on(m, |v| e.matches(v))
}

#[test]
fn documented_primitives() {
    let mut m = plain(6, 80, 5000);
    m.transport[13] = 0x12; // syn ack
    m.transport[14] = 1; // window 256
    let yes = [
        "ip proto tcp",
        "ip proto 6",
        "tcp",
        "host 10.0.0.1",
        "src host 10.0.0.1",
        "dst host 10.0.0.2",
        "src or dst host 10.0.0.2",
        "net 10.0.0.0/8",
        "src and dst net 10.0.0.0 mask 255.255.255.0",
        "src tcp port 80",
        "tcp src port www",
        "port http",
        "ip vers 4",
        "ip hl 5",
        "ip id 7",
        "ip tos 0",
        "ip dscp 0",
        "ip ttl 64",
        "ip unfrag",
        "not ip frag",
        "unfrag",
        "tcp opt syn",
        "tcp opt ack",
        "syn and ack",
        "syn ack",
        "tcp win 256",
        "ip[9] 6",
        "ip[9:1] = 6",
        "ip[12:4] == 167772161",
        "transp[0:2] 80",
        "tcp[13] & 2 != 0",
        "true",
        "10.0.0.1",
        "10.0.0.0/24",
        "src port 80 or 81",
        "src port 81 or 80",
        "src 10.0.0.9 or 10.0.0.1",
        "dst port > 1023",
        "dst port >= 5000",
        "dst port <= 5000",
        "dst port < 5001",
        "src port != 81",
        "dst tcp port & 0xf000 == 0x1000",
        "tcp ? src port 80 : false",
        "udp ? false : icmp ? false : tcp",
        "!udp",
        "! ! tcp",
        "not (udp or icmp)",
        "(dst port www or src port www) and tcp opt syn",
        "ip len 40",
        "tcpudp",
        "src & 255.0.0.0 == 10.0.0.0",
        "src & 0xff000000 == 10.0.0.0",
    ];
    for t in yes {
        assert!(matches(t, &m), "{t}");
    }
    let no = [
        "udp",
        "src 10.0.0.2",
        "src port 81",
        "tcp opt fin",
        "fin",
        "ip frag",
        "ip ect",
        "ip ce",
        "icmp type echo",
        "false",
        "src and dst host 10.0.0.1",
        "src port 80 and not tcp",
        "ip proto != 6",
        "dst port != 5000",
        "dst port > 5000",
        "port != 80",
        "src and dst port 80",
        "tcp ? false : true",
        "udp port 80",
        "ip[6:2] & 0x2000 == 0x2000",
    ];
    for t in no {
        assert!(!matches(t, &m), "{t}");
    }
    m.tos = 2;
    assert!(matches("ip ect", &m) && matches("ip ect 2", &m) && !matches("ip ce", &m));
    m.tos = 3;
    assert!(matches("ce", &m));
    m.tos = 0xb8;
    assert!(matches("ip dscp 46", &m) && matches("ip dscp > 45", &m));
    let mut p = plain(1, 0, 0);
    p.transport[0] = 8;
    assert!(matches("icmp type echo", &p) && matches("icmp echo", &p) && matches("icmp[0] 8", &p));
    assert!(matches("icmp type > 7", &p) && !matches("icmp type != echo", &p));
    p.mac = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12];
    assert!(matches("ether host 1:2:3:4:5:6", &p) && matches("ether src 7:8:9:a:b:c", &p));
    assert!(matches("01-02-03-04-05-06", &p) && !matches("ether dst host 7:8:9:a:b:c", &p));
    assert!(
        matches("ether host != 1:2:3:4:5:7", &p)
            && !matches("ether src and dst host 1:2:3:4:5:6", &p)
    );
    assert!(matches("ether src & ff:0:0:0:0:0 == 7:0:0:0:0:0", &p));
    assert!(matches("ether src 1:1:1:1:1:1 or 7:8:9:a:b:c", &p));
}

/// `port != 80` wants a port that is not 80; `not port 80` is also true where there is no port.
#[test]
fn negated_relation_and_negation() {
    let udp = plain(17, 53, 53);
    assert!(matches("src port != 80", &udp) && matches("not src port 80", &udp));
    let icmp = plain(1, 80, 80);
    assert!(!matches("src port != 80", &icmp) && matches("not src port 80", &icmp));
    let mut later = plain(17, 53, 53);
    later.frag = 0x2001;
    assert!(
        !matches("src port != 80", &later)
            && !matches("src port 53", &later)
            && matches("not src port 53", &later)
    );
    assert!(matches("udp", &later) && matches("ip frag", &later));
    let mut short = plain(17, 53, 53);
    short.transport.truncate(2);
    assert!(
        matches("src port 53", &short)
            && !matches("dst port 53", &short)
            && !matches("dst port != 53", &short)
    );
    assert!(
        matches("port 53", &short)
            && !matches("port != 80", &short)
            && matches("src and dst port != 80", &short)
    );
    assert!(!matches("dst port <= 65534", &short) && matches("not dst port <= 65534", &short));
}

#[test]
fn errors_name_the_word_and_help() {
    assert_eq!(
        error("prot tcp"),
        "unknown word 'prot' (did you mean 'proto'?)"
    );
    assert_eq!(error("tcp and"), "expected an expression at the end");
    assert_eq!(error("tcp xyzzy"), "unknown word 'xyzzy'");
    assert_eq!(error("(tcp"), "expected ')' at the end");
    assert_eq!(error("tcp)"), "')' after the end of the expression");
    assert_eq!(
        error("90"),
        "expected a field or 'port' before the number (a bare number repeats the test before it: 'port 80 or 90')"
    );
    assert_eq!(error("port 80 && 1.2.3.4 or 90"), error("90"));
    assert_eq!(
        error("echo"),
        "'echo' is ambiguous (try 'port echo' or 'icmp type echo')"
    );
    assert_eq!(
        error("src host www"),
        "'www' makes no sense here (try 'port www')"
    );
    assert_eq!(
        error("port 70000"),
        "'port': 70000 out of range, 0 to 65535"
    );
    assert_eq!(
        error("ip ttl & 0x100 1"),
        "'ip ttl': 256 out of range, 0 to 255"
    );
    assert_eq!(
        error("port & 0 1"),
        "mask: 0 out of range, it must have a bit set"
    );
    assert_eq!(error("host"), "'host': an address missing");
    assert_eq!(
        error("net 1.2.3.4"),
        "'net': a network (such as 10.0.0.0/8) missing"
    );
    assert_eq!(
        error("src host > 1.2.3.4"),
        "'src host': takes no such operator"
    );
    assert_eq!(error("tcp udp"), "protocol given twice");
    assert_eq!(error("src dst port 1"), "'src' or 'dst' given twice");
    assert_eq!(
        error("ip[2:3] 1"),
        "bad field '[2:3]': it must lie within one aligned group of four bytes"
    );
    assert_eq!(
        error("ip[a] 1"),
        "bad field '[a]': expected [POS], [POS:LEN] or [POS,LAST], in bytes"
    );
    assert_eq!(
        error("tcp ? udp"),
        "expected ':' at the end (the ':' of 'a ? b : c' needs spaces around it)"
    );
    assert_eq!(
        error("icmp port 3").split(" (").next(),
        Some("'port': takes no such protocol")
    );
    assert_eq!(
        error("transp"),
        "'proto': a field, as in transp[0:2], missing"
    );
    assert_eq!(error(""), "empty pattern");
    assert_eq!(
        error("src port 80-90").split(" (").next(),
        Some("'src port': a port missing")
    );
    let deep = "(".repeat(20_000);
    assert_eq!(error(&deep), "nested more than 100 deep");
    let odd = format!("{}tcp", "! ".repeat(20_001));
    assert!(matches(&odd, &plain(17, 1, 1)) && !matches(&odd, &plain(6, 1, 1)));
}

/// Found by fuzzing: a field test of the protocol is not the condition `ip proto N`, though it means the same.
#[test]
fn text_of_the_protocol_field() {
    for t in [
        "ip[9] 0",
        "ip[9:1] == 6",
        "ip proto != 6",
        "ip[9] > 5",
        "ip proto 6",
        "tcp ip ttl 3",
    ] {
        let e = bare(parse(t));
        assert_eq!(bare(parse(&e.to_string())), e, "{t}");
    }
}

#[test]
fn rules_and_actions() {
    let r = |t, n| {
        parse_rule(t, n, &scope())
            .map(|(a, p)| (a, bare(p.expr)))
            .map_err(|e| e.to_string())
    };
    assert_eq!(r("allow", 1), Ok((Action::Output(0), Expr::Const(true))));
    assert_eq!(r("deny all", 0), Ok((Action::Drop, Expr::Const(true))));
    assert_eq!(r("drop -", 0), r("deny any", 0));
    assert_eq!(r("2 tcp", 3).unwrap().0, Action::Output(2));
    assert_eq!(
        r("3 tcp", 3).unwrap_err(),
        "output 3 out of range, the element has 3"
    );
    assert_eq!(
        r("allow tcp", 0).unwrap_err(),
        "output allow out of range, the element has 0"
    );
    assert_eq!(
        r("tcp", 1).unwrap_err(),
        "unknown action 'tcp', expected allow, deny, drop or an output number"
    );
    assert_eq!(r("", 1).unwrap_err(), "empty pattern");
    let w = parse_pattern("port > 70000 or src tcp", &scope())
        .unwrap()
        .warnings;
    let w: Vec<String> = w.iter().map(ToString::to_string).collect();
    assert_eq!(
        w,
        [
            "'port': the relation is always false (the field is 0 to 65535)",
            "'src proto': 'src' or 'dst' has no meaning here"
        ]
    );
}
