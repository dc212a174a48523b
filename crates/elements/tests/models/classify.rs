//! Plans of the family classify.

use onefold_element::model::rng::Rng;
use onefold_elements::model_check::check::{Plan, Subject};
use onefold_elements::model_check::samples::Layer;

/// Outputs of a classifier are as many as its arguments.
fn classifier(class: &str, patterns: &[&str]) -> Subject {
    Subject::new(class, &patterns.join(", "), 1, patterns.len())
}

pub fn plans() -> Vec<Plan> {
    let mut all = vec![
        Plan::new(
            Layer::Any,
            vec![
                Subject::new("CheckLength", "60", 1, 1),
                Subject::new("CheckLength", "100", 1, 2).write("length", "70"),
            ],
        ),
        Plan::new(
            Layer::Any,
            vec![Subject::new("CheckLength", "60, EXTRA_LENGTH true", 1, 2)],
        )
        .plain_punts(700),
        Plan::new(
            Layer::Any,
            vec![
                Subject::new("CheckPaint", "2", 1, 1),
                Subject::new("CheckPaint", "3, 17", 1, 2).write("color", "4"),
            ],
        ),
        Plan::new(
            Layer::Any,
            vec![
                Subject::new("PaintSwitch", "", 1, 3),
                Subject::new("PaintSwitch", "17", 1, 1),
                Subject::new("PaintSwitch", "", 1, 0),
            ],
        ),
        Plan::new(
            Layer::Ether,
            vec![
                Subject::new("HostEtherFilter", "02:00:00:00:00:01", 1, 1),
                Subject::new("HostEtherFilter", "02:00:00:00:00:01, true", 1, 2)
                    .write("ether", "02:00:00:00:00:02"),
                Subject::new("HostEtherFilter", "02:00:00:00:00:02, true, false", 1, 1),
                Subject::new("HostEtherFilter", "02:00:00:00:00:02, OFFSET 2", 1, 2),
            ],
        ),
        Plan::new(
            Layer::Ether,
            vec![Subject::new("EtherSwitch", "TIMEOUT 3", 3, 3)],
        ),
        Plan::new(
            Layer::Ether,
            vec![
                classifier(
                    "Classifier",
                    &["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"],
                ),
                classifier(
                    "Classifier",
                    &["12/0800 14/45 !20/2000%2000", "12/86dd", "!0/ffffffffffff"],
                ),
                classifier(
                    "Classifier",
                    &["0/01%01", "12/8100 !15/0?", "6/02????????01", "!14/????"],
                ),
                classifier(
                    "Classifier",
                    &["12/0800 23/06 36/0050", "12/080045 26/0a%fe", "-", "0/00"],
                ),
            ],
        ),
        Plan::new(
            Layer::Ether,
            vec![classifier("Classifier", &["9000/12", "-"])],
        )
        .plain_punts(1000),
    ];
    all.extend(filters());
    all
}

fn filters() -> Vec<Plan> {
    let filter = |rules: &[&str], n: usize| Subject::new("IPFilter", &rules.join(", "), 1, n);
    let mut rng = Rng::new(77);
    let random: Vec<Subject> = (0..40).map(|_| random_filter(&mut rng)).collect();
    // what is cut off: most packets are not
    let cut: Vec<Subject> = (random.iter().cloned())
        .chain([
            filter(
                &[
                    "allow tcp dst port 80 or 443",
                    "deny tcp syn",
                    "1 dst port > 53",
                    "allow icmp type 8",
                ],
                2,
            ),
            filter(
                &[
                    "deny src or dst port 22",
                    "allow tcp || udp",
                    "allow not (udp src port 53)",
                ],
                1,
            ),
            filter(
                &[
                    "allow tcp && dst port 80",
                    "deny ip[9] = 17 && transp[6:2] = 0",
                    "allow all",
                ],
                1,
            ),
        ])
        .map(Subject::finer)
        .collect();
    let numbered: Vec<String> = (0..300)
        .map(|i| {
            let net = format!("10.{}.{}.0/24", i / 16, i % 16);
            match i % 3 {
                0 => format!("deny src net {net}"),
                1 => format!("allow dst net {net} && tcp dst port {i}"),
                _ => format!("allow udp && src net {net} && src port > {}", 60 + i),
            }
        })
        .collect();
    vec![
        Plan::new(
            Layer::Ip4,
            vec![
                filter(&["allow all"], 1),
                filter(
                    &["deny src 10.0.0.1", "allow dst net 10.0.0.0/8", "deny all"],
                    1,
                ),
                filter(
                    &[
                        "allow tcp dst port 80 or 443",
                        "1 udp port 53",
                        "drop icmp type echo",
                    ],
                    2,
                ),
                filter(
                    &[
                        "allow !(tcp port 80) && src net != 10.0.0.0/8",
                        "1 ip frag",
                        "1 ip unfrag",
                    ],
                    2,
                ),
                filter(
                    &[
                        "deny tcp opt syn && !(tcp opt ack)",
                        "allow tcp opt fin",
                        "1 tcp",
                    ],
                    2,
                ),
                filter(
                    &[
                        "allow ip ttl > 3 && ip tos 0",
                        "deny ip[0] & 0x0f > 5",
                        "1 ip len > 60",
                    ],
                    2,
                ),
                filter(
                    &[
                        "allow src and dst port > 1023",
                        "1 not dst port 80",
                        "1 icmp",
                    ],
                    2,
                ),
                filter(
                    &[
                        "deny src net 10.0.0.1 mask 255.0.0.255",
                        "allow port != 53",
                        "1 -",
                    ],
                    2,
                ),
                filter(
                    &[
                        "allow (src 10.0.0.1 || dst 10.0.0.2) && (tcp || udp || icmp)",
                        "1 transp[0] & 1 == 1",
                    ],
                    2,
                ),
                filter(
                    &[
                        "allow tcp dst port 80 ? src net 10.0.0.0/8 : ip proto 17",
                        "1 ip vers 4",
                    ],
                    2,
                ),
                Subject::new("IPFilter", &numbered.join(", "), 1, 1),
            ],
        ),
        Plan::new(
            Layer::Ip4,
            vec![
                filter(&["allow ether src 02:00:00:00:00:01", "1 all"], 2),
                filter(&["allow ip len & 0x5 > 1", "1 all"], 2),
                filter(
                    &[
                        "deny tcp dst port 23",
                        "allow tcp && src port > 1000 && ip len & 0x5 > 1",
                        "deny udp && transp[200:2] == 7",
                        "1 udp && !(ether src 02:00:00:00:00:01)",
                        "allow icmp || (tcp dst port 80 && transp[300] != 3)",
                        "1 !(dst net 10.0.0.0/8 && ip id & 0x5 > 1)",
                        "allow all",
                    ],
                    2,
                ),
                filter(
                    &[
                        "deny !(tcp dst port 80 || ip len & 0x5 > 1)",
                        "1 ip frag",
                        "allow src net 10.0.0.0/8 ? ip len & 0x5 > 1 : udp",
                        "1 dst port 53",
                    ],
                    2,
                ),
            ],
        ),
        Plan::new(
            Layer::Ip4,
            vec![
                classifier("IPClassifier", &["tcp", "udp", "-"]),
                classifier(
                    "IPClassifier",
                    &[
                        "udp dst port 53",
                        "udp && src net 10/8",
                        "icmp type 8",
                        "ip frag",
                    ],
                )
                .write("pattern1", "udp && dst net 10/8"),
                classifier(
                    "IPClassifier",
                    &[
                        "dst host 10.0.0.1 and icmp",
                        "dst host 10.0.0.1",
                        "ip proto 47",
                        "tcp syn",
                    ],
                ),
                classifier(
                    "IPClassifier",
                    &[
                        "src tcp port >= 1024",
                        "dst port < 1024",
                        "ip dscp 0",
                        "ip ect",
                        "-",
                    ],
                ),
            ],
        ),
        Plan::new(Layer::Ip4, random),
        Plan::new(Layer::Ip4, cut).plain_punts(1000),
        Plan::new(
            Layer::Ip6,
            vec![
                classifier(
                    "IP6Classifier",
                    &["tcp dst port 80 or 443", "udp", "icmp6", "-"],
                ),
                classifier(
                    "IP6Classifier",
                    &[
                        "src net 2001:db8::/32 && !udp",
                        "dst host ff02::1",
                        "ip6 hlim > 3",
                    ],
                ),
                classifier(
                    "IP6Classifier",
                    &[
                        "icmp6 type 8",
                        "src and dst port > 1000",
                        "tcp opt syn",
                        "ip6 nxt 17",
                    ],
                ),
            ],
        ),
    ]
}

/// Rules put together at random.
fn random_filter(rng: &mut Rng) -> Subject {
    const WORDS: &[&str] = &[
        "src 10.0.0.1",
        "dst 10.0.0.2",
        "src net 10.0.0.0/8",
        "dst net 192.168.0.0/16",
        "host 1.2.3.4",
        "src and dst net 10.0.0.0/24",
        "tcp",
        "udp",
        "icmp",
        "tcp dst port 80",
        "udp src port 53",
        "port 1024",
        "dst port < 100",
        "src port >= 1024",
        "dst port != 443",
        "tcp opt syn",
        "tcp opt ack",
        "ip frag",
        "ip unfrag",
        "ip ttl < 65",
        "ip tos 0",
        "ip proto 6",
        "icmp type 8",
        "ip ce",
        "ip ect",
        "src and dst port 1234",
        "transp[2:2] > 500",
        "ip[1] & 0xfc == 0",
        "ip id != 0",
        "dst net != 10.0.0.0/8",
        "port != 80",
    ];
    fn expr(rng: &mut Rng, depth: u64) -> String {
        match rng.below(if depth == 0 { 1 } else { 5 }) {
            1 => format!("({} && {})", expr(rng, depth - 1), expr(rng, depth - 1)),
            2 => format!("({} || {})", expr(rng, depth - 1), expr(rng, depth - 1)),
            3 => format!("!({})", expr(rng, depth - 1)),
            4 => format!(
                "({} ? {} : {})",
                expr(rng, depth - 1),
                expr(rng, depth - 1),
                expr(rng, depth - 1)
            ),
            _ => rng.pick(WORDS).to_string(),
        }
    }
    let n = 1 + rng.below(4);
    let rules: Vec<String> = (0..n)
        .map(|_| {
            let action = rng.pick(&["allow", "deny", "1", "2"]);
            let e = expr(rng, 2);
            format!("{action} {e}")
        })
        .collect();
    Subject::new("IPFilter", &rules.join(", "), 1, 3)
}

/// Only what cannot be said is asked about, and only of packets that it may be about.
#[test]
fn one_odd_rule_does_not_cost_the_others_theirs() {
    use onefold_element::model::{Cond, Exit, Model};
    use onefold_elements::model_check::check::models_of;
    let odd = "allow udp && src net 10.0.0.0/8 && ip len & 0x5 > 1";
    let rules = format!("deny tcp dst port 23, {odd}, 1 udp, allow ether src 2:0:0:0:0:1, 1 all");
    let six = "deny tcp, allow udp && udp[0:2] & 0xff00 > 256, 1 udp, allow udp[200:1] == 3, 1";
    for s in [
        Subject::new("IPFilter", &rules, 1, 2),
        Subject::new("IP6Filter", six, 1, 2),
    ] {
        let models = models_of(&s).unwrap_or_else(|d| panic!("{d}"));
        let Some(Model::Cases(cases)) = models.first() else {
            panic!("no model");
        };
        let of = |arg: usize| cases.iter().find(|c| c.origin == Some(arg));
        let asked = |arg: usize| of(arg).is_some_and(|c| matches!(c.exit, Exit::Ask(_)));
        assert_eq!([0, 1, 2, 3].map(asked), [false, true, false, true], "{s:?}");
        let when = of(1).map(|c| c.when.clone());
        assert!(!matches!(when, None | Some(Cond::Always)), "{when:?}");
    }
}

/// The model of a long list is made quickly, has a case per rule, and finds what the search tree finds.
#[test]
fn ten_thousand_rules() {
    use onefold_element::model::Model;
    use onefold_elements::model_check::check::{check, models_of};
    use onefold_elements::model_check::samples::samples;
    use std::time::Instant;

    let mut rng = Rng::new(5);
    let rules: Vec<String> = (0..10_000)
        .map(|i| {
            let (a, b) = (rng.below(1 << 24), rng.below(1 << 16));
            let action = if i % 3 == 0 { "deny" } else { "allow" };
            format!(
                "{action} src net 10.{}.{}.0/24 && dst net 192.168.{}.0/26 && {} dst port {}",
                a >> 16 & 255,
                a >> 8 & 255,
                b & 255,
                if b & 1024 == 0 { "tcp" } else { "udp" },
                b >> 4
            )
        })
        .collect();
    let s = Subject::new("IPFilter", &rules.join(", "), 1, 1);
    let start = Instant::now();
    let models = models_of(&s).unwrap_or_else(|d| panic!("{d}"));
    println!("configured and modelled in {:?}", start.elapsed());
    let Some(Model::Cases(cases)) = models.first() else {
        panic!("no model");
    };
    assert!(cases.len() >= 10_000);
    let near: String = rules.iter().take(300).map(String::as_str).collect();
    let list = samples(Layer::Ip4, &near, 3, 200);
    let report = check(&s, &list, 3, &|_, m| m).unwrap_or_else(|d| panic!("{}", d.what));
    assert_eq!(report.plain_punted, 0);
}
