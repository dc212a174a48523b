//! ToDump: packets into a capture file.
//!
//! Click element ToDump, with FastClick's FORCE_TS. The file is pcap with nanoseconds unless NANO is false, in the byte
//! order of the machine's Click (little endian). A name that ends in `.gz` is compressed. `-` is standard output.
//!
//! Bound to a port, it opens no file and hands its packets to the engine; with an output it then hands over copies.
//!
//! Differences from Click: `.bz2` and `.Z` names are refused; USE_ENCAP_FROM knows the elements that read captures and
//! devices by themselves and does not call their `encap` handlers.

use super::link;
use super::util::Own;
use onefold_element::args::{AnyArg, Args, ElementArg, Filename, FromArg, Word, split_words};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::Cases;
use onefold_element::model::{Exit, Model, ModelCx, Op};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, ElemId, Element, ElementClass, InitCx, IoRole,
    LogStream, Port, Scope, State, StateStore, TaskStatus, element_any, element_takes, state_any,
};
use onefold_packet::{Pkt, anno_field};
use std::fs::File;
use std::io::{BufWriter, Write};

/// `ToDump`.
pub const TO_DUMP: ElementClass = ElementClass {
    name: "ToDump",
    ports: "1/0-1",
    processing: "a/a",
    flow: "x/x",
    effect: Effect::OrderSensitive,
    usage: "FILENAME [, SNAPLEN, ENCAP, keywords USE_ENCAP_FROM, EXTRA_LENGTH, UNBUFFERED, NANO]",
    summary: "writes packets to a capture file",
    new: || Box::new(ToDump::default()),
};

const MAGIC: u32 = 0xa1b2_c3d4;
const MAGIC_NANO: u32 = 0xa1b2_3c4d;

/// What an element that reads captures publishes: their link type.
#[derive(Clone)]
pub struct Encap(pub u32);

impl State for Encap {
    fn summary(&self) -> String {
        format!("encap {}", link::unparse(self.0))
    }
    state_any!(Scope::Shared);
}

/// The link type of what `elem` emits, if that is known.
fn encap_of(elem: ElemId, class: &str, store: &StateStore) -> Option<u32> {
    let published = store
        .published_by(elem)
        .and_then(|id| store.get::<Encap>(id));
    match published {
        Some(Encap(link)) => Some(*link),
        None => matches!(class, "FromDevice" | "PollDevice").then_some(link::ETHER),
    }
}

enum Sink {
    Stdout,
    Plain(BufWriter<File>),
    Unbuffered(File),
    Gzip(flate2::write::GzEncoder<BufWriter<File>>),
}

impl Sink {
    fn write(&mut self, bytes: &[u8], cx: &mut Cx<'_>) -> std::io::Result<()> {
        match self {
            Sink::Stdout => {
                cx.host.write(LogStream::Stdout, bytes);
                Ok(())
            }
            Sink::Plain(f) => f.write_all(bytes),
            Sink::Unbuffered(f) => f.write_all(bytes),
            Sink::Gzip(f) => f.write_all(bytes),
        }
    }
    fn finish(self) -> std::io::Result<()> {
        match self {
            Sink::Stdout | Sink::Unbuffered(_) => Ok(()),
            Sink::Plain(mut f) => f.flush(),
            Sink::Gzip(f) => f.finish()?.flush(),
        }
    }
}

#[derive(Debug, Clone, Default)]
struct ToDump {
    path: String,
    snaplen: u32,
    link: u32,
    encap_from: Vec<ElemId>,
    extra_length: bool,
    unbuffered: bool,
    nano: bool,
    force_now: bool,
    bound: bool,
    active: bool,
    /// Pulls by itself.
    pulls: bool,
    count: u64,
    sink: Own<Sink>,
    record: Vec<u8>,
}

impl ToDump {
    fn header(&self) -> Vec<u8> {
        let magic = if self.nano { MAGIC_NANO } else { MAGIC };
        let mut h = magic.to_le_bytes().to_vec();
        // version 2.4, no time zone, no accuracy
        h.extend([2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
        h.extend(self.snaplen.to_le_bytes());
        h.extend(self.link.to_le_bytes());
        h
    }

    fn resolve_encap(&mut self, cx: &InitCx<'_>) -> Result<(), ConfigErrors> {
        let name = |e: ElemId| cx.elements.get(e.0 as usize).map_or("?", |s| s.as_str());
        let mut found: Vec<(ElemId, u32)> = Vec::new();
        for e in &self.encap_from {
            let class = cx.classes.get(e.0 as usize).map_or("", |s| s.as_str());
            match encap_of(*e, class, cx.store) {
                Some(link) => found.push((*e, link)),
                None => {
                    let m = format!("'{}' has no 'encap' read handler", name(*e));
                    return Err(vec![ConfigError::new(m)]);
                }
            }
        }
        let Some((_, first)) = found.first().copied() else {
            return Ok(());
        };
        if found.iter().any(|(_, l)| *l != first) {
            let mut m = "source encapsulation types disagree:".to_string();
            for (e, l) in &found {
                m.push_str(&format!("\n  {} has {}", name(*e), link::unparse(*l)));
            }
            return Err(vec![ConfigError::new(m)]);
        }
        self.link = first;
        Ok(())
    }

    fn open(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        let header = self.header();
        if self.path == "-" {
            cx.stdout.extend_from_slice(&header);
            self.path = "<stdout>".to_string();
            self.sink = Own(Some(Sink::Stdout));
            return Ok(());
        }
        let fail =
            |e: std::io::Error| vec![ConfigError::new(format!("{}: {}", self.path, os_error(&e)))];
        if [".bz2", ".Z"].iter().any(|s| self.path.ends_with(s)) {
            return Err(vec![
                ConfigError::new(format!("{}: this compression is not written", self.path))
                    .hint("write .gz, or without compression"),
            ]);
        }
        let file = File::create(&self.path).map_err(fail)?;
        let mut sink = if self.path.ends_with(".gz") {
            let level = flate2::Compression::default();
            Sink::Gzip(flate2::write::GzEncoder::new(BufWriter::new(file), level))
        } else if self.unbuffered {
            Sink::Unbuffered(file)
        } else {
            Sink::Plain(BufWriter::new(file))
        };
        let wrote = match &mut sink {
            Sink::Stdout => Ok(()),
            Sink::Plain(f) => f.write_all(&header),
            Sink::Unbuffered(f) => f.write_all(&header),
            Sink::Gzip(f) => f.write_all(&header),
        };
        wrote.map_err(|_| {
            let m = format!("{}: unable to write file header", self.path);
            vec![ConfigError::new(m)]
        })?;
        self.sink = Own(Some(sink));
        Ok(())
    }

    fn write_packet(&mut self, p: &Pkt, cx: &mut Cx<'_>) {
        if !self.active {
            return;
        }
        let Some(sink) = self.sink.0.as_mut() else {
            return;
        };
        let t = match p.anno.timestamp {
            t if t.is_set() && !self.force_now => t,
            _ => cx.now,
        };
        let nanos = t.subsec_nanos();
        let fraction = if self.nano { nanos } else { nanos / 1000 };
        let extra = match self.extra_length {
            true => p.anno.u32(usize::from(anno_field::EXTRA_LENGTH.offset)),
            false => 0,
        };
        // packets are far below 4 GiB
        let len = p.len() as u32;
        let captured = len.min(self.snaplen);
        self.record.clear();
        // seconds beyond 32 bits are cut, as the format has no room for them
        self.record.extend((t.sec() as u32).to_le_bytes());
        self.record.extend(fraction.to_le_bytes());
        self.record.extend(captured.to_le_bytes());
        self.record.extend(len.wrapping_add(extra).to_le_bytes());
        let data = p.data().get(..captured as usize).unwrap_or(p.data());
        self.record.extend_from_slice(data);
        match sink.write(&self.record, cx) {
            Ok(()) => self.count += 1,
            Err(e) => {
                self.active = false;
                cx.chatter(&format!("ToDump({}): {}\n", self.path, os_error(&e)));
            }
        }
    }
}

/// An operating system's error without the number that the standard library adds.
pub fn os_error(e: &std::io::Error) -> String {
    let s = e.to_string();
    match s.find(" (os error") {
        Some(i) => s[..i].to_string(),
        None => s,
    }
}

impl Element for ToDump {
    fn configure_phase(&self) -> i32 {
        // after the elements whose link type it may ask for
        200
    }

    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.path = args
            .mandatory("FILENAME")
            .map_or(String::new(), |Filename(f)| f);
        self.snaplen = match args.optional("SNAPLEN") {
            Some(0) => u32::MAX,
            n => n.unwrap_or(2000),
        };
        let encap: Option<Word> = args.optional("ENCAP");
        let from: Option<AnyArg> = args.keyword("USE_ENCAP_FROM");
        self.extra_length = args.keyword("EXTRA_LENGTH").unwrap_or(true);
        self.unbuffered = args.keyword("UNBUFFERED").unwrap_or(false);
        self.nano = args.keyword("NANO").unwrap_or(true);
        self.force_now = args.keyword("FORCE_TS").unwrap_or(false);
        self.link = link::ETHER;
        match (encap, from) {
            (Some(_), Some(_)) => {
                args.error("specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'");
            }
            (Some(Word(w)), None) => match link::parse(&w) {
                Some(l) => self.link = l,
                None => args.error("bad encapsulation type"),
            },
            (None, Some(AnyArg(text))) => {
                let scope = args.scope();
                for w in split_words(&text) {
                    match ElementArg::from_arg(w, &scope) {
                        Ok(ElementArg(e)) => self.encap_from.push(e),
                        Err(_) => args.error(format!("no element named '{w}'")),
                    }
                }
                if self.encap_from.is_empty() && args.ok() {
                    args.error("element names missing after 'USE_ENCAP_FROM'");
                }
            }
            (None, None) => {}
        }
        args.finish()
    }

    fn initialize(&mut self, cx: &mut InitCx<'_>) -> Result<(), ConfigErrors> {
        self.resolve_encap(cx)?;
        self.bound = cx.bound;
        self.pulls = cx.input_is_pull(0) && cx.outputs.is_empty();
        self.active = true;
        if !self.bound {
            self.open(cx)?;
        }
        Ok(())
    }

    fn model(&self, _: Port, cx: &ModelCx<'_>) -> Model {
        match (self.bound, cx.noutputs) {
            (true, 0) => Cases::new().otherwise([Op::Count(0)], Exit::Transmit),
            (true, _) => Model::None("ToDump: sends a copy and passes the packet on"),
            (false, _) => Model::ask("ToDump: writes to its file"),
        }
    }
    /// Tag 0: sent.
    fn account(&mut self, _: u16, packets: u64, _: u64, _: &mut Cx<'_>) {
        self.count += packets;
    }
    fn push(&mut self, _: Port, p: Pkt, cx: &mut Cx<'_>) {
        if self.bound {
            self.count += 1;
            if cx.noutputs == 0 {
                cx.transmit(p);
            } else {
                let copy = cx.copy(&p);
                cx.transmit(copy);
                cx.emit(0, p);
            }
            return;
        }
        self.write_packet(&p, cx);
        cx.emit_or_drop(0, p, "ToDump: written to the file");
    }

    fn has_task(&self) -> bool {
        self.pulls
    }

    fn run_task(&mut self, cx: &mut Cx<'_>) -> TaskStatus {
        if !self.active {
            return TaskStatus::Sleep;
        }
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
        if let Some(sink) = self.sink.0.take()
            && let Err(e) = sink.finish()
        {
            cx.chatter(&format!("ToDump({}): {}\n", self.path, os_error(&e)));
        }
    }

    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[
            HandlerInfo::r("filename"),
            HandlerInfo::r("count"),
            HandlerInfo::button("reset_counts").counts(),
        ];
        H
    }

    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "filename" => Ok(self.path.clone()),
            "count" => Ok(self.count.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }

    fn write(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> Result<(), HandlerError> {
        match name {
            "reset_counts" => self.count = 0,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        }
        Ok(())
    }
    element_takes!(count);
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::{Bench, Setup};
    use onefold_packet::{Packet, Timestamp, anno_field};

    fn unbound(config: &str) -> Result<Bench, Vec<String>> {
        let setup = Setup {
            ninputs: 1,
            unbound: true,
            ..Setup::default()
        };
        Bench::with_setup("ToDump", config, setup, onefold_element::NameDb::builtin())
    }

    /// The format by hand: pcap 2.4, little endian, nanoseconds.
    #[test]
    fn header_and_record_by_hand() {
        let mut b = unbound("-, 4, IP").unwrap();
        let mut p = Box::new(Packet::from_slice(&[1, 2, 3, 4, 5, 6]));
        p.anno.timestamp = Timestamp(3_000_000_007);
        p.anno
            .set_u32(usize::from(anno_field::EXTRA_LENGTH.offset), 10);
        b.push_packet(0, p);
        let want = [
            0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 101, 0, 0,
            0, //
            3, 0, 0, 0, 7, 0, 0, 0, 4, 0, 0, 0, 16, 0, 0, 0, 1, 2, 3, 4,
        ];
        assert_eq!(b.host.stdout, want);
        assert_eq!(b.read("count").unwrap(), "1");
        assert_eq!(b.read("filename").unwrap(), "<stdout>");
        assert_eq!(b.drops()["ToDump: written to the file"], 1);
    }

    #[test]
    fn microseconds_no_snaplen_and_the_clock() {
        let mut b = unbound("-, SNAPLEN 0, NANO false, EXTRA_LENGTH false").unwrap();
        b.now = Timestamp(5_000_001_999);
        b.push(0, &[9; 3000]);
        assert_eq!(b.host.stdout[..4], [0xd4, 0xc3, 0xb2, 0xa1]);
        assert_eq!(b.host.stdout[16..20], [0xff; 4]);
        assert_eq!(b.host.stdout[24..32], [5, 0, 0, 0, 1, 0, 0, 0]);
        assert_eq!(b.host.stdout.len(), 24 + 16 + 3000);
    }

    #[test]
    fn a_copy_does_not_write_and_a_bound_one_transmits() {
        let mut b = unbound("-").unwrap();
        let header = b.host.stdout.len();
        b.element = b.element.clone();
        b.push(0, b"x");
        assert_eq!(b.host.stdout.len(), header);
        let mut b = Bench::new("ToDump", "x.pcap", 1, 1).unwrap();
        assert_eq!(b.push(0, b"x").len(), 1);
        assert_eq!(b.out.transmitted.len(), 1);
        assert!(b.host.stdout.is_empty());
    }

    #[test]
    fn wrong_arguments() {
        let e = |c: &str| unbound(c).err().unwrap();
        assert_eq!(e("-, ENCAP BLAH"), ["bad encapsulation type"]);
        assert_eq!(
            e("-, ENCAP IP, USE_ENCAP_FROM x"),
            ["specify at most one of 'ENCAP' and 'USE_ENCAP_FROM'"]
        );
        assert_eq!(e("-, USE_ENCAP_FROM x"), ["no element named 'x'"]);
        assert_eq!(
            e("-, USE_ENCAP_FROM e0"),
            ["'e0' has no 'encap' read handler"]
        );
        assert!(e("/nowhere/x.pcap")[0].ends_with("No such file or directory"));
        assert!(e("x.bz2")[0].contains("not written"));
    }

    #[test]
    fn compressed_files_hold_the_same_bytes() {
        let dir = std::env::temp_dir().join(format!("onefold-to-dump-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let path = dir.join("a.pcap.gz");
        let mut b = unbound(&format!("{}", path.display())).unwrap();
        b.push(0, &[7; 60]);
        b.with(|e, cx| e.cleanup(cx));
        let mut all = Vec::new();
        let file = std::fs::File::open(&path).unwrap();
        std::io::Read::read_to_end(&mut flate2::read::GzDecoder::new(file), &mut all).unwrap();
        assert_eq!(all.len(), 24 + 16 + 60);
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
