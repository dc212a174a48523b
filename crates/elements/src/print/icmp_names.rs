//! Names of IP protocols and of ICMP types and codes, as Click writes them (RFC 792, RFC 950, RFC 1256, RFC 1812).

/// An IP protocol that has a name of its own in Click.
pub fn protocol(p: u8) -> Option<&'static str> {
    Some(match p {
        1 => "icmp",
        2 => "igmp",
        4 => "ipip",
        6 => "tcp",
        17 => "udp",
        33 => "dccp",
        47 => "gre",
        132 => "sctp",
        _ => return None,
    })
}

/// An ICMP type.
pub fn icmp_type(t: u8) -> Option<&'static str> {
    Some(match t {
        0 => "echo-reply",
        3 => "unreachable",
        4 => "sourcequench",
        5 => "redirect",
        8 => "echo",
        9 => "routeradvert",
        10 => "routersolicit",
        11 => "timeexceeded",
        12 => "parameterproblem",
        13 => "timestamp",
        14 => "timestamp-reply",
        15 => "inforeq",
        16 => "inforeq-reply",
        17 => "maskreq",
        18 => "maskreq-reply",
        _ => return None,
    })
}

/// An ICMP code of a type.
pub fn icmp_code(t: u8, code: u8) -> Option<&'static str> {
    const UNREACHABLE: [&str; 16] = [
        "net",
        "host",
        "protocol",
        "port",
        "needfrag",
        "srcroutefail",
        "netunknown",
        "hostunknown",
        "isolated",
        "netprohibited",
        "hostprohibited",
        "tosnet",
        "toshost",
        "filterprohibited",
        "hostprecedence",
        "precedencecutoff",
    ];
    let names: &[&'static str] = match t {
        3 => &UNREACHABLE,
        5 => &["net", "host", "tosnet", "toshost"],
        11 => &["transit", "reassembly"],
        12 => &["erroratptr", "missingopt", "length"],
        _ => &[],
    };
    names.get(usize::from(code)).copied()
}
