//! Elements with next to no behaviour: Null, Discard, Idle, Tee.

use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::{Case, Cond, Exit, Model, ModelCx, Op};
use onefold_element::reason::Reason;
use onefold_element::{
    Accounts, ConfigCx, ConfigErrors, Cx, DropReason, Effect, Element, ElementClass, InitCx, Port,
    TaskStatus, element_any,
};
use onefold_packet::{Pkt, Timestamp};

/// `Null`.
pub const NULL: ElementClass = ElementClass {
    name: "Null",
    ports: "1/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "",
    summary: "passes packets on unchanged",
    new: || Box::new(Null),
};

#[derive(Debug, Clone)]
struct Null;

impl Element for Null {
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.emit(0, p);
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        (0, batch.len())
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::pass([])
    }
    element_any!();
}

/// `EnsureDPDKBuffer` (FastClick): whoever sends a frame sees to it that it is where the device wants it.
pub const ENSURE_DPDK_BUFFER: ElementClass = ElementClass {
    name: "EnsureDPDKBuffer",
    usage: "[FORCE_COPY, EXTRA_HEADROOM, keyword FAIL]",
    summary: "passes packets on unchanged: ports put frames into their device's memory themselves",
    new: || Box::new(EnsureDpdkBuffer),
    ..NULL
};

#[derive(Debug, Clone)]
struct EnsureDpdkBuffer;

impl Element for EnsureDpdkBuffer {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        let _: Option<bool> = args.optional("FORCE_COPY");
        let _: Option<u32> = args.optional("EXTRA_HEADROOM");
        let _: Option<bool> = args.keyword("FAIL");
        args.finish()
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.emit(0, p);
    }
    fn passes(&self) -> bool {
        true
    }
    fn pass(&mut self, batch: &mut [Pkt], _: Timestamp) -> (Port, usize) {
        (0, batch.len())
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::pass([])
    }
    element_any!();
}

/// `Discard`.
pub const DISCARD: ElementClass = ElementClass {
    name: "Discard",
    ports: "1/0",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::CommutativeCount,
    usage: "[keywords ACTIVE, BURST, REASON]",
    summary: "drops every packet; pulls when its input is pull",
    new: || {
        Box::new(Discard {
            active: true,
            burst: 1,
            count: 0,
            pulls: false,
            reason: "Discard",
        })
    },
};

#[derive(Debug, Clone)]
struct Discard {
    active: bool,
    burst: u32,
    count: u64,
    pulls: bool,
    /// What is said of the packets that end here.
    reason: DropReason,
}

impl Element for Discard {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.active = args.keyword("ACTIVE").unwrap_or(true);
        self.burst = args.keyword("BURST").unwrap_or(1).max(1);
        if let Some(Reason(r)) = args.keyword("REASON") {
            self.reason = r;
        }
        args.finish()
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        self.count += 1;
        cx.drop(p, self.reason);
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let case = Case::new(Cond::Always, Exit::Drop(self.reason));
        Model::Cases(vec![case.with([Op::Count(0)])])
    }
    /// Tag 0: dropped.
    fn account(&mut self, _: u16, packets: u64, _: u64, _: &mut Cx<'_>) {
        self.count += packets;
    }
    fn accounts(&self, _: u16) -> Accounts {
        Accounts::Later
    }
    fn push_batch(&mut self, _: Port, batch: &mut Vec<Pkt>, cx: &mut Cx<'_>) {
        self.count += batch.len() as u64;
        cx.drop_batch(batch, self.reason);
    }
    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        self.pulls = cx.input_is_pull(0);
        Ok(())
    }
    fn has_task(&self) -> bool {
        self.pulls
    }
    fn task_active(&self) -> bool {
        self.active
    }
    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        if !self.active {
            return TaskStatus::Sleep;
        }
        for _ in 0..self.burst {
            match cx.pull(0) {
                Some(p) => self.push(0, p, cx),
                None => return TaskStatus::Sleep,
            }
        }
        TaskStatus::Reschedule
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("count"),
            HandlerInfo::button("reset_counts").counts(),
            HandlerInfo::rw("active"),
        ];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "count" => Ok(self.count.to_string()),
            "active" => Ok(self.active.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "reset_counts" => self.count = 0,
            "active" => {
                self.active = onefold_element::handler::parse_bool(value)?;
                if self.active {
                    cx.wake_task();
                }
            }
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}

/// `Idle`.
pub const IDLE: ElementClass = ElementClass {
    name: "Idle",
    ports: "-/-",
    processing: "a/a",
    flow: "x/y",
    effect: Effect::CommutativeCount,
    usage: "",
    summary: "drops what is pushed in, gives nothing when pulled",
    new: || Box::new(Idle),
};

#[derive(Debug, Clone)]
struct Idle;

impl Element for Idle {
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        cx.drop(p, "Idle");
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        Model::Cases(vec![Case::new(Cond::Always, Exit::Drop("Idle"))])
    }
    fn pull(&mut self, _: Port, _: &mut Cx<'_>) -> Option<Pkt> {
        None
    }
    element_any!();
}

/// `Tee`.
pub const TEE: ElementClass = ElementClass {
    name: "Tee",
    ports: "1/1-",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::Pure,
    usage: "[N]",
    summary: "sends a copy of each packet to every output",
    new: || Box::new(Tee),
};

#[derive(Debug, Clone)]
struct Tee;

impl Element for Tee {
    fn multiplies(&self) -> bool {
        true
    }
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let n: Option<usize> = args.optional("N");
        if n.is_some_and(|n| n != cx.noutputs) {
            args.error(format!(
                "N: must be the number of connected outputs, {}",
                cx.noutputs
            ));
        }
        args.finish()
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        // Click sends clones to outputs 0..n-1 in order and the packet itself to the last.
        let last = cx.noutputs.saturating_sub(1);
        for port in 0..last {
            let copy = cx.copy(&p);
            cx.emit(port, copy);
        }
        cx.emit(last, p);
    }
    fn model(&self, _: Port, cx: &ModelCx<'_>) -> Model {
        let all = (0..cx.noutputs.max(1)).collect();
        Model::Cases(vec![Case::new(Cond::Always, Exit::Each(all))])
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    #[test]
    fn buffers_are_ensured_by_whoever_sends() {
        let mut b = Bench::new("EnsureDPDKBuffer", "true, 32, FAIL false", 1, 1).unwrap();
        let out = b.push(0, b"frame");
        assert_eq!(
            (out.len(), out[0].0, out[0].1.data()),
            (1, 0, &b"frame"[..])
        );
        assert!(Bench::new("EnsureDPDKBuffer", "perhaps", 1, 1).is_err());
    }

    #[test]
    fn discard_says_why() {
        let mut b = Bench::new("Discard", "REASON \"not wanted, here\"", 1, 0).unwrap();
        b.push(0, b"x");
        assert_eq!(b.drops()["not wanted, here"], 1);
        let long = format!("REASON \"{}\"", "x".repeat(201));
        for wrong in [
            "REASON two words",
            "REASON \"\"",
            "REASON \"a\\<07>\"",
            &long,
        ] {
            assert!(Bench::new("Discard", wrong, 1, 0).is_err(), "{wrong}");
        }
    }

    #[test]
    fn discard_counts_and_can_be_reset() {
        let mut b = Bench::new("Discard", "", 1, 0).unwrap();
        assert!(b.push(0, b"x").is_empty());
        assert_eq!(b.read("count").unwrap(), "1");
        b.write("reset_counts", "").unwrap();
        assert_eq!(b.read("count").unwrap(), "0");
        assert_eq!(b.drops()["Discard"], 1);
        let e = Bench::new("Discard", "ACTIVE maybe", 1, 0).err().unwrap();
        assert_eq!(
            e,
            ["ACTIVE: expected a boolean (true or false), found 'maybe'"]
        );
    }

    #[test]
    fn tee_copies_in_port_order() {
        let mut b = Bench::new("Tee", "", 1, 3).unwrap();
        let out = b.push(0, b"abc");
        let ports: Vec<usize> = out.iter().map(|(p, _)| *p).collect();
        assert_eq!(ports, [0, 1, 2]);
        assert!(out.iter().all(|(_, p)| p.data() == b"abc"));
        assert_eq!(b.out.created, 2);
        assert!(Bench::new("Tee", "2", 1, 3).is_err());
    }
}
