//! ToIPSummaryDump: a line per packet.
//!
//! Differences from Click: with MULTIPACKET, `count` in FIELDS keeps lines together, as documented; `ts_usec1` is the
//! number that is documented (Click swaps its halves); options stand once in binary records (Click writes them twice).

use super::MINOR_VERSION;
use super::field::{self, Binary, Info};
use super::output::Summary;
use super::view::{Bad, first_timestamp};
use crate::sources::to_dump::os_error;
use crate::sources::util::Own;
use onefold_element::args::{AnyArg, Args, Filename, split_words, unquote};
use onefold_element::handler::{HandlerError, HandlerInfo};
use onefold_element::model::build::Cases;
use onefold_element::model::{Exit, Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, Element, ElementClass, InitCx, IoRole,
    LogStream, Port, TaskStatus, element_any,
};
use onefold_packet::{Pkt, Timestamp, anno_field};
use std::fs::File;
use std::io::{BufWriter, Write};

/// `ToIPSummaryDump`.
pub const TO_IP_SUMMARY_DUMP: ElementClass = ElementClass {
    name: "ToIPSummaryDump",
    ports: "1/0-1",
    processing: "a/h",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "FILENAME [, keywords FIELDS, HEADER, VERBOSE, BANNER, BINARY, MULTIPACKET, BAD_PACKETS, CAREFUL_TRUNC, \
            EXTRA_LENGTH]",
    summary: "writes a line with chosen fields for each packet",
    new: || Box::new(ToSummary::default()),
};

const EXTRA_PACKETS: usize = anno_field::EXTRA_PACKETS.offset as usize;
const EXTRA_LENGTH: usize = anno_field::EXTRA_LENGTH.offset as usize;
/// Most lines that one packet stands for.
const MAX_LINES: u32 = 1 << 20;

#[derive(Debug)]
enum Sink {
    Stdout,
    File(BufWriter<File>),
}

#[derive(Debug, Clone, Default)]
struct ToSummary {
    path: String,
    fields: Vec<&'static Info>,
    banner: Option<Vec<u8>>,
    verbose: bool,
    header: bool,
    binary: bool,
    multipacket: bool,
    bad_packets: bool,
    careful: bool,
    extra_length: bool,
    bound: bool,
    pulls: bool,
    sink: Own<Sink>,
    record: Vec<u8>,
}

impl ToSummary {
    fn opening(&self, now: Timestamp) -> Vec<u8> {
        let mut out = format!("!IPSummaryDump 1.{MINOR_VERSION}\n");
        if let Some(b) = &self.banner {
            out.push_str(&format!("!creator {}\n", onefold_click::conf::quote(b)));
        }
        if self.verbose {
            // where the kernel tells it; elsewhere the line is left out
            if let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
                out.push_str(&format!("!host {}\n", host.trim()));
            }
            if now.is_set() {
                out.push_str(&format!("!runtime {now} ({})\n", calendar(now.sec())));
            }
        }
        let names: Vec<&str> = self
            .fields
            .iter()
            .map(|f| match f.name {
                "ntimestamp" if !self.binary => "timestamp",
                n => n,
            })
            .collect();
        out.push_str(&format!("!data {}\n", names.join(" ")));
        if self.binary {
            out.push_str("!binary\n");
        }
        out.into_bytes()
    }

    fn write(&mut self, bytes: &[u8], cx: &mut Cx<'_>) {
        match self.sink.0.as_mut() {
            Some(Sink::Stdout) => cx.host.write(LogStream::Stdout, bytes),
            Some(Sink::File(f)) => {
                if let Err(e) = f.write_all(bytes) {
                    cx.chatter(&format!(
                        "ToIPSummaryDump({}): {}\n",
                        self.path,
                        os_error(&e)
                    ));
                    self.sink = Own(None);
                }
            }
            None => {}
        }
    }

    fn one(&mut self, p: &mut Pkt, cx: &mut Cx<'_>) {
        let mut record = std::mem::take(&mut self.record);
        record.clear();
        let mut bad = Bad {
            wanted: self.bad_packets,
            text: None,
        };
        let summary = Summary {
            fields: &self.fields,
            binary: self.binary,
            careful: self.careful,
            extra_counts: self.extra_length,
        };
        summary.of(p, &mut bad, &mut record);
        if let Some(text) = bad.text {
            let line = format!("!bad {text}\n");
            if self.binary {
                let marker = (line.len() as u32 | 0x8000_0000).to_be_bytes();
                self.write(&marker, cx);
            }
            self.write(line.as_bytes(), cx);
        }
        self.write(&record, cx);
        self.record = record;
    }

    /// Lines for all packets that this one stands for, with lengths and times spread over them.
    fn all(&mut self, p: &mut Pkt, cx: &mut Cx<'_>) {
        let more = p.anno.u32(EXTRA_PACKETS);
        if !self.multipacket || more == 0 {
            return self.one(p, cx);
        }
        let count = more.saturating_add(1).min(MAX_LINES);
        let len = p.len() as u64;
        let extra = if self.extra_length {
            p.anno.u32(EXTRA_LENGTH)
        } else {
            0
        };
        let mut total = (len + u64::from(extra)).max(u64::from(count) * len);
        let end = p.anno.timestamp;
        let first = first_timestamp(p);
        let mut step = Timestamp::ZERO;
        if first.is_set() {
            step = Timestamp((end - first).0 / i64::from(count - 1).max(1));
            p.anno.timestamp = first;
        }
        p.anno.set_u32(EXTRA_PACKETS, 0);
        for left in (1..=count).rev() {
            let this = total / u64::from(left);
            let beyond = this.saturating_sub(len);
            p.anno
                .set_u32(EXTRA_LENGTH, u32::try_from(beyond).unwrap_or(u32::MAX));
            total -= this;
            self.one(p, cx);
            p.anno.timestamp = match left {
                1 => end,
                _ => p.anno.timestamp + step,
            };
        }
    }
}

/// A point in time as C's `ctime` writes it, in universal time.
fn calendar(sec: i64) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = [
        "Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec",
    ];
    let (day, second) = (sec.div_euclid(86_400), sec.rem_euclid(86_400));
    // days since the first of March of year 0, in eras of 400 years
    let shifted = day + 719_468;
    let (era, in_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (in_era - in_era / 1460 + in_era / 36_524 - in_era / 146_096) / 365;
    let in_year = in_era - (365 * year + year / 4 - year / 100);
    let month = (5 * in_year + 2) / 153;
    let date = in_year - (153 * month + 2) / 5 + 1;
    let (month, carry) = if month < 10 {
        (month + 2, 0)
    } else {
        (month - 10, 1)
    };
    format!(
        "{} {} {date:2} {:02}:{:02}:{:02} {}",
        DAYS[day.rem_euclid(7) as usize],
        MONTHS[month as usize % 12],
        second / 3600,
        second / 60 % 60,
        second % 60,
        year + era * 400 + carry
    )
}

impl Element for ToSummary {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.path = args
            .mandatory("FILENAME")
            .map_or(String::new(), |Filename(f)| f);
        let mut fields = "timestamp ip_src".to_string();
        for name in ["FIELDS", "CONTENTS", "DATA"] {
            if let Some(AnyArg(text)) = args.keyword(name) {
                fields = text;
            }
        }
        self.verbose = args.keyword("VERBOSE").unwrap_or(false);
        self.header = args.keyword("HEADER").unwrap_or(true);
        let banner: Option<onefold_element::args::Data> = args.keyword("BANNER");
        self.banner = banner.map(|b| b.0).filter(|b| !b.is_empty());
        self.multipacket = args.keyword("MULTIPACKET").unwrap_or(false);
        self.bad_packets = args.keyword("BAD_PACKETS").unwrap_or(false);
        self.careful = args.keyword("CAREFUL_TRUNC").unwrap_or(true);
        self.extra_length = args.keyword("EXTRA_LENGTH").unwrap_or(true);
        self.binary = args.keyword("BINARY").unwrap_or(false);
        for w in split_words(&fields) {
            let w = String::from_utf8_lossy(&unquote(w)).into_owned();
            match field::find(&w) {
                None => args.error(format!("unknown content type '{w}'")),
                Some(i) if self.binary && i.binary == Binary::Never => {
                    args.error(format!("cannot use field {w} with BINARY"));
                }
                Some(i) => self.fields.push(i),
            }
        }
        if self.fields.is_empty() {
            args.error("no contents specified");
        }
        if self.fields.iter().any(|i| i.name == "count") {
            self.multipacket = false;
        }
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        self.bound = cx.bound;
        self.pulls = cx.input_is_pull(0);
        if self.bound {
            return Ok(());
        }
        let opening = match self.header {
            true => self.opening(cx.now),
            false => Vec::new(),
        };
        if self.path == "-" {
            cx.stdout.extend_from_slice(&opening);
            self.path = "<stdout>".to_string();
            self.sink = Own(Some(Sink::Stdout));
            return Ok(());
        }
        let opened = File::create(&self.path).and_then(|f| {
            let mut f = BufWriter::new(f);
            f.write_all(&opening)?;
            Ok(f)
        });
        match opened {
            Ok(f) => self.sink = Own(Some(Sink::File(f))),
            Err(e) => {
                let m = format!("{}: {}", self.path, os_error(&e));
                return Err(vec![ConfigError::new(m)]);
            }
        }
        Ok(())
    }

    fn model(&self, _: Port, cx: &ModelCx<'_>) -> Model {
        match (self.bound, cx.noutputs) {
            (true, 0) => Cases::new().otherwise([], Exit::Transmit),
            (true, _) => Model::None("ToIPSummaryDump: sends a copy and passes the packet on"),
            (false, _) => Model::None("ToIPSummaryDump: marks headers while it writes to its file"),
        }
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if self.bound {
            if cx.noutputs == 0 {
                cx.transmit(p);
            } else {
                let copy = cx.copy(&p);
                cx.transmit(copy);
                cx.emit(0, p);
            }
            return;
        }
        self.all(&mut p, cx);
        cx.emit_or_drop(0, p, "ToIPSummaryDump: written to the file");
    }

    fn has_task(&self) -> bool {
        self.pulls
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        match cx.pull(0) {
            Some(p) => {
                self.push(0, p, cx);
                TaskStatus::Reschedule
            }
            None => TaskStatus::Sleep,
        }
    }

    fn io_role(&self) -> Option<IoRole> {
        Some(IoRole::Sink {
            name: self.path.clone(),
        })
    }

    fn cleanup(&mut self, cx: &mut Cx<'_>) {
        if let Some(Sink::File(mut f)) = self.sink.0.take()
            && let Err(e) = f.flush()
        {
            cx.chatter(&format!(
                "ToIPSummaryDump({}): {}\n",
                self.path,
                os_error(&e)
            ));
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::w("flush")];
        H
    }

    fn write(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "flush" => {
                if let Some(Sink::File(f)) = self.sink.0.as_mut() {
                    f.flush()
                        .map_err(|e| HandlerError::BadValue(os_error(&e)))?;
                }
                Ok(())
            }
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use super::calendar;

    #[test]
    fn dates() {
        assert_eq!(calendar(0), "Thu Jan  1 00:00:00 1970");
        assert_eq!(calendar(996_022_410), "Wed Jul 25 00:53:30 2001");
        assert_eq!(calendar(951_782_400), "Tue Feb 29 00:00:00 2000");
    }
}
