//! ConnMark and ConnSetMark: the marks of connections.
//!
//! A mark is a number of 32 bits that rules give to a connection, 0 before. `ConnMark(TABLE, MARK_1, ..., MARK_n)`
//! stands behind ConnTrack: a packet leaves at output `k` (from 0) if its connection has the mark of that argument, at
//! output `n` if it has no connection (invalid, untracked), and is dropped where no argument names the mark.
//! `ConnSetMark(TABLE, MARK)` gives the connection of a packet a mark; where there is none, nothing happens. The mark
//! of a connection that a packet would begin is entered with it, by ConnConfirm. Packets are not changed.

use super::table::ConnTable;
use super::table_user::{NO_TABLE, finish, is_asked, uses_table};
use onefold_element::args::{AnyArg, Args};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, Port, StateId,
};
use onefold_packet::Pkt;

/// `ConnMark`.
pub const CONN_MARK: ElementClass = ElementClass {
    name: "ConnMark",
    ports: "1/-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::PerFlow,
    usage: "TABLE, MARK_1, ..., MARK_n",
    summary: "tells packets by the mark of their connection",
    new: || {
        Box::new(ConnMark {
            table: NO_TABLE,
            marks: Vec::new(),
        })
    },
};

/// `ConnSetMark`.
pub const CONN_SET_MARK: ElementClass = ElementClass {
    name: "ConnSetMark",
    ports: "1/1",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::PerFlow,
    usage: "TABLE, MARK",
    summary: "gives the connections of packets a mark",
    new: || {
        Box::new(ConnSetMark {
            table: NO_TABLE,
            mark: 0,
        })
    },
};

/// Most marks of an element.
const MAX_MARKS: usize = 4096;
/// No output names the mark.
const UNNAMED: &str = "a connection's mark that no output is for";

/// The table is told that connections have marks.
fn has_marks(t: &mut ConnTable) {
    t.settings.marks = true;
}

fn number(index: usize, text: &str, errors: &mut ConfigErrors) -> u32 {
    text.trim().parse().unwrap_or_else(|_| {
        let why = format!("expected a number of 32 bits, found '{text}'");
        errors.push(ConfigError::at(index, "MARK", why));
        0
    })
}

#[derive(Debug, Clone)]
struct ConnMark {
    table: StateId,
    marks: Vec<u32>,
}

impl Element for ConnMark {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let name: Option<AnyArg> = args.mandatory("TABLE");
        let rest = args.rest();
        let mut errors = Vec::new();
        self.marks.clear();
        for (index, text) in rest {
            self.marks.push(number(index, text, &mut errors));
        }
        if self.marks.len() > MAX_MARKS {
            errors.push(ConfigError::new(format!("more than {MAX_MARKS} marks")));
        } else if self.marks.len() + 1 != cx.noutputs && errors.is_empty() {
            errors.push(ConfigError::new(format!(
                "{} outputs and {} marks: there must be an output for each, and one behind them for packets without a \
                 connection",
                cx.noutputs,
                self.marks.len()
            )));
        }
        self.table = finish(args, name, cx, errors, has_marks)?;
        Ok(())
    }

    is_asked!();

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let table = cx.store.get::<ConnTable>(self.table);
        let mark = table.and_then(ConnTable::mark_in_hand);
        let output = match mark {
            None => Some(self.marks.len()),
            Some(m) => self.marks.iter().position(|x| *x == m),
        };
        cx.decide(output.map(|o| o + 1), || match mark {
            None => "no connection".to_string(),
            Some(m) => format!("the connection has mark {m:#x}"),
        });
        match output {
            Some(o) => cx.emit_or_drop(o, p, "unconnected output"),
            None => cx.drop(p, UNNAMED),
        }
    }

    uses_table!(table);
}

#[derive(Debug, Clone)]
struct ConnSetMark {
    table: StateId,
    mark: u32,
}

impl Element for ConnSetMark {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let name: Option<AnyArg> = args.mandatory("TABLE");
        let mark: Option<u32> = args.mandatory("MARK");
        self.mark = mark.unwrap_or(0);
        self.table = finish(args, name, cx, Vec::new(), has_marks)?;
        Ok(())
    }

    is_asked!();

    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        let table = cx.store.get_mut::<ConnTable>(self.table);
        let set = table.is_some_and(|t| t.set_mark_in_hand(self.mark));
        cx.decide(None, || match set {
            true => format!("the connection gets mark {:#x}", self.mark),
            false => "no connection".to_string(),
        });
        cx.emit(0, p);
    }

    uses_table!(table);
}
