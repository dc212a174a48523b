//! Plans of the families sources, print and control, and of the plain switches.

use onefold_elements::model_check::check::{Plan, Subject};
use onefold_elements::model_check::samples::Layer;

pub fn plans() -> Vec<Plan> {
    let mut all = devices();
    all.extend(printers());
    all.push(Plan::new(
        Layer::Any,
        vec![
            Subject::new("Switch", "1", 1, 2).write("switch", "0"),
            Subject::new("Switch", "", 1, 2).write("switch", "-1"),
        ],
    ));
    all.push(Plan::new(
        Layer::Any,
        vec![
            Subject::new("StaticSwitch", "1", 1, 2),
            Subject::new("StaticSwitch", "7", 1, 2),
        ],
    ));
    all
}

fn devices() -> Vec<Plan> {
    let source = |class: &str, config: &str| {
        Plan::new(
            Layer::Ether,
            vec![
                Subject::new(class, config, 0, 1).write("reset_counts", ""),
                Subject::new(class, config, 0, 1).write("active", "false"),
            ],
        )
    };
    let sink = |class: &str, config: &str| {
        Plan::new(
            Layer::Ether,
            vec![Subject::new(class, config, 1, 0).write("reset_counts", "")],
        )
    };
    let from = ["FromDevice", "PollDevice", "FromNetmapDevice"];
    let mut all = Vec::from(from.map(|class| source(class, "eth0")));
    all.extend(["ToHost", "ToHostSniffers"].map(|class| sink(class, "fake0")));
    all.extend([
        source("FromDPDKDevice", "0"),
        source("FromDPDKRing", "MEM_POOL 1, FROM_PROC rx, TO_PROC other"),
        source("FromHost", "fake0"),
        sink("ToDevice", "eth0"),
        sink("ToDPDKDevice", "0"),
        sink("ToDPDKRing", "MEM_POOL 1, FROM_PROC tx, TO_PROC other"),
        sink("ToNetmapDevice", "eth0"),
        Plan::new(
            Layer::Ether,
            vec![
                Subject::new("KernelTap", "10.0.0.1/8", 1, 1),
                Subject::new("KernelTap", "10.0.0.1/8", 1, 1).entry(),
            ],
        ),
        Plan::new(
            Layer::Ip4,
            vec![
                Subject::new("KernelTun", "10.0.0.1/8", 1, 1),
                Subject::new("KernelTun", "10.0.0.1/8", 1, 1).entry(),
                Subject::new("KernelTun", "10.0.0.1/8", 1, 2).entry(),
            ],
        ),
        Plan::new(
            Layer::Ether,
            vec![
                Subject::new("FromDump", "x.pcap", 0, 1),
                Subject::new("FromDump", "x.pcap", 0, 1).write("active", "false"),
                Subject::new("FromDump", "x.pcap, FORCE_IP true", 0, 2),
                Subject::new("FromDump", "x.pcap, FORCE_IP true", 0, 1),
            ],
        ),
        Plan::new(
            Layer::Ether,
            vec![
                Subject::new("FromDump", "x.pcap, SAMPLE 0.5", 0, 1),
                Subject::new("FromDump", "x.pcap, START 3, END 5", 0, 1),
            ],
        )
        .plain_punts(1000),
        Plan::new(
            Layer::Ether,
            vec![
                Subject::new("ToDump", "x.pcap", 1, 0),
                Subject::new("ToIPSummaryDump", "x, FIELDS src dst", 1, 0),
            ],
        ),
        Plan::new(
            Layer::Ether,
            vec![
                Subject::new("ToDump", "x.pcap", 1, 1),
                Subject::new("ToIPSummaryDump", "x, FIELDS src dst", 1, 1),
            ],
        )
        .plain_punts(1000),
        Plan::new(
            Layer::Any,
            vec![Subject::new("FromIPSummaryDump", "x", 0, 1).write("active", "false")],
        ),
        Plan::new(Layer::Any, vec![Subject::new("TimedSink", "0.5", 1, 0)]),
    ]);
    // they take no packets, from nobody
    for (class, config) in [
        ("InfiniteSource", ""),
        ("RandomSource", "64"),
        ("RatedSource", ""),
        ("TimedSource", ""),
        (
            "FastUDPSource",
            "1, 2, 60, 0:0:0:0:0:1, 1.0.0.1, 9, 0:0:0:0:0:2, 1.0.0.2, 9",
        ),
        (
            "FastUDPFlows",
            "1, 2, 60, 0:0:0:0:0:1, 1.0.0.1, 0:0:0:0:0:2, 1.0.0.2, 1, 1",
        ),
        (
            "FastTCPFlows",
            "1, 2, 60, 0:0:0:0:0:1, 1.0.0.1, 0:0:0:0:0:2, 1.0.0.2, 1, 3",
        ),
    ] {
        all.push(none(class, config, 0, 1));
    }
    all
}

/// An element without a model, for a reason that it states.
fn none(class: &str, config: &str, ninputs: usize, noutputs: usize) -> Plan {
    Plan::new(
        Layer::Any,
        vec![Subject::new(class, config, ninputs, noutputs)],
    )
    .packets(20)
    .plain_punts(1000)
}

fn printers() -> Vec<Plan> {
    let print = |class: &str, configs: &[&str]| {
        let one = |c: &&str| Subject::new(class, c, 1, 1).write("active", "false");
        Plan::new(Layer::Any, configs.iter().map(one).collect())
    };
    let mut all = vec![
        print("Print", &["x, 20", "MAXLENGTH -1, TIMESTAMP true"]),
        print("IPPrint", &["", "x, TTL true, LENGTH true, CONTENTS HEX"]),
        print("IP6Print", &["", "x, CONTENTS true"]),
        print("ARPPrint", &["", "x, TIMESTAMP false"]),
        none("Script", "TYPE PACKET, return 0", 1, 1),
        none("DriverManager", "stop", 0, 0),
        none("Message", "hello", 0, 0),
    ];
    for (class, config) in [
        ("AddressInfo", "me 10.0.0.1"),
        ("PortInfo", "web 80"),
        ("AnnotationInfo", ""),
        ("AlignmentInfo", ""),
        ("ScheduleInfo", ""),
        ("StaticThreadSched", ""),
        ("BalancedThreadSched", ""),
        ("ClickyInfo", ""),
        ("FlowInfo", ""),
        ("DevirtualizeInfo", ""),
    ] {
        all.push(none(class, config, 0, 0));
    }
    all
}
