//! The third-party captures, read once.

use onefold_capture::{CaptureReader, LinkType};
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A frame of the corpus.
pub struct CorpusFrame {
    /// Which file.
    pub file: usize,
    pub link: LinkType,
    pub data: Vec<u8>,
    /// On one clock for all files, which never goes back.
    pub ts_ns: i64,
    /// The capture has less of it than was on the wire.
    pub cut: bool,
}

/// Every capture, well-formed or not.
pub struct Corpus {
    pub files: Vec<PathBuf>,
    pub frames: Vec<CorpusFrame>,
}

fn captures(dir: &Path, out: &mut Vec<PathBuf>) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    for e in entries.flatten() {
        let p = e.path();
        if p.is_dir() {
            captures(&p, out);
        } else if CaptureReader::open(&p).is_ok() {
            out.push(p);
        }
    }
}

/// Files are of all ages: they follow each other here, and a frame comes at most this long after the one before it, as
/// a chain that waits for years has a million timers to run.
const LONGEST_GAP_NS: i64 = 3_600_000_000_000;

impl Corpus {
    /// All captures below `data/pcap`, read once for all tests; `None`, said so, where there is no data.
    pub fn read() -> Option<&'static Self> {
        static READ: OnceLock<Corpus> = OnceLock::new();
        let dir = super::data()?.join("pcap");
        Some(READ.get_or_init(|| Corpus::of(&dir)))
    }

    fn of(dir: &Path) -> Self {
        let mut files = Vec::new();
        captures(dir, &mut files);
        files.sort();
        let mut frames = Vec::new();
        let mut now = 0i64;
        for (file, f) in files.iter().enumerate() {
            let Ok(reader) = CaptureReader::open(f) else {
                continue;
            };
            let mut before = None;
            frames.extend(reader.map_while(Result::ok).map(|x| {
                let gap = before.map_or(LONGEST_GAP_NS, |b| x.ts_ns.saturating_sub(b));
                before = Some(x.ts_ns);
                now += gap.clamp(0, LONGEST_GAP_NS);
                CorpusFrame {
                    file,
                    link: x.link,
                    cut: (x.data.len() as u64) < u64::from(x.orig_len),
                    data: x.data,
                    ts_ns: now,
                }
            }));
        }
        assert!(frames.len() > 10_000, "only {} frames", frames.len());
        Self { files, frames }
    }
}
