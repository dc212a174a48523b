//! Any bytes as a capture: no panic, bounded memory, at most one error and nothing after it, and what was read survives
//! being written and read again in every format.

use std::io::Cursor;

use onefold_capture::{CaptureReader, CaptureWriter, Format, Frame, MAX_FRAME, Merge};

fn read(bytes: &[u8]) -> (Vec<Frame>, bool) {
    let Ok(mut reader) = CaptureReader::from_reader(Cursor::new(bytes.to_vec())) else {
        return (Vec::new(), true);
    };
    let mut frames = Vec::new();
    let mut buf = Vec::new();
    let mut damaged = false;
    while let Some(item) = reader.next_into(&mut buf) {
        assert!(!damaged, "something follows the damage");
        match item {
            Ok(meta) => {
                assert!(buf.len() <= MAX_FRAME);
                frames.push(Frame {
                    ts_ns: meta.ts_ns,
                    orig_len: meta.orig_len,
                    link: meta.link,
                    interface: meta.interface,
                    data: buf.clone(),
                });
            }
            Err(e) => {
                damaged = true;
                assert!(buf.is_empty());
                assert_eq!(e.frames, frames.len() as u64);
                // Shown to people: must not fail.
                let _ = e.to_string();
            }
        }
        if frames.len() >= 10_000 {
            break;
        }
    }
    (frames, damaged)
}

/// One input.
pub fn run(data: &[u8]) {
    let (frames, damaged) = read(data);
    assert_eq!(read(data), (frames.clone(), damaged));

    for format in [Format::PcapUs, Format::PcapNs, Format::PcapNg] {
        let Some(first) = frames.first() else { break };
        let mut out = CaptureWriter::new(Vec::new(), format, first.link, 0).expect("memory");
        let mut written = Vec::new();
        for f in &frames {
            if out.write(f.ts_ns, &f.data, f.orig_len).is_ok() {
                written.push(f);
            }
        }
        let (back, damaged) = read(&out.finish().expect("memory"));
        assert!(!damaged);
        assert_eq!(back.len(), written.len());
        for (b, f) in back.iter().zip(written) {
            let unit = if format == Format::PcapUs { 1_000 } else { 1 };
            assert_eq!(b.ts_ns, f.ts_ns / unit * unit);
            assert_eq!(b.data, f.data);
            assert_eq!(b.orig_len, f.orig_len.max(f.data.len() as u32));
        }
    }

    // Two ports with the same capture: all frames come, each port in its order.
    let port = || CaptureReader::from_reader(Cursor::new(data.to_vec()));
    if let (Ok(a), Ok(b), true) = (port(), port(), frames.len() < 10_000) {
        let mut merged = [Vec::new(), Vec::new()];
        for (port, frame) in Merge::new(vec![a, b]).flatten() {
            merged[port].push(frame);
        }
        assert!(merged[0] == frames && merged[1] == frames);
    }
}
