//! Several workers on devices of DPDK.

use crate::dpdk::{af_packet, is_there, two_queues, without_segmentation};
use crate::links::links_change_with;
use crate::workers;

/// Two workers: a dispatcher in front of a device with one queue, and a queue of the device for each worker.
#[test]
fn isp_edge_with_two_workers() {
    if !is_there() {
        return;
    }
    for (dispatch, port) in [
        ("software", af_packet as fn(&str) -> String),
        ("rss", two_queues),
    ] {
        let more = ["--dispatch", dispatch];
        workers::edge("live-dpdk-two", port, without_segmentation, &more);
    }
}

#[test]
fn flows_stay_on_their_worker() {
    if !is_there() {
        return;
    }
    // with several queues the driver has the kernel put fragments together, to what is longer than its slots
    let Some(v) = workers::many_flows("live-dpdk-flows", two_queues, (false, 1), &[]) else {
        return;
    };
    assert_eq!(v["dispatch"]["mode"], "rss", "{v}");
    assert!(
        workers::number(&v, &["dispatch", "handed_over"]) > 50,
        "{v}"
    );
}

/// The device of both workers goes and comes back.
#[test]
fn links_change_under_two_workers() {
    if !is_there() {
        return;
    }
    links_change_with(&[""], |i, _| two_queues(i), &["--workers", "2"]);
}
