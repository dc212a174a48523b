//! Plans of the family routing.

use onefold_elements::model_check::check::{Plan, Subject};
use onefold_elements::model_check::samples::Layer;

const ROUTES: &str = "10.1.0.0/16 0, 10.1.2.0/24 10.0.0.9 1, 10.1.2.3/32 2, 10.1.2.4/30 - 0, 0.0.0.0/0 192.168.0.1 1";
const FEW: &str = "10.1.2.0/24 10.1.2.9 1, 10.0.0.0/8 0, 192.168.0.0/16 1.2.3.4 2, 172.16.0.0/12 2";

/// So many routes that they are grouped by next hop.
fn many() -> String {
    let routes: Vec<String> = (0..1200u32)
        .map(|i| {
            let (a, b) = (10 + i % 3, i / 3 % 256);
            let len = 16 + i % 9;
            format!("{a}.{b}.{}.0/{len} 10.0.0.{} {}", i % 7 * 32, i % 4, i % 3)
        })
        .collect();
    routes.join(", ")
}

fn lookups() -> Vec<Plan> {
    let class = |c: &str, handlers: bool| {
        let mut all = vec![
            Subject::new(c, ROUTES, 1, 3),
            Subject::new(c, FEW, 1, 3).silent(),
            Subject {
                origins: false,
                ..Subject::new(c, &many(), 1, 3).silent()
            },
        ];
        if handlers {
            let s = Subject::new(c, FEW, 1, 3).silent();
            let s = s.write("add", "10.1.2.3/32 10.1.2.4 0");
            all.push(s.write("remove", "10.0.0.0/8"));
        }
        Plan::new(Layer::Ip4, all)
    };
    let odd = Subject::new("LinearIPLookup", "10.0.2.0/255.0.255.0 1, 0/0 0", 1, 2);
    vec![
        class("StaticIPLookup", false),
        class("LookupIPRouteMP", false),
        class("LinearIPLookup", true),
        class("SortedIPLookup", false),
        class("RadixIPLookup", true),
        class("DirectIPLookup", true),
        class("RangeIPLookup", true),
        Plan::new(Layer::Ip4, vec![odd]).plain_punts(1000),
    ]
}

fn hops() -> Vec<Plan> {
    let s = Subject::new;
    let ip = |l: Vec<Subject>| Plan::new(Layer::Ip4, l);
    vec![
        ip(vec![
            s("DropBroadcasts", "", 1, 1),
            s("DropBroadcasts", "", 1, 2),
        ]),
        ip(vec![
            s("DecIPTTL", "", 1, 1).write("active", "false"),
            s("DecIPTTL", "", 1, 2),
            s("DecIPTTL", "MULTICAST false", 1, 2),
            s("DecIPTTL", "ACTIVE false", 1, 2).write("active", "true"),
        ]),
        ip(vec![s("FixIPSrc", "1.2.3.4", 1, 1)]),
        ip(vec![
            s("IPGWOptions", "1.2.3.4", 1, 2),
            s("IPGWOptions", "1.2.3.4, 10.0.0.1", 1, 1),
        ]),
        ip(vec![
            s("IPFragmenter", "1500", 1, 1),
            s("IPFragmenter", "100", 1, 2),
            s("IPFragmenter", "68, false", 1, 2),
        ])
        .plain_punts(300),
        // one in so many has the colour
        ip(vec![
            s("IPOutputCombo", "2, 1.2.3.4, 1500", 1, 5),
            s("IPOutputCombo", "200, 1.2.3.4, 60", 1, 5),
        ])
        .plain_punts(300),
        Plan::new(
            Layer::Ether,
            vec![
                s("IPInputCombo", "7", 1, 1),
                s(
                    "IPInputCombo",
                    "7, INTERFACES 10.0.0.1/24 10.1.0.1/16",
                    1,
                    1,
                ),
                s(
                    "IPInputCombo",
                    "1, BADSRC 10.0.0.1 10.1.2.3, GOODDST 10.0.0.2",
                    1,
                    1,
                ),
            ],
        )
        .packets(800),
    ]
}

pub fn plans() -> Vec<Plan> {
    let s = Subject::new;
    let ip = |l: Vec<Subject>| Plan::new(Layer::Ip4, l);
    let ether = |l: Vec<Subject>| Plan::new(Layer::Ether, l);
    let mut all = lookups();
    all.extend(hops());
    all.extend([
        Plan::new(
            Layer::Any,
            vec![
                s("GetIPAddress", "16", 1, 1),
                s("GetIPAddress", "30, 20", 1, 1),
                s("GetIPAddress", "IP src", 1, 1),
                s("GetIPAddress", "IP dst, ANNO 4", 1, 1),
                s("GetIPAddress", "1480", 1, 1),
            ],
        ),
        Plan::new(
            Layer::Any,
            vec![
                s("SetIPAddress", "1.2.3.4", 1, 1).write("addr", "5.6.7.8"),
                s("SetIPAddress", "1.2.3.4, ANNO 8", 1, 1),
            ],
        ),
        Plan::new(
            Layer::Ip4,
            vec![
                s("StoreIPAddress", "1.2.3.4, src", 1, 1),
                s("StoreIPAddress", "1.2.3.4, dst", 1, 2),
                s("StoreIPAddress", "src", 1, 2),
                s("StoreIPAddress", "dst", 1, 1),
                s("StoreIPAddress", "16", 1, 2),
                s("StoreIPAddress", "9.8.7.6, 33", 1, 2),
                s("StoreIPAddress", "41", 1, 1),
            ],
        )
        // a zero annotation
        .plain_punts(150),
        ip(vec![s("IPReassembler", "", 1, 1), s("IPReassembler", "HIMEM 1000", 1, 2)]),
        ip(vec![s("ICMPPingResponder", "", 1, 1), s("ICMPPingResponder", "CHECKSUM true", 1, 2)]),
        ip(vec![s("ICMPError", "1.2.3.4, timeexceeded", 1, 1)]).plain_punts(1000),
        ether(vec![
            s("ARPResponder", "10.0.0.1 00:01:02:03:04:05", 1, 1),
            s("ARPResponder", "10.0.0.1 00:01:02:03:04:05, 10.1.0.0/16 192.168.0.0/255.255.0.255 00:01:02:03:04:06", 1, 2)
                .write("add", "172.16.0.0/12 00:01:02:03:04:07")
                .write("remove", "10.0.0.1"),
        ])
        .packets(1200),
    ]);
    all
}
