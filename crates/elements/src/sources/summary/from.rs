//! FromIPSummaryDump: packets from a summary dump.
//!
//! Bound to a port, it opens no file: packets that arrive at the port pass, with their IP header annotations set.
//!
//! Differences from Click: FLOWID and `!flowid` set addresses and ports, as documented; what the dump does not set is
//! zero even if ZERO is false; a compressed file is unpacked here, by gzip's format only; a file position cannot be
//! set.

use super::MINOR_VERSION;
use super::builder::{Builder, Flow};
use super::field::{self, Field, IGNORED, Info};
use super::input::{self, Known, Read};
use super::lines::Lines;
use super::view::first_timestamp;
use crate::sources::link;
use crate::sources::to_dump::{Encap, os_error};
use crate::sources::util::{Own, value};
use onefold_element::args::{AnyArg, Args, Data, Filename, Fixed, split_words, unquote};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult, parse_bool};
use onefold_element::model::build::Cases;
use onefold_element::model::{Exit, Model, ModelCx};
use onefold_element::unparse::fixed_point;
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, InitCx, IoRole, Port,
    TaskStatus, TimerId, element_any,
};
use onefold_packet::{MAX_PACKET_LEN, Pkt, Timestamp, anno_field};
use std::net::Ipv4Addr;

/// `FromIPSummaryDump`.
pub const FROM_IP_SUMMARY_DUMP: ElementClass = ElementClass {
    name: "FromIPSummaryDump",
    ports: "0/1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::Originating,
    usage: "FILENAME [, keywords STOP, TIMING, ACTIVE, ZERO, CHECKSUM, PROTO, MULTIPACKET, SAMPLE, FIELDS, FLOWID, \
            ALLOW_NONEXISTENT, DATA]",
    summary: "makes packets of a file with a line of fields for each",
    new: || Box::new(FromSummary::default()),
};

const SAMPLING_BITS: u32 = 28;
const ALWAYS: u32 = 1 << SAMPLING_BITS;
const EXTRA_PACKETS: usize = anno_field::EXTRA_PACKETS.offset as usize;
const EXTRA_LENGTH: usize = anno_field::EXTRA_LENGTH.offset as usize;
/// Packets left out by SAMPLE in one turn.
const MAX_PASSED_OVER: u32 = 1000;

/// What reading a line gave.
enum Next {
    Packet(Pkt),
    /// A line that makes no packet, or too many that are left out.
    Nothing,
    /// A packet whose time has not come; the timer is set.
    Wait,
    End,
}

#[derive(Debug, Clone, Default)]
struct FromSummary {
    path: String,
    text: Option<Vec<u8>>,
    lines: Own<Lines>,
    ended: bool,
    fields: Vec<&'static Info>,
    /// Indices into `fields`, in the order in which they are set.
    order: Vec<usize>,
    proto: u8,
    flow: Option<Flow>,
    stop: bool,
    active: bool,
    checksum: bool,
    multipacket: bool,
    timing: bool,
    allow_nonexistent: bool,
    binary: bool,
    complained: bool,
    minor: u32,
    sampling: u32,
    push: bool,
    bound: bool,
    /// The clock's lead over the file.
    offset: Option<Timestamp>,
    /// A packet whose time has not come, or that stands for more.
    work: Option<Pkt>,
    /// Length of each but the last of the packets that `work` stands for, time between them, time of the last.
    share: Option<(u32, Timestamp, Timestamp)>,
}

/// Messages that reading gives rise to, in order.
type Notes = Vec<String>;

impl FromSummary {
    fn shown_name(&self) -> String {
        match self.path.as_str() {
            _ if self.text.is_some() => "<data>".to_string(),
            "-" | "" => "<stdin>".to_string(),
            p => p.to_string(),
        }
    }

    /// The place that was read last, for messages.
    fn place(&self) -> String {
        let n = self.lines.0.as_ref().map_or(0, |l| l.number);
        let record = if self.binary { "record " } else { "" };
        format!("{}:{record}{n}", self.shown_name())
    }

    fn set_fields(&mut self, text: &str, notes: &mut Notes) {
        self.fields.clear();
        for (i, w) in split_words(text).iter().enumerate() {
            let w = String::from_utf8_lossy(&unquote(w)).into_owned();
            if i == 0 && (w == "!data" || w == "!contents") {
                continue;
            }
            let found = field::find(&w);
            if found.is_none_or(|i| i.order.is_none()) {
                notes.push(format!("warning: unknown content type '{w}'"));
            }
            self.fields.push(found.unwrap_or(IGNORED));
        }
        if self.fields.is_empty() {
            notes.push("no contents specified".to_string());
        }
        self.order = (0..self.fields.len()).collect();
        let order = |i: &usize| self.fields.get(*i).and_then(|f| f.order).unwrap_or(0);
        self.order.sort_by_key(order);
    }

    fn set_proto(&mut self, words: &[&str], what: &str, notes: &mut Notes) {
        let [word] = words else {
            notes.push(format!("bad {what}"));
            return;
        };
        let named = onefold_element::NameDb::builtin().ip_protocol(word);
        self.proto = match (*word, named) {
            ("T", _) => 6,
            ("U", _) => 17,
            ("I", _) => 1,
            (_, Some(p)) => p,
            (w, None) => match value(w) {
                Ok(p) => p,
                Err(_) => {
                    notes.push(format!("bad protocol in {what}"));
                    return;
                }
            },
        };
    }

    fn set_flow(&mut self, words: &[&str], notes: &mut Notes) {
        fn part<T: onefold_element::args::FromArg + Default>(w: &str) -> Option<T> {
            match w {
                "-" => Some(T::default()),
                w => value(w).ok(),
            }
        }
        let address = |w: &str| -> Option<[u8; 4]> {
            match w {
                "-" => Some([0; 4]),
                w => value::<Ipv4Addr>(w).ok().map(|a| a.octets()),
            }
        };
        let parsed = match words {
            [src, sport, dst, dport, rest @ ..] if rest.len() <= 1 => {
                let flow = || {
                    Some(Flow {
                        src: address(src)?,
                        sport: part(sport)?,
                        dst: address(dst)?,
                        dport: part(dport)?,
                    })
                };
                flow().map(|f| (f, rest))
            }
            _ => None,
        };
        match parsed {
            Some((flow, proto)) => {
                if !proto.is_empty() {
                    self.set_proto(proto, "!flowid", notes);
                }
                self.flow = Some(flow);
            }
            None => {
                notes.push("bad !flowid specification".to_string());
                self.flow = None;
            }
        }
    }

    /// A line that starts with `!`.
    fn directive(&mut self, line: &str, notes: &mut Notes) {
        let words = split_words(line);
        let (first, rest) = words.split_first().unwrap_or((&"", &[]));
        match *first {
            "!data" | "!contents" => self.set_fields(line, notes),
            "!flowid" => self.set_flow(rest, notes),
            "!proto" => self.set_proto(rest, "!proto", notes),
            "!aggregate" if rest.len() != 1 || value::<u32>(rest[0]).is_err() => {
                notes.push("bad !aggregate specification".to_string());
            }
            "!binary" => {
                if !rest.is_empty() {
                    notes.push("bad !binary specification".to_string());
                }
                self.binary = true;
                if let Some(l) = self.lines.0.as_mut() {
                    l.number = 1;
                }
            }
            _ => {}
        }
    }

    /// Reads the banner, if there is one.
    fn banner(&mut self, notes: &mut Notes) -> std::io::Result<()> {
        self.minor = MINOR_VERSION;
        let Some(lines) = self.lines.0.as_mut() else {
            return Ok(());
        };
        let line = String::from_utf8_lossy(lines.peek()?).into_owned();
        if let Some(version) = line.strip_prefix("!IPSummaryDump") {
            let version = version.trim();
            if let Some((a, b)) = version.split_once('.')
                && let (Ok(major), Ok(minor)) = (a.parse::<u32>(), b.parse::<u32>())
            {
                self.minor = minor;
                if major != 1 || minor > MINOR_VERSION {
                    notes.push(format!(
                        "warning: unexpected IPSummaryDump version {major}.{minor}"
                    ));
                    self.minor = MINOR_VERSION;
                }
            }
            lines.line()?;
            return Ok(());
        }
        let known = ["!creator", "!data", "!contents", "!proto", "!flowid"];
        if !known.iter().any(|k| line.starts_with(k)) && self.fields.is_empty() {
            notes.push("warning: missing banner line; is this an IP summary dump?".to_string());
        }
        Ok(())
    }

    /// The next packet line or record.
    fn read_line(&mut self, notes: &mut Notes) -> Option<(bool, Vec<u8>)> {
        loop {
            let was_binary = self.binary;
            let lines = self.lines.0.as_mut()?;
            let read = match was_binary {
                true => lines.record().map(|r| r.map(|(textual, b)| (!textual, b))),
                false => lines.line().map(|l| (!l.is_empty()).then_some((false, l))),
            };
            let (binary, line) = match read {
                Ok(r) => r?,
                Err(e) => {
                    notes.push(os_error(&e));
                    return None;
                }
            };
            match line.first() {
                None => {}
                Some(b'!') if !binary => {
                    let text = String::from_utf8_lossy(&line).into_owned();
                    self.directive(&text, notes);
                }
                Some(b'#') if !binary => {}
                Some(_) => return Some((binary, line)),
            }
        }
    }

    fn read_packet(&mut self, cx: &mut Cx<'_>) -> Next {
        if self.ended {
            return Next::End;
        }
        let mut notes = Notes::new();
        let next = match self.read_line(&mut notes) {
            None => {
                self.ended = true;
                Next::End
            }
            Some((binary, line)) => match self.make(binary, &line) {
                Some(b) => Next::Packet(into_packet(&b, cx)),
                None => {
                    let blank = !binary && line.iter().all(u8::is_ascii_whitespace);
                    if !self.complained && !blank {
                        self.complained = true;
                        notes.push(match self.fields.is_empty() {
                            true => "no '!data' provided".to_string(),
                            false => "packet parse error".to_string(),
                        });
                    }
                    Next::Nothing
                }
            },
        };
        if !notes.is_empty() {
            let place = self.place();
            for n in notes {
                cx.chatter(&format!("{place}: {n}\n"));
            }
        }
        if matches!(next, Next::End) {
            self.lines = Own(None);
        }
        next
    }

    /// A packet of a line's fields; nothing if none of them could be read.
    fn make(&self, binary: bool, line: &[u8]) -> Option<Builder> {
        let mut b = Builder::new(self.proto, self.flow);
        let mut read = 0;
        let mut set = |b: &mut Builder, field: Field, v: Option<Read>| {
            if let Some(v) = v {
                b.inject(field, &v);
                read += 1;
            }
        };
        if self.binary && binary {
            let mut rest = line;
            let mut values: Vec<Option<Read>> = Vec::with_capacity(self.fields.len());
            for f in &self.fields {
                let v = input::binary(f, &mut rest);
                if v.is_none() {
                    // a field that is cut off takes what follows it along
                    rest = &[];
                }
                values.push(v.filter(|_| f.order.is_some()));
            }
            for i in &self.order {
                if let (Some(f), Some(v)) = (self.fields.get(*i), values.get_mut(*i)) {
                    set(&mut b, f.field, v.take());
                }
            }
        } else {
            let words = words(line, self.fields.len());
            for i in &self.order {
                let (Some(f), Some(w)) = (self.fields.get(*i), words.get(*i)) else {
                    continue;
                };
                if f.order.is_none() || w.is_empty() || *w == b"-" {
                    continue;
                }
                let known = Known {
                    minor: self.minor,
                    icmp_type: b.icmp_type(),
                };
                let v = input::text(f, w, known);
                set(&mut b, f.field, v);
            }
        }
        if read == 0 {
            return None;
        }
        b.finish(self.checksum);
        Some(b)
    }

    fn is_due(&mut self, p: &Pkt, cx: &mut Cx<'_>) -> bool {
        let t = p.anno.timestamp;
        let offset = *self.offset.get_or_insert(cx.now - t);
        let due = t + offset;
        if cx.now < due {
            cx.set_timer(0, due);
        }
        cx.now >= due
    }

    /// Takes one packet out of one that stands for several.
    fn split(&mut self, mut p: Pkt, cx: &mut Cx<'_>) -> Pkt {
        let more = p.anno.u32(EXTRA_PACKETS);
        if more == 0 {
            self.share = None;
            return p;
        }
        let count = u64::from(more) + 1;
        let len = p.len() as u32;
        let (share, step, end) = *self.share.get_or_insert_with(|| {
            let total = u64::from(len) + u64::from(p.anno.u32(EXTRA_LENGTH));
            let share = u32::try_from(total / count).unwrap_or(u32::MAX).max(len);
            if total / count < u64::from(len) {
                // not enough for all of them
                let extra = u64::from(share) * (count - 1);
                p.anno
                    .set_u32(EXTRA_LENGTH, u32::try_from(extra).unwrap_or(u32::MAX));
            }
            let end = p.anno.timestamp;
            let first = first_timestamp(&p);
            let mut step = Timestamp::ZERO;
            if first.is_set() {
                step = Timestamp((end - first).0 / i64::from(more));
                p.anno.timestamp = first;
            }
            set_lengths(&mut p, share);
            (share, step, end)
        });
        let mut one = cx.copy(&p);
        one.anno.set_u32(EXTRA_PACKETS, 0);
        one.anno.set_u32(EXTRA_LENGTH, share.saturating_sub(len));
        p.anno.set_u32(EXTRA_PACKETS, more - 1);
        let left = p.anno.u32(EXTRA_LENGTH).saturating_sub(share);
        p.anno.set_u32(EXTRA_LENGTH, left);
        if count == 2 {
            p.anno.timestamp = end;
            set_lengths(&mut p, len.saturating_add(left));
        } else {
            p.anno.timestamp = p.anno.timestamp + step;
        }
        self.work = Some(p);
        one
    }

    /// The next packet to be emitted.
    fn next(&mut self, cx: &mut Cx<'_>) -> Next {
        for _ in 0..MAX_PASSED_OVER {
            let p = match self.work.take() {
                Some(p) => p,
                None => match self.read_packet(cx) {
                    Next::Packet(p) => p,
                    other => return other,
                },
            };
            if self.timing && !self.is_due(&p, cx) {
                self.work = Some(p);
                return Next::Wait;
            }
            let p = match self.multipacket {
                true => self.split(p, cx),
                false => p,
            };
            if self.sampling >= ALWAYS || (cx.random() & (ALWAYS - 1)) < self.sampling {
                return Next::Packet(p);
            }
            cx.drop(p, "FromIPSummaryDump: not sampled");
        }
        Next::Nothing
    }
}

/// The IP packet's length is `len`: says so in its headers.
fn set_lengths(p: &mut Pkt, len: u32) {
    const UDP: u8 = 17;
    let len = len as u16;
    let Some(ip) = p.network_mut() else { return };
    let Some(now) = ip.get_mut(2..4) else { return };
    if now == len.to_be_bytes() {
        return;
    }
    now.copy_from_slice(&len.to_be_bytes());
    let hl = ip.first().map_or(0, |b| u16::from(b & 15) * 4);
    if ip.get(9) == Some(&UDP)
        && let Some(udp) = p.transport_mut().and_then(|t| t.get_mut(4..6))
    {
        udp.copy_from_slice(&len.wrapping_sub(hl).to_be_bytes());
    }
}

fn into_packet(b: &Builder, cx: &mut Cx<'_>) -> Pkt {
    let data = b.data.get(..MAX_PACKET_LEN).unwrap_or(&b.data);
    let mut p = cx.make(data);
    p.anno = b.anno;
    if let Some(at) = b.mac {
        p.set_mac_header(at as isize);
    }
    if let Some((at, len)) = b.ip_header() {
        p.set_network_header(at as isize, len);
    } else if let Some(at) = b.network {
        p.set_network_header(at as isize, 0);
    }
    p
}

/// The first `n` words of a line; a double-quoted string is one, or a part of one.
fn words(line: &[u8], n: usize) -> Vec<&[u8]> {
    let mut out = Vec::with_capacity(n);
    let mut at = 0;
    let here = |at: usize| line.get(at).copied();
    while out.len() < n {
        let start = at;
        while let Some(c) = here(at).filter(|c| !c.is_ascii_whitespace()) {
            at += 1;
            if c == b'"' {
                while let Some(c) = here(at) {
                    at += if c == b'\\' { 2 } else { 1 };
                    if c == b'"' {
                        break;
                    }
                }
            }
        }
        at = at.min(line.len());
        out.push(line.get(start..at).unwrap_or_default());
        while here(at).is_some_and(|c| c.is_ascii_whitespace()) {
            at += 1;
        }
        if at >= line.len() {
            break;
        }
    }
    out
}

impl Element for FromSummary {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let path: Option<Filename> = args.optional("FILENAME");
        self.stop = args.keyword("STOP").unwrap_or(false);
        self.active = args.keyword("ACTIVE").unwrap_or(true);
        let _: Option<bool> = args.keyword("ZERO");
        self.timing = args.keyword("TIMING").unwrap_or(false);
        self.checksum = args.keyword("CHECKSUM").unwrap_or(false);
        let sample: Option<Fixed<SAMPLING_BITS>> = args.keyword("SAMPLE");
        self.sampling = sample.map_or(ALWAYS, |Fixed(s)| s);
        self.proto = args.keyword("PROTO").unwrap_or(6);
        self.multipacket = args.keyword("MULTIPACKET").unwrap_or(false);
        let mut fields: Option<AnyArg> = None;
        for k in ["DEFAULT_CONTENTS", "DEFAULT_FIELDS", "CONTENTS", "FIELDS"] {
            fields = args.keyword(k).or(fields);
        }
        let mut flow: Option<AnyArg> = None;
        for k in ["DEFAULT_FLOWID", "FLOWID"] {
            flow = args.keyword(k).or(flow);
        }
        self.allow_nonexistent = args.keyword("ALLOW_NONEXISTENT").unwrap_or(false);
        let data: Option<Data> = args.keyword("DATA");
        if self.sampling > ALWAYS {
            args.warning("SAMPLE probability reduced to 1");
            self.sampling = ALWAYS;
        } else if self.sampling == 0 {
            args.warning("SAMPLE probability is 0; emitting no packets");
        }
        let mut notes = Notes::new();
        if let Some(AnyArg(f)) = fields {
            self.set_fields(&f, &mut notes);
        }
        if let Some(AnyArg(f)) = flow {
            let all = split_words(&f);
            let words = match all.split_first() {
                Some((&"!flowid", rest)) => rest,
                _ => &all,
            };
            self.set_flow(words, &mut notes);
        }
        for n in notes {
            args.warning(n.trim_start_matches("warning: "));
        }
        match (path, data) {
            (Some(_), Some(_)) => args.error("FILENAME and DATA conflict"),
            (Some(Filename(p)), None) => self.path = p,
            (None, Some(Data(d))) if !d.is_empty() => self.text = Some(d),
            (None, _) => args.error("FILENAME: required argument missing"),
        }
        let id = cx.store.alloc(Box::new(Encap(link::RAW)));
        cx.store.publish(cx.elem, id);
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        self.bound = cx.bound;
        self.push = cx.output_is_push(0);
        if self.bound {
            return Ok(());
        }
        let name = self.shown_name();
        let opened = match (&self.text, self.path.as_str()) {
            (Some(t), _) => Ok(Lines::of(t.clone())),
            (None, "-") => Ok(Lines::stdin()),
            (None, path) => Lines::open(path),
        };
        let fail = |m: String| Err(vec![ConfigError::new(format!("{name}: {m}"))]);
        let mut lines = match opened {
            Ok(l) => l,
            Err(e) if e.kind() == std::io::ErrorKind::NotFound && self.allow_nonexistent => {
                self.ended = true;
                return Ok(());
            }
            Err(e) => return fail(os_error(&e)),
        };
        match lines.at_end() {
            Ok(false) => {}
            Ok(true) if self.allow_nonexistent => {
                self.ended = true;
                return Ok(());
            }
            Ok(true) => return fail("empty file".to_string()),
            Err(e) => return fail(os_error(&e)),
        }
        self.lines = Own(Some(lines));
        let mut notes = Notes::new();
        if let Err(e) = self.banner(&mut notes) {
            return fail(os_error(&e));
        }
        let place = self.place();
        let warnings: ConfigErrors = notes
            .iter()
            .map(|n| ConfigError {
                warning: true,
                ..ConfigError::new(format!("{place}: {}", n.trim_start_matches("warning: ")))
            })
            .collect();
        if warnings.is_empty() {
            Ok(())
        } else {
            Err(warnings)
        }
    }

    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        if !self.active {
            let drop = Exit::Drop("FromIPSummaryDump: not active");
            return Cases::new().otherwise([], drop);
        }
        link::find_ip_model(true, &[], &[], Exit::Port(0))
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if !self.active {
            cx.drop(p, "FromIPSummaryDump: not active");
            return;
        }
        if let Some(h) = link::find_ip(p.data(), link::RAW) {
            p.set_network_header(h.offset as isize, h.len);
            if let Some(dst) = h.dst {
                p.anno.set_dst_ip(dst);
            }
        }
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
        match self.next(cx) {
            Next::Packet(p) => {
                cx.emit(0, p);
                TaskStatus::Reschedule
            }
            Next::Wait => TaskStatus::Sleep,
            Next::Nothing => TaskStatus::Reschedule,
            Next::End => {
                if self.stop {
                    cx.host.stop();
                }
                TaskStatus::Sleep
            }
        }
    }

    fn pull(&mut self, _: Port, cx: &mut Cx<'_>) -> Option<Pkt> {
        if !self.active {
            return None;
        }
        // Bound: every turn but the last reads a line that makes no packet.
        loop {
            match self.next(cx) {
                Next::Packet(p) => return Some(p),
                Next::Wait => return None,
                Next::Nothing => {}
                Next::End => {
                    if self.stop {
                        cx.host.stop();
                    }
                    return None;
                }
            }
        }
    }

    fn run_timer(&mut self, _: TimerId, cx: &mut Cx<'_>) {
        if self.active {
            match self.push {
                true => cx.wake_task(),
                false => cx.notify_nonempty(),
            }
        }
    }

    fn io_role(&self) -> Option<IoRole> {
        Some(IoRole::Source {
            name: self.path.clone(),
        })
    }

    fn held(&self) -> usize {
        usize::from(self.work.is_some())
    }
    fn drain_held(&mut self, _: &mut Cx<'_>) -> Vec<Pkt> {
        self.work.take().into_iter().collect()
    }

    fn cleanup(&mut self, _: &mut Cx<'_>) {
        self.lines = Own(None);
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("sampling_prob"),
            HandlerInfo::rw("active"),
            HandlerInfo::r("encap"),
            HandlerInfo::button("stop"),
            HandlerInfo::r("filename"),
            HandlerInfo::r("filesize"),
            HandlerInfo::r("filepos"),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        Ok(match name {
            "sampling_prob" => fixed_point(i64::from(self.sampling), SAMPLING_BITS),
            "active" => self.active.to_string(),
            "encap" => "IP".to_string(),
            "filename" => self.shown_name(),
            "filesize" => match std::fs::metadata(&self.path) {
                Ok(m) if m.is_file() && self.text.is_none() => m.len().to_string(),
                _ => "-".to_string(),
            },
            "filepos" => self
                .lines
                .0
                .as_ref()
                .map_or(0, |l| l.position())
                .to_string(),
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        })
    }

    fn write(&mut self, name: &str, text: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "active" => {
                self.active =
                    parse_bool(text).map_err(|_| HandlerError::BadValue("type mismatch".into()))?;
                if self.active {
                    match self.push {
                        true => cx.wake_task(),
                        false => cx.notify_nonempty(),
                    }
                }
            }
            "stop" => {
                self.active = false;
                cx.host.stop();
            }
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_any!();
}
