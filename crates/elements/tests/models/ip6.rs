//! Plans of the family ip6.

use onefold_elements::model_check::check::{Plan, Subject};
use onefold_elements::model_check::samples::Layer;

pub fn plans() -> Vec<Plan> {
    let s = Subject::new;
    let ip6 = |l: Vec<Subject>| Plan::new(Layer::Ip6, l).packets(800);
    let filter = |c: &str| s("IP6Filter", c, 1, 2);
    vec![
        ip6(vec![
            s("CheckIP6Header", "", 1, 2),
            s("CheckIP6Header", "2001:db8::1 ::2, 0", 1, 1),
            s("CheckIP6Header", "PROCESS_EH true", 1, 2),
            s("CheckIP6Header", "2001:db8::/126 ff00::/8", 1, 2),
        ]),
        Plan::new(Layer::Any, vec![s("CheckIP6Header", ", 14", 1, 2)]),
        Plan::new(
            Layer::Any,
            vec![s("MarkIP6Header", "", 1, 1), s("MarkIP6Header", "14", 1, 1)],
        ),
        ip6(vec![s("DecIP6HLIM", "", 1, 1), s("DecIP6HLIM", "", 1, 2)]),
        ip6(vec![
            s("GetIP6Address", "24", 1, 1),
            s("GetIP6Address", "8", 1, 1),
            s("GetIP6Address", "60", 1, 1),
        ]),
        ip6(vec![s("SetIP6Address", "2001:db8::1", 1, 1)]),
        ip6(vec![
            s("SetIP6DSCP", "46", 1, 1),
            s("SetIP6DSCP", "5", 1, 1).write("dscp", "0"),
        ]),
        ip6(vec![s("IP6Mirror", "", 1, 1)]).plain_punts(1000),
        ip6(vec![s("IP6Encap", "udp, ::1, ::2", 1, 1)]).plain_punts(1000),
        ip6(prefixes()),
        ip6(vec![
            s("ICMP6PingResponder", "", 1, 1),
            s("ICMP6PingResponder", "2001:db8::1", 1, 2),
        ]),
        ip6(vec![s("ICMP6Error", "2001:db8::1, 3, 0", 1, 1)]).plain_punts(1000),
        ip6(vec![
            s("IP6Fragmenter", "100", 1, 1),
            s("IP6Fragmenter", "80", 1, 2),
        ]),
        ip6(vec![
            s(
                "LookupIP6Route",
                "2001:db8::/32 0, 2001:db8::1/128 fe80::1 1, 2001:db8::100/120 ::9 0, fe80::/10 1",
                1,
                2,
            ),
            s("LookupIP6Route", "ff00::/8 0, ::/0 2001::1 1", 1, 2)
                .write("add", "2001:db8::3/128 fe80::2 0")
                .write("remove", "ff00::/8"),
        ]),
        ip6(vec![
            filter(
                "deny src net 2001:db8::/64, allow tcp && dst port 80 or 443, 1 udp, allow icmp6 type 128, deny all",
            ),
            filter(
                "allow src host 2001:db8::1 and dst net fe80::/10, 1 not (tcp or udp), deny src or dst host 2001:db8::2, allow",
            ),
            filter("allow tcp opt syn, 1 tcp opt ack and not tcp opt fin, deny port > 1024"),
            filter("allow ip hlim < 65, 1 ip tclass >= 16, allow ip frag, deny true"),
            filter(
                "allow tcp[13:1] & 18 == 2, 1 udp[0:2] & 15 > 7, allow ip[6:1] != 17, allow icmp6[0:1] == 128",
            ),
            filter(
                "allow src and dst net 2001:db8::/32, 1 ip proto 47, allow src udp port <= 1024, allow ip[0:4] & 0x0fffffff != 0",
            ),
            filter("1 ip unfrag && dst port != 80, allow all"),
        ]),
        ip6(vec![
            filter("allow tcp[0:2] & 0xff00 > 256, deny all"),
            filter(
                "deny udp && src port < 1000, allow udp && udp[0:2] & 0xff00 > 256, 1 udp, allow not (tcp[0:2] & 0xff00 > 256 \
                 or dst port 80), deny tcp[300:1] == 3, 1 tcp",
            ),
        ]),
    ]
}

/// IP6PrefixTranslate: prefixes of which the subnet, or a word behind it, makes up for the change.
fn prefixes() -> Vec<Subject> {
    let s = |config: &str, outputs| Subject::new("IP6PrefixTranslate", config, 1, outputs);
    vec![
        s("SOURCE, 2001:db8::/48 fd01:203:405::/48", 1),
        s("SOURCE, 2001:db8::/48 fd01:203:405::/48", 2),
        s(
            "DESTINATION, 2001:db8::/61 fd01:203:405:100::/61, 2001:db8::/32 3fff:1::/32",
            2,
        ),
        s("DESTINATION, 2001:db8::/40 2001:db8::/40", 1),
        s("SOURCE, 2001:db8::/32 fd00:1::/64", 2),
        s("SOURCE, 2001:db8::/48 fd01:203:405::/48, NETFILTER true", 1),
        s(
            "DESTINATION, fd00::/20 2001:db8:0:8::/61, NETFILTER true",
            1,
        ),
    ]
}
