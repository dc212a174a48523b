//! Plans of the families standard and link.

use onefold_elements::model_check::check::{Plan, Subject};
use onefold_elements::model_check::samples::Layer;

pub fn plans() -> Vec<Plan> {
    vec![
        Plan::new(Layer::Any, vec![Subject::new("Null", "", 1, 1)]),
        Plan::new(
            Layer::Any,
            vec![
                Subject::new("Discard", "", 1, 0),
                Subject::new("Discard", "REASON \"not wanted here\"", 1, 0),
                Subject::new("Discard", "BURST 3", 1, 0).write("reset_counts", ""),
                Subject::new("NFLink", "KEEP_ROUNDS true", 1, 1),
                Subject::new("NFLink", "KEEP_ROUNDS true, MARK 7", 1, 1),
            ],
        ),
        Plan::new(Layer::Any, vec![Subject::new("Idle", "", 2, 1)]),
        Plan::new(
            Layer::Any,
            vec![Subject::new("Hub", "", 3, 3), Subject::new("Hub", "", 1, 1)],
        ),
        // what has been here before is for the reference graph
        Plan::new(
            Layer::Ip4,
            vec![
                Subject::new("LoopGuard", "", 1, 1),
                Subject::new("LoopGuard", "LIMIT 1, ANNO 30", 1, 1),
                Subject::new("LoopGuard", "FROM 1 2 200", 1, 1),
            ],
        )
        .plain_punts(1000),
        Plan::new(Layer::Any, vec![Subject::new("Clipboard", "3/4", 2, 2)]).plain_punts(1000),
        Plan::new(
            Layer::Any,
            vec![
                Subject::new("Tee", "", 1, 1),
                Subject::new("Tee", "3", 1, 3),
            ],
        ),
        Plan::new(
            Layer::Any,
            vec![
                Subject::new("Counter", "", 1, 1).write("reset", ""),
                Subject::new("Counter", "NO_RATE true", 1, 1),
            ],
        ),
        Plan::new(
            Layer::Any,
            vec![
                Subject::new("Counter", "COUNT_CALL 100 stop", 1, 1),
                Subject::new("CounterMP", "BYTE_COUNT_CALL 1000 stop", 1, 1),
            ],
        )
        .plain_punts(1000),
        Plan::new(
            Layer::Any,
            vec![
                Subject::new("AverageCounter", "", 1, 1),
                Subject::new("AverageCounter", "2, MAX 20, LINK_FCS false", 1, 1)
                    .write("reset", ""),
                Subject::new("AverageCounterIMP", "1.5", 1, 1),
            ],
        ),
        Plan::new(
            Layer::Any,
            vec![Subject::new("AverageCounterMP", "THRESHOLD 3", 1, 1)],
        )
        .plain_punts(1000),
        Plan::new(
            Layer::Ether,
            vec![
                Subject::new("NFLink", "", 1, 1),
                Subject::new("NFLink", "ETHER 02:00:00:00:00:02", 1, 1).write("reset_counts", ""),
                Subject::new("NFLink", "KEEP_ROUNDS true", 1, 1),
                Subject::new("NFLink", "KEEP_ROUNDS true, MARK 7", 1, 1),
            ],
        ),
    ]
}
