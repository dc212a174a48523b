//! FromDump: packets from a capture file.
//!
//! Click element FromDump, with FastClick's keywords for speed accepted. Beyond Click it reads pcapng. `-` is standard
//! input.
//!
//! Bound to a port, it opens no file: packets that arrive at the port take the way of packets that were read (SAMPLE,
//! FORCE_IP, START and END apply; STOP, END_CALL and TIMING do not).
//!
//! Differences from Click: a frame may have up to 262,144 bytes instead of 65,535; a file position can be chosen only
//! in named pcap files; a compressed file is unpacked here, by gzip's format only.

use super::link;
use super::to_dump::{Encap, os_error};
use super::util::{AtEnd, Own, value};
use onefold_capture::{CaptureError, CaptureReader, LinkType, Reason};
use onefold_element::args::{Args, Filename, Fixed, Seconds};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult, parse_bool};
use onefold_element::model::build::Cases;
use onefold_element::model::{Exit, Model, ModelCx, Op};
use onefold_element::unparse::fixed_point;
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, InitCx, IoRole, Port,
    StateId, TaskStatus, TimerId, element_any, element_takes,
};
use onefold_packet::{Pkt, Timestamp, anno_field};

/// `FromDump`.
pub const FROM_DUMP: ElementClass = ElementClass {
    name: "FromDump",
    ports: "0/1-2",
    processing: "a/ah",
    flow: "x/x",
    effect: Effect::Originating,
    usage: "FILENAME [, TIMING, keywords STOP, ACTIVE, SAMPLE, FORCE_IP, START, START_AFTER, END, END_AFTER, INTERVAL, \
            END_CALL, FILEPOS, MMAP]",
    summary: "reads packets from a capture file",
    new: || Box::new(FromDump::default()),
};

/// Bits of fraction of SAMPLE.
const SAMPLING_BITS: u32 = 28;
/// Certainty.
const ALWAYS: u32 = 1 << SAMPLING_BITS;
/// Packets passed over in one turn.
const MAX_PASSED_OVER: u32 = 16;

/// What reading on gave.
enum Next {
    Packet(Pkt),
    /// A packet that is not to be emitted.
    PassedOver,
    End,
}

#[derive(Debug, Clone, Default)]
struct FromDump {
    path: String,
    reader: Own<CaptureReader>,
    buffer: Vec<u8>,
    link: u32,
    published: Option<StateId>,
    push: bool,
    bound: bool,
    active: bool,
    timing: bool,
    force_ip: bool,
    sampling: u32,
    at_end: Option<AtEnd>,
    first_time: Timestamp,
    last_time: Timestamp,
    have_first_time: bool,
    have_last_time: bool,
    first_time_relative: bool,
    last_time_relative: bool,
    last_time_interval: bool,
    have_any_times: bool,
    /// The clock's lead over the file.
    timing_offset: Timestamp,
    /// Where to start in the file, or where the last packet began.
    packet_position: u64,
    /// A packet whose time has not come.
    waiting: Option<Pkt>,
    passed_over: u32,
    count: u64,
}

impl FromDump {
    fn times(&mut self, args: &mut Args<'_>) {
        let mut time = |name: &str| -> Option<Timestamp> {
            let t: Option<Seconds> = args.keyword(name);
            t.map(|Seconds(t)| t).filter(|t| t.is_set())
        };
        let (start, start_after) = (time("START"), time("START_AFTER"));
        let (end, end_after, interval) = (time("END"), time("END_AFTER"), time("INTERVAL"));
        self.have_first_time = start.is_some() || start_after.is_some();
        self.first_time_relative = start.is_none();
        self.first_time = start.or(start_after).unwrap_or_default();
        self.have_last_time = end.is_some() || end_after.is_some() || interval.is_some();
        self.last_time_relative = end_after.is_some();
        self.last_time_interval = interval.is_some();
        self.last_time = end.or(end_after).or(interval).unwrap_or_default();
        if start.is_some() && start_after.is_some() {
            args.error("START and START_AFTER are mutually exclusive");
        }
        let ends = [end, end_after, interval];
        if ends.iter().flatten().count() > 1 {
            args.error("END, END_AFTER, and INTERVAL are mutually exclusive");
        }
    }

    fn prepare_times(&mut self, t: Timestamp, now: Timestamp) {
        if self.first_time_relative {
            self.first_time = self.first_time + t;
        }
        if self.last_time_relative {
            self.last_time = self.last_time + t;
        } else if self.last_time_interval {
            self.last_time = self.last_time + self.first_time;
        }
        if self.timing {
            self.timing_offset = now - t;
        }
        self.have_any_times = true;
    }

    fn open(&mut self) -> Result<(), ConfigErrors> {
        let opened = match self.path.as_str() {
            "-" => CaptureReader::from_reader(std::io::stdin()),
            path => CaptureReader::open(path),
        };
        let shown = self.shown_name();
        let mut reader = opened.map_err(|e| vec![ConfigError::new(open_error(&shown, &e))])?;
        if self.packet_position != 0 {
            let to = std::mem::take(&mut self.packet_position);
            reader.seek(to).map_err(|e| {
                let m = format!("FILEPOS out of range ({e})");
                vec![ConfigError::new(m)]
            })?;
        }
        self.link = reader.link().unwrap_or(LinkType::ETHERNET).0;
        self.reader = Own(Some(reader));
        if self.force_ip {
            if !link::knows_ip(self.link) {
                let m = format!(
                    "{shown}: unknown linktype {}; can't force IP packets",
                    self.link
                );
                return Err(vec![ConfigError::new(m)]);
            }
        } else if self.link == link::RAW {
            self.force_ip = true;
        }
        Ok(())
    }

    fn shown_name(&self) -> String {
        match self.path.as_str() {
            "-" => "<stdin>".to_string(),
            p => p.to_string(),
        }
    }

    fn set_active(&mut self, active: bool, cx: &mut Cx<'_>) {
        self.active = active;
        if active {
            match self.push {
                true => cx.wake_task(),
                false => cx.notify_nonempty(),
            }
        }
    }

    fn stop(&mut self, cx: &mut Cx<'_>) {
        self.set_active(false, cx);
        cx.host.stop();
    }

    /// What is to happen at the end of the file or of the time asked for, at once.
    fn ended(&mut self, cx: &mut Cx<'_>) {
        match self.at_end.clone() {
            Some(AtEnd::Stop) => self.stop(cx),
            Some(AtEnd::Call(name, value)) => {
                let own = match name.split_once('.') {
                    Some((element, handler)) => {
                        let e = cx.host.find_element(cx.elem, element);
                        (e == Some(cx.elem)).then_some(handler)
                    }
                    None => Some(name.as_str())
                        .filter(|n| self.handlers().iter().any(|h| h.name == *n && h.writable())),
                };
                // a handler that refuses has nobody to tell
                let _ = match own {
                    Some(handler) => self.write(handler, &value, cx),
                    None => cx
                        .host
                        .write_handler(cx.elem, &name, &value, cx.out, cx.store),
                };
            }
            None => {}
        }
    }

    /// Is a packet of time `t` wanted?
    fn admit(&mut self, t: Timestamp, cx: &mut Cx<'_>) -> Option<bool> {
        if !self.have_any_times {
            self.prepare_times(t, cx.now);
        }
        if self.have_first_time {
            if t < self.first_time {
                return Some(false);
            }
            self.have_first_time = false;
        }
        // Bound: what is called at the end may put the end off, at most once per call.
        for _ in 0..MAX_PASSED_OVER {
            if !self.have_last_time || t < self.last_time {
                break;
            }
            self.have_last_time = false;
            self.ended(cx);
            if !self.active {
                return None;
            }
        }
        let sampled = self.sampling >= ALWAYS || (cx.random() & (ALWAYS - 1)) < self.sampling;
        Some(sampled)
    }

    fn read_on(&mut self, cx: &mut Cx<'_>) -> Next {
        let Some(reader) = self.reader.0.as_mut() else {
            return Next::End;
        };
        self.packet_position = reader.offset();
        let meta = match reader.next_into(&mut self.buffer) {
            Some(Ok(meta)) => meta,
            None => return Next::End,
            // a file that ends within a packet ends there
            Some(Err(e)) => {
                if !matches!(e.reason, Reason::Truncated { .. }) {
                    let name = self.shown_name();
                    cx.chatter(&format!("{name}: bad packet header; giving up\n"));
                }
                return Next::End;
            }
        };
        let t = Timestamp(meta.ts_ns);
        match self.admit(t, cx) {
            None => return Next::End,
            Some(false) => return Next::PassedOver,
            Some(true) => {}
        }
        // some programs record more bytes than the packet had
        let wire = meta.orig_len as usize;
        self.buffer.truncate(wire);
        let mut p = cx.make(&self.buffer);
        p.anno.timestamp = t;
        let missing = wire.saturating_sub(self.buffer.len()) as u32;
        p.anno
            .set_u32(usize::from(anno_field::EXTRA_LENGTH.offset), missing);
        p.set_mac_header(0);
        Next::Packet(p)
    }

    /// Has the time of this packet come? Sets the timer if not.
    fn is_due(&self, p: &Pkt, cx: &mut Cx<'_>) -> bool {
        let due = p.anno.timestamp + self.timing_offset;
        if cx.now < due {
            cx.set_timer(0, due);
            return false;
        }
        true
    }

    /// Sets the header annotations of an IP packet; false for any other.
    fn is_ip(&self, p: &mut Pkt) -> bool {
        let Some(h) = link::find_ip(p.data(), self.link) else {
            return false;
        };
        p.set_network_header(h.offset as isize, h.len);
        if let Some(dst) = h.dst {
            p.anno.set_dst_ip(dst);
        }
        true
    }
}

const NOT_IP: &str = "FromDump: not IP";

fn open_error(name: &str, e: &CaptureError) -> String {
    let why = match &e.reason {
        Reason::Open(e) => os_error(e),
        Reason::Empty => "empty file".to_string(),
        Reason::Truncated { .. } => "not a tcpdump file (too short)".to_string(),
        Reason::NotACapture { .. } => "not a tcpdump file (bad magic number)".to_string(),
        other => other.to_string(),
    };
    format!("{name}: {why}")
}

impl Element for FromDump {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let _: Option<bool> = args.keyword("MMAP");
        self.path = args
            .mandatory("FILENAME")
            .map_or(String::new(), |Filename(f)| f);
        self.timing = args.optional("TIMING").unwrap_or(false);
        self.active = args.keyword("ACTIVE").unwrap_or(true);
        let sample: Option<Fixed<SAMPLING_BITS>> = args.keyword("SAMPLE");
        self.sampling = sample.map_or(ALWAYS, |Fixed(s)| s);
        self.force_ip = args.keyword("FORCE_IP").unwrap_or(false);
        self.times(args);
        self.at_end = AtEnd::configure(args);
        if self.at_end.is_none() && self.have_last_time {
            self.at_end = Some(AtEnd::switch_off());
        }
        self.packet_position = args.keyword("FILEPOS").unwrap_or(0);
        for tuning in [
            "BURST",
            "PRELOAD",
            "FORCE_LEN",
            "ACCELERATION",
            "TIMING_FNT",
        ] {
            let _: Option<onefold_element::args::AnyArg> = args.keyword(tuning);
        }
        if self.sampling > ALWAYS {
            args.warning("SAMPLE probability reduced to 1");
            self.sampling = ALWAYS;
        } else if self.sampling == 0 {
            args.warning("SAMPLE probability is 0; emitting no packets");
        }
        self.link = link::ETHER;
        let id = cx.store.alloc(Box::new(Encap(self.link)));
        cx.store.publish(cx.elem, id);
        self.published = Some(id);
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        self.bound = cx.bound;
        self.push = cx.output_is_push(0);
        if self.bound {
            self.at_end = Some(AtEnd::switch_off());
        } else {
            self.open()?;
            if let Some(encap) = self.published.and_then(|id| cx.store.get_mut::<Encap>(id)) {
                encap.0 = self.link;
            }
        }
        Ok(())
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        if !self.active {
            return Cases::new().otherwise([], Exit::Drop("FromDump: not active"));
        }
        if self.have_first_time || self.have_last_time {
            return Model::None("FromDump: chooses packets by their time");
        }
        if self.sampling < ALWAYS {
            return Model::None("FromDump: chooses packets by chance");
        }
        if self.force_ip {
            if self.link != link::ETHER {
                return Model::None("FromDump: looks for the IP header behind a rare link header");
            }
            let bad = Exit::PortOrDrop(1, NOT_IP);
            return link::find_ip_model(false, &[Op::SetMac { at: 0 }], &[Op::Count(0)], bad);
        }
        Cases::new().otherwise([Op::SetMac { at: 0 }, Op::Count(0)], Exit::Port(0))
    }
    /// Tag 0: arrived.
    fn account(&mut self, _: u16, packets: u64, _: u64, _: &mut Cx<'_>) {
        self.count += packets;
    }

    /// A packet arrives at the port that this element is bound to.
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if !self.active {
            cx.drop(p, "FromDump: not active");
            return;
        }
        if self.admit(p.anno.timestamp, cx) != Some(true) {
            cx.drop(p, "FromDump: not wanted");
            return;
        }
        p.set_mac_header(0);
        if self.force_ip && !self.is_ip(&mut p) {
            cx.emit_or_drop(1, p, NOT_IP);
            return;
        }
        self.count += 1;
        cx.emit(0, p);
    }

    fn has_task(&self) -> bool {
        self.push && !self.bound
    }
    fn task_active(&self) -> bool {
        self.has_task() && self.active
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        if !self.active {
            return TaskStatus::Sleep;
        }
        let mut packet = self.waiting.take();
        while packet.is_none() {
            match self.read_on(cx) {
                Next::Packet(p) => packet = Some(p),
                Next::End => {
                    self.ended(cx);
                    return TaskStatus::Sleep;
                }
                Next::PassedOver => {
                    self.passed_over += 1;
                    if self.passed_over >= MAX_PASSED_OVER {
                        self.passed_over = 0;
                        return TaskStatus::Reschedule;
                    }
                }
            }
        }
        let Some(mut p) = packet else {
            return TaskStatus::Sleep;
        };
        if self.timing && !self.is_due(&p, cx) {
            self.waiting = Some(p);
            return TaskStatus::Sleep;
        }
        if self.force_ip && !self.is_ip(&mut p) {
            cx.emit_or_drop(1, p, NOT_IP);
            self.passed_over += 1;
            if self.passed_over < MAX_PASSED_OVER {
                return TaskStatus::Again;
            }
        } else {
            self.count += 1;
            cx.emit(0, p);
        }
        self.passed_over = 0;
        TaskStatus::Reschedule
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        if !self.active {
            return None;
        }
        // Bound: every turn consumes a packet of the file.
        loop {
            let mut p = match self.waiting.take() {
                Some(p) => p,
                None => match self.read_on(cx) {
                    Next::Packet(p) => p,
                    Next::PassedOver => continue,
                    Next::End => {
                        self.ended(cx);
                        return None;
                    }
                },
            };
            if self.timing && !self.is_due(&p, cx) {
                self.waiting = Some(p);
                return None;
            }
            if self.force_ip && !self.is_ip(&mut p) {
                cx.emit_or_drop(1, p, NOT_IP);
                continue;
            }
            self.count += 1;
            return Some(p);
        }
    }

    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        if self.active {
            self.set_active(true, cx);
        }
    }

    fn io_role(&self) -> Option<IoRole> {
        Some(IoRole::Source {
            name: self.path.clone(),
        })
    }

    fn held(&self) -> usize {
        usize::from(self.waiting.is_some())
    }
    fn drain_held(&mut self, _: &mut Cx<'_>) -> Vec<Pkt> {
        self.waiting.take().into_iter().collect()
    }

    fn cleanup(&mut self, _: &mut Cx<'_>) {
        self.reader = Own(None);
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("filename"),
            HandlerInfo::r("filesize"),
            HandlerInfo::rw("filepos"),
            HandlerInfo::r("sampling_prob"),
            HandlerInfo::rw("active"),
            HandlerInfo::r("encap"),
            HandlerInfo::button("stop"),
            HandlerInfo::r("packet_filepos"),
            HandlerInfo::w("extend_interval"),
            HandlerInfo::r("count"),
            HandlerInfo::button("reset_counts").counts(),
            HandlerInfo::button("reset_timing"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "filename" => self.shown_name(),
            "filesize" => {
                let plain = self.reader.0.as_ref().is_some_and(|r| !r.is_compressed());
                let size = std::fs::metadata(&self.path).ok().filter(|m| m.is_file());
                match size {
                    Some(m) if plain => m.len().to_string(),
                    _ => "-".to_string(),
                }
            }
            "filepos" => self.reader.0.as_ref().map_or(0, |r| r.offset()).to_string(),
            "sampling_prob" => fixed_point(i64::from(self.sampling), SAMPLING_BITS),
            "active" => self.active.to_string(),
            "encap" => link::unparse(self.link),
            "packet_filepos" => self.packet_position.to_string(),
            "count" => self.count.to_string(),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        })
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let bad = |m: &str| HandlerError::BadValue(m.to_string());
        match name {
            "filepos" => {
                let to: u64 = value(text).map_err(|_| bad("argument must be file offset"))?;
                if let Some(r) = self.reader.0.as_mut() {
                    r.seek(to).map_err(|_| bad("FILEPOS out of range"))?;
                }
            }
            "active" => {
                let active = parse_bool(text).map_err(|_| bad("type mismatch"))?;
                self.set_active(active, cx);
            }
            "stop" => self.stop(cx),
            "extend_interval" => {
                let Seconds(t) =
                    value(text).map_err(|_| bad("'extend_interval' takes a time interval"))?;
                self.last_time = self.last_time + t;
                if self.at_end.is_some() {
                    self.have_last_time = true;
                    self.set_active(true, cx);
                }
            }
            "reset_counts" => self.count = 0,
            "reset_timing" => {
                self.first_time_relative = false;
                self.last_time_relative = false;
                self.last_time_interval = false;
                self.have_any_times = false;
            }
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_takes!(count);
    element_any!();
}

#[cfg(test)]
mod tests;
