//! Ports of the elements in a chain, and the connections between them.

use super::Builder;
use crate::ast::*;
use crate::diag::Diagnostic;
use crate::limits::MAX_CONNECTIONS;
use crate::source::Span;

/// Ports on one side of an element: see [`PortList`]. Without ports, there is no list.
#[derive(Clone, Debug, Default)]
pub(super) struct Ports {
    pub(super) list: Vec<usize>,
    pub(super) open: bool,
}

impl Ports {
    pub(super) fn new(list: Option<&PortList>) -> Ports {
        list.map_or_else(Ports::default, |l| Ports {
            list: l.ports.clone(),
            open: l.open,
        })
    }

    pub(super) fn given(&self) -> bool {
        !self.list.is_empty()
    }
}

/// An element in a chain: index, ports on both sides.
pub(super) struct Used {
    pub(super) element: usize,
    pub(super) inputs: Ports,
    pub(super) outputs: Ports,
    pub(super) span: Span,
}

impl Builder<'_> {
    /// Ports that nothing is connected to, at the start and the end of a chain.
    pub(super) fn check_useless(&mut self, link: &Link, elements: &[Used], end: bool) {
        for (element, used) in link.elements.iter().zip(elements) {
            let (list, ports, what) = if end {
                (
                    &element.outputs,
                    &used.outputs,
                    "output ports at the end of a chain are connected to nothing",
                )
            } else {
                (
                    &element.inputs,
                    &used.inputs,
                    "input ports at the start of a chain are connected to nothing",
                )
            };
            if ports.given() {
                let span = list.as_ref().map_or(element.span, |l| l.span);
                return self.error(span, what);
            }
        }
    }

    pub(super) fn connect_all(&mut self, outputs: &[Used], inputs: &[Used], arrow: Arrow) {
        // Index 0 is the input side, 1 the output side.
        let sides: [Vec<(usize, &Ports)>; 2] = [
            inputs.iter().map(|u| (u.element, &u.inputs)).collect(),
            outputs.iter().map(|u| (u.element, &u.outputs)).collect(),
        ];
        let least = [0, 1].map(|k| {
            sides[k]
                .iter()
                .map(|(_, p)| p.list.len().max(1))
                .sum::<usize>()
        });
        let mut open = [0, 1].map(|k| sides[k].iter().filter(|(_, p)| p.open).count());
        if open[0] + open[1] > 1 {
            self.error(
                arrow.span,
                "a connection can have one open port list at most",
            );
            open[usize::from(least[0] < least[1])] = 0;
        }
        if arrow.double {
            // One element without ports on one side takes as many as the other side has.
            for k in [0, 1] {
                let bare = sides[k].first().is_some_and(|(_, p)| !p.given());
                if least[k] == 1 && least[1 - k] > 1 && bare {
                    open[k] = 1;
                }
            }
        }
        let mut step = [0, 1].map(|k| least[k] > 1 || open[k] > 0);
        let mut extra = [0, 1].map(|k| {
            if open[k] > 0 {
                least[1 - k].saturating_sub(least[k])
            } else {
                0
            }
        });
        if step[0] && step[1] {
            if !arrow.double {
                self.error(
                    arrow.span,
                    "connections of several ports to several ports are written '=>'",
                );
            }
            let (ins, outs) = (least[0], least[1]);
            let or_more = |k: usize| if open[k] > 0 { " or more" } else { "" };
            let mismatch = (open == [0, 0] && ins != outs)
                || (open[0] == 0 && ins < outs)
                || (open[1] == 0 && outs < ins);
            if mismatch {
                let message = format!(
                    "{outs}{} outputs are connected to {ins}{} inputs",
                    or_more(1),
                    or_more(0)
                );
                self.error(arrow.span, message);
            }
        } else if !step[0] && !step[1] {
            step[0] = true;
        }
        let mut at = [0usize; 2];
        let mut nth = [0usize; 2];
        let mut port: [Option<usize>; 2] = [None; 2];
        while let (Some(&(to, to_ports)), Some(&(from, from_ports))) =
            (sides[0].get(at[0]), sides[1].get(at[1]))
        {
            let ports = [to_ports, from_ports];
            for k in [0, 1] {
                port[k] = port[k].or(Some(ports[k].list.first().copied().unwrap_or(0)));
            }
            let span = match (outputs.get(at[1]), inputs.get(at[0])) {
                (Some(output), Some(input)) => output.span.to(input.span),
                _ => arrow.span,
            };
            self.connect(
                (from, port[1].unwrap_or(0)),
                (to, port[0].unwrap_or(0)),
                span,
            );
            if self.sink.stopped {
                return;
            }
            for k in [0, 1].into_iter().filter(|&k| step[k]) {
                nth[k] += 1;
                let Ports { list, open } = ports[k];
                if let Some(&listed) = list.get(nth[k]) {
                    port[k] = Some(listed);
                } else if let (true, Some(&last), true) = (*open, list.last(), extra[k] > 0) {
                    port[k] = Some(last + nth[k] - (list.len() - 1));
                    extra[k] -= 1;
                } else if list.is_empty() && least[k] == 1 && extra[k] > 0 {
                    port[k] = Some(nth[k]);
                    extra[k] -= 1;
                } else {
                    port[k] = None;
                    nth[k] = 0;
                    at[k] += 1;
                }
            }
        }
    }

    fn connect(&mut self, from: (usize, usize), to: (usize, usize), span: Span) {
        self.connections += 1;
        if self.connections > MAX_CONNECTIONS {
            let d = Diagnostic::error(format!(
                "the configuration has more than {MAX_CONNECTIONS} connections"
            ));
            self.sink.fatal(d.at(self.sources, span));
        } else {
            self.router().connect(from, to, span);
        }
    }
}
