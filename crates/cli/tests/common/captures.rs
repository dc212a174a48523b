//! Captures as lists of frames.

use onefold_capture::{CaptureReader, CaptureWriter, LinkType};
use std::path::Path;

/// Time stamps in nanoseconds, and bytes.
pub type Frames = Vec<(i64, Vec<u8>)>;

/// All frames of a capture.
pub fn read(file: &Path) -> Frames {
    let mut r = CaptureReader::open(file).unwrap();
    let (mut all, mut frame) = (Vec::new(), Vec::new());
    while let Some(meta) = r.next_into(&mut frame) {
        all.push((meta.unwrap().ts_ns, frame.clone()));
    }
    all
}

/// A capture of these frames.
pub fn write(file: &Path, frames: &[(i64, Vec<u8>)]) {
    let mut w = CaptureWriter::create_for(file, LinkType::ETHERNET).unwrap();
    for (at, f) in frames {
        w.write(*at, f, f.len() as u32).unwrap();
    }
    w.finish().unwrap();
}
