//! Hub: every packet leaves at all outputs but the one with the number of its input (Click element).

use onefold_element::model::{Case, Cond, Exit, Model, ModelCx};
use onefold_element::{Cx, Effect, Element, ElementClass, Port, element_any};
use onefold_packet::Pkt;

/// `Hub`.
pub const HUB: ElementClass = ElementClass {
    name: "Hub",
    ports: "-/=",
    processing: "h/h",
    flow: "#/[^#]",
    effect: Effect::Pure,
    usage: "",
    summary: "sends a copy of each packet to every output but the one numbered as its input",
    new: || Box::new(Hub),
};

#[derive(Debug, Clone)]
struct Hub;

impl Element for Hub {
    fn multiplies(&self) -> bool {
        true
    }
    fn model(&self, port: Port, cx: &ModelCx<'_>) -> Model {
        let others: Vec<Port> = (0..cx.noutputs).filter(|o| *o != port).collect();
        let exit = match others.is_empty() {
            true => Exit::Drop("Hub: no other output"),
            false => Exit::Each(others),
        };
        Model::Cases(vec![Case::new(Cond::Always, exit)])
    }
    fn push(&mut self, port: Port, p: Pkt, cx: &mut Cx<'_>) {
        let outputs = cx.noutputs;
        // the last of the others gets the packet itself
        let Some(last) = (0..outputs).rev().find(|o| *o != port) else {
            return cx.drop(p, "Hub: no other output");
        };
        for o in (0..last).filter(|o| *o != port) {
            let copy = cx.copy(&p);
            cx.emit(o, copy);
        }
        cx.emit(last, p);
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn all_but_the_own_one() {
        let mut b = Bench::new("Hub", "", 3, 3).unwrap();
        for (input, outputs) in [(0, [1, 2]), (1, [0, 2]), (2, [0, 1])] {
            let out = b.push(input, b"x");
            let ports: Vec<usize> = out.iter().map(|o| o.0).collect();
            assert_eq!(ports, outputs);
            assert!(out.iter().all(|o| o.1.data() == b"x"));
        }
        assert_eq!((b.out.created, b.out.dropped), (3, 0));

        let mut b = Bench::new("Hub", "", 1, 1).unwrap();
        assert!(b.push(0, b"x").is_empty());
        assert_eq!(b.drops()["Hub: no other output"], 1);
        assert!(Bench::new("Hub", "1", 1, 1).is_err());
    }
}
