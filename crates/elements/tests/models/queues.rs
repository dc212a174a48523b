//! Plans of the families queues and payload.

use onefold_elements::model_check::check::{Plan, Subject};
use onefold_elements::model_check::samples::Layer;

pub fn plans() -> Vec<Plan> {
    let s = Subject::new;
    let any = |l: Vec<Subject>| Plan::new(Layer::Any, l).packets(200);
    let ip = |l: Vec<Subject>| Plan::new(Layer::Ip4, l).packets(200);
    vec![
        any(vec![
            s("Bypass", "", 2, 2).write("active", "true"),
            s("Bypass", "true", 1, 1),
            s("NotifierDebug", "", 1, 1),
            s("Switch", "1", 1, 3).write("switch", "2"),
            s("Switch", "0", 1, 2).write("switch", "-1"),
        ]),
        any(vec![
            s("StaticSwitch", "1", 1, 2),
            s("StaticSwitch", "7", 1, 2),
        ]),
        any(vec![s("RoundRobinSwitch", "", 1, 3)]),
        any(vec![
            s("HashSwitch", "12, 8", 1, 4),
            s("HashSwitch", "26, 4", 1, 3),
        ]),
        any(vec![s("RandomSwitch", "", 1, 3)]),
        any(vec![s("CPUSwitch", "", 1, 2)]),
        any(vec![
            s("InputSwitch", "1", 3, 1).write("switch", "0"),
            s("InputSwitch", "", 2, 1).write("switch", "-1"),
        ]),
        any(vec![s("StrideSwitch", "1, 3, 2", 1, 3)]),
        any(vec![s("Suppressor", "", 2, 2).write("active1", "false")]),
        any(vec![s("Block", "0", 1, 2).write("thresh", "1000")]),
        any(vec![
            s("RandomSample", "0.5", 1, 2).write("active", "false"),
            s("RandomSample", "DROP 0.25, ACTIVE false", 1, 1).write("active", "true"),
        ]),
        any(vec![s("Meter", "100, 2000", 1, 3)]),
        any(vec![s("BandwidthMeter", "10kBps", 1, 2)]),
        any(vec![s("RatedSplitter", "10", 1, 2)]),
        any(vec![s("PushNull", "", 1, 1)]),
        any(vec![s("Queue", "1000", 1, 1)]).plain_punts(1000),
        ip(vec![
            s(
                "PayloadMatcher",
                "deny string \"ab\", allow string \"c\"",
                1,
                1,
            ),
            s("PayloadMatcher", "1 string \"a\", 0 string \"e\"", 1, 2),
        ]),
        ip(vec![s("FlowMonitor", "", 1, 1)]),
        ip(vec![s(
            "PayloadFilter",
            "drop LITERAL ab, alert LITERAL e",
            1,
            2,
        )]),
        ip(vec![s("StringMatcher", "ab, c", 1, 2)]),
        ip(vec![s("RegexClassifier", "a+b, c", 1, 2)]),
    ]
}
