//! Plans of the family headers.

use onefold_elements::model_check::check::{Plan, Subject};
use onefold_elements::model_check::samples::Layer;

/// One input, one output.
fn pipe(class: &str, configs: &[&str]) -> Vec<Subject> {
    let one = |c: &&str| Subject::new(class, c, 1, 1);
    configs.iter().map(one).collect()
}

/// One input, with one and with two outputs.
fn refusing(class: &str, configs: &[&str]) -> Vec<Subject> {
    let both = |c: &&str| [1, 2].map(|n| Subject::new(class, c, 1, n));
    configs.iter().flat_map(both).collect()
}

const MACS: &str = "02:00:00:00:00:01, 02:00:00:00:00:02";

pub fn plans() -> Vec<Plan> {
    let mut all = ip();
    all.extend(ip_fields());
    all.extend(ether());
    all.extend(data());
    all
}

/// What these say beyond their models.
fn told_finer(all: Vec<Subject>) -> Vec<Subject> {
    all.into_iter().map(Subject::finer).collect()
}

fn ip() -> Vec<Plan> {
    vec![
        Plan::new(
            Layer::Ip4,
            refusing(
                "CheckIPHeader",
                &[
                    "",
                    "DETAILS true, VERBOSE true",
                    "INTERFACES 10.0.0.1/8 192.168.1.199/24, DETAILS true",
                    "BADSRC 10.0.0.1 10.0.0.2 1.2.3.4, CHECKSUM false",
                    "BADSRC 10.0.0.0/30 224.0.0.0/3 192.168.0.0/16, GOODDST 10.0.0.1, CHECKSUM false",
                ],
            ),
        ),
        Plan::new(
            Layer::Ether,
            refusing(
                "CheckIPHeader",
                &["14", "OFFSET 14, BADSRC 10.0.0.1 0.0.0.0, DETAILS true"],
            ),
        ),
        Plan::new(
            Layer::Ip4,
            refusing("CheckIPHeader2", &["", "CHECKSUM true, DETAILS true"]),
        ),
        Plan::new(Layer::Ip4, pipe("MarkIPHeader", &["", "0"])),
        Plan::new(Layer::Ether, pipe("MarkIPHeader", &["14"])).plain_punts(200),
        Plan::new(Layer::Ether, told_finer(pipe("MarkIPHeader", &["14"]))).plain_punts(1000),
        Plan::new(
            Layer::Any,
            pipe("MarkMACHeader", &["", "2", "0, 14", "4, 18"]),
        ),
        Plan::new(
            Layer::Ip4,
            refusing(
                "CheckTCPHeader",
                &["", "CHECKSUM false, VERBOSE true", "DETAILS true"],
            ),
        ),
        Plan::new(
            Layer::Ip4,
            refusing(
                "CheckUDPHeader",
                &["", "CHECKSUM false, VERBOSE true", "DETAILS true"],
            ),
        ),
        Plan::new(
            Layer::Ip4,
            refusing(
                "CheckICMPHeader",
                &["", "CHECKSUM false, VERBOSE true", "DETAILS true"],
            ),
        ),
        Plan::new(
            Layer::Ether,
            refusing(
                "CheckARPHeader",
                &["14", "OFFSET 14, DETAILS true, VERBOSE true"],
            ),
        )
        .packets(1500)
        // a TCP packet is no ARP packet
        .plain_punts(1000),
    ]
}

/// What writes into IP headers, adds them or takes them away.
fn ip_fields() -> Vec<Plan> {
    vec![
        Plan::new(Layer::Ip4, pipe("SetIPChecksum", &[""])),
        Plan::new(Layer::Ip4, pipe("ResetIPChecksum", &["", "true"])),
        Plan::new(Layer::Ip4, pipe("SetTCPChecksum", &["", "true"])).plain_punts(600),
        Plan::new(Layer::Ip4, refusing("SetUDPChecksum", &[""])).plain_punts(600),
        Plan::new(
            Layer::Ip4,
            [
                pipe("SetIPDSCP", &["0", "63", "46"]),
                vec![Subject::new("SetIPDSCP", "1", 1, 1).write("dscp", "2")],
            ]
            .concat(),
        ),
        Plan::new(
            Layer::Ip4,
            pipe("SetIPTTL", &["0", "64", "ADD 1", "ADD 200", "SUBTRACT 3"]),
        ),
        Plan::new(
            Layer::Ip6,
            pipe("SetIP6HLIM", &["64", "ADD 200", "SUBTRACT 3"]),
        ),
        Plan::new(Layer::Ip4, pipe("SetTCPMSS", &["1200", "1, ADD true"])).plain_punts(1000),
        Plan::new(Layer::Ip4, pipe("SetIPECN", &["no", "ect1", "ce"])),
        Plan::new(Layer::Ip4, pipe("MarkIPCE", &["", "true"])),
        Plan::new(Layer::Ip4, pipe("IPMirror", &["", "false"])),
        Plan::new(Layer::Ip4, pipe("StripIPHeader", &[""])),
        Plan::new(Layer::Any, pipe("UnstripIPHeader", &[""])),
        Plan::new(Layer::Ip4, pipe("StripTransportHeader", &[""])),
        Plan::new(Layer::Ip4, pipe("StripTCPHeader", &[""])),
        Plan::new(Layer::Ip4, pipe("StripUDPHeader", &[""])),
        Plan::new(Layer::Any, pipe("UnstripTransportHeader", &[""])),
        Plan::new(Layer::Any, pipe("StripToNetworkHeader", &[""])),
        Plan::new(
            Layer::Ip4,
            [
                pipe("IPEncap", &["4, 1.2.3.4, 5.6.7.8"]),
                pipe("UDPIPEncap", &["1.2.3.4, 5, 6.7.8.9, 10"]),
                pipe("NumberPacket", &[""]),
                pipe("CheckCRC32", &[""]),
                pipe("SetCRC32", &[""]),
            ]
            .concat(),
        )
        .plain_punts(1000),
    ]
}

fn ether() -> Vec<Plan> {
    let rewrite = Subject::new("EtherRewrite", MACS, 1, 1).write("src", "02:00:00:00:00:09");
    let encap = Subject::new("EtherEncap", &format!("0x86dd, {MACS}"), 1, 1).write("etht", "2048");
    vec![
        Plan::new(Layer::Any, pipe("Strip", &["0", "14", "20"])),
        Plan::new(Layer::Any, pipe("Resize", &["", "14", "-14"])),
        Plan::new(Layer::Any, pipe("Resize", &["0, 4", "-2, -4"])).plain_punts(1000),
        Plan::new(Layer::Any, pipe("Unstrip", &["0", "14", "100"])),
        Plan::new(Layer::Any, vec![encap]),
        Plan::new(Layer::Ether, vec![rewrite]),
        Plan::new(Layer::Ether, pipe("EtherMirror", &[""])),
        Plan::new(
            Layer::Ip4,
            pipe("EnsureEther", &["", &format!("0x800, {MACS}")]),
        )
        .plain_punts(1000),
        Plan::new(Layer::Ether, pipe("EnsureEther", &[""])),
        Plan::new(
            Layer::Any,
            refusing(
                "StoreEtherAddress",
                &[
                    "2:0:0:0:0:1, src",
                    "2:0:0:0:0:1, dst",
                    "2:0:0:0:0:1, 17",
                    "OFFSET 3, ANNO 20",
                ],
            ),
        ),
        Plan::new(
            Layer::Any,
            [
                pipe(
                    "EtherVLANEncap",
                    &[
                        &format!("0x0800, {MACS}, 77, 3"),
                        &format!("0x0800, {MACS}, 0"),
                        &format!("0x0800, {MACS}, ANNO"),
                        &format!("0x0800, {MACS}, ANNO, NATIVE_VLAN 2"),
                        &format!("0x0800, {MACS}, ANNO, NATIVE_VLAN -1"),
                    ],
                ),
                pipe("EtherVlanEncap", &[&format!("0x0800, {MACS}, VLAN_ID 9")]),
            ]
            .concat(),
        ),
        Plan::new(
            Layer::Ether,
            [
                pipe(
                    "VLANEncap",
                    &["5", "0", "ANNO", "ANNO, NATIVE_VLAN 3, ETHERTYPE 0x88a8"],
                ),
                vec![Subject::new("VLANEncap", "7, 2", 1, 1).write("vlan_tci", "ANNO")],
            ]
            .concat(),
        ),
        Plan::new(
            Layer::Ether,
            pipe("VLANDecap", &["", "false", "ETHERTYPE 0x88a8"]),
        ),
        Plan::new(
            Layer::Any,
            [
                pipe("SetVLANAnno", &["5", "VLAN_ID 9, VLAN_PCP 3"]),
                pipe("SetVlanAnno", &["5"]),
            ]
            .concat(),
        ),
        Plan::new(
            Layer::Ether,
            [
                refusing("StripEtherVLANHeader", &["", "-1", "77"]),
                refusing("StripEtherVlanHeader", &["0"]),
            ]
            .concat(),
        ),
    ]
}

fn data() -> Vec<Plan> {
    vec![
        Plan::new(
            Layer::Any,
            vec![
                Subject::new("Paint", "7", 1, 1).write("color", "9"),
                Subject::new("Paint", "1, 20", 1, 1),
            ],
        ),
        Plan::new(
            Layer::Any,
            vec![
                Subject::new("PaintTee", "2", 1, 2).write("color", "3"),
                Subject::new("PaintTee", "17, 19", 1, 2),
            ],
        ),
        Plan::new(Layer::Any, pipe("SetAnnoByte", &["17, 3"])),
        Plan::new(
            Layer::Any,
            pipe("SetPacketType", &["OUTGOING", "multicast"]),
        ),
        Plan::new(
            Layer::Any,
            pipe(
                "StoreData",
                &[
                    "0, \\<00112233445566778899aabbccddeeff0011>",
                    "3, \\<0102ff>, \\<0f81ff>",
                    "2, abc, GROW true",
                ],
            ),
        ),
        Plan::new(Layer::Any, pipe("Align", &["4, 2", "8, 0"])),
        Plan::new(
            Layer::Any,
            pipe("Truncate", &["1500", "100, EXTRA_LENGTH false"]),
        )
        .plain_punts(200),
        Plan::new(
            Layer::Any,
            pipe(
                "Pad",
                &[
                    "60",
                    "60, MAXLENGTH 20, VERBOSE true",
                    "",
                    "60, RANDOM true",
                ],
            ),
        )
        .plain_punts(900),
        Plan::new(Layer::Any, pipe("SetTimestamp", &["", "5.5"])),
        Plan::new(
            Layer::Any,
            [
                pipe("SetTimestamp", &["5.5, FIRST true"]),
                pipe("SetTimestampDelta", &["", "TYPE NOW"]),
                pipe("AdjustTimestamp", &["1.5"]),
            ]
            .concat(),
        )
        .plain_punts(1000),
        Plan::new(Layer::Any, pipe("TimeRange", &["", "SIMPLE true"])),
        Plan::new(Layer::Any, pipe("TimestampAccum", &[""])),
        Plan::new(
            Layer::Any,
            refusing(
                "TimeFilter",
                &["START 2, END 6", "INTERVAL 3", "END 4, STOP true"],
            ),
        ),
        Plan::new(
            Layer::Any,
            refusing("TimeFilter", &["END 4, END_CALL stop"]),
        )
        .plain_punts(1000),
    ]
}
