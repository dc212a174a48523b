//! What is written is what is read; what is merged is sorted; what is garbage is survived.

use std::io::Cursor;

use onefold_capture::{
    CaptureReader, CaptureWriter, Format, Frame, LinkType, MAX_FRAME, Merge, WriteError,
};
use proptest::prelude::*;

fn write(format: Format, link: LinkType, snaplen: u32, frames: &[(i64, Vec<u8>, u32)]) -> Vec<u8> {
    let mut w = CaptureWriter::new(Vec::new(), format, link, snaplen).unwrap();
    for (ts, data, orig) in frames {
        w.write(*ts, data, *orig).unwrap();
    }
    assert_eq!(w.frames(), frames.len() as u64);
    w.finish().unwrap()
}

fn reader(file: Vec<u8>) -> CaptureReader {
    CaptureReader::from_reader(Cursor::new(file)).unwrap()
}

fn frames() -> impl Strategy<Value = Vec<(i64, Vec<u8>, u32)>> {
    let frame = (
        0i64..=(u32::MAX as i64) * 1_000_000_000 + 999_999_999,
        proptest::collection::vec(any::<u8>(), 0..200),
        any::<u32>(),
    );
    proptest::collection::vec(frame, 0..20)
}

proptest! {
    #[test]
    fn written_frames_come_back(frames in frames(), snaplen in 0u32..250, link in 0u32..300) {
        for format in [Format::PcapUs, Format::PcapNs, Format::PcapNg] {
            let file = write(format, LinkType(link), snaplen, &frames);
            let back: Vec<Frame> = reader(file).map(Result::unwrap).collect();
            prop_assert_eq!(back.len(), frames.len());
            for (b, (ts, data, orig)) in back.iter().zip(&frames) {
                let cut = if snaplen == 0 { data.len() } else { data.len().min(snaplen as usize) };
                let unit = if format == Format::PcapUs { 1_000 } else { 1 };
                prop_assert_eq!(&b.data[..], &data[..cut]);
                prop_assert_eq!(b.ts_ns, ts / unit * unit);
                prop_assert_eq!(b.orig_len, (*orig).max(data.len() as u32));
                let expected = if matches!(link, 12 | 14) { LinkType::RAW } else { LinkType(link) };
                prop_assert_eq!(b.link, expected);
            }
        }
    }

    #[test]
    fn garbage_after_a_good_start_is_survived(
        format in 0usize..3,
        frames in frames(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..20),
    ) {
        let format = [Format::PcapUs, Format::PcapNs, Format::PcapNg][format];
        let mut file = write(format, LinkType::ETHERNET, 0, &frames);
        let len = file.len();
        for (at, value) in flips {
            file[at.index(len)] = value;
        }
        if let Ok(mut r) = CaptureReader::from_reader(Cursor::new(file)) {
            let mut buf = Vec::new();
            let mut errors = 0;
            while let Some(item) = r.next_into(&mut buf) {
                prop_assert!(buf.capacity() <= 2 * MAX_FRAME);
                errors += usize::from(item.is_err());
                prop_assert!(errors == 0 || item.is_err());
            }
            prop_assert!(errors <= 1);
        }
    }

    /// Against the obvious definition: repeatedly take the earliest head, the lowest port of equal ones.
    #[test]
    fn merge_takes_the_earliest_head(
        ports in proptest::collection::vec(proptest::collection::vec(0i64..30, 0..20), 0..5),
    ) {
        let readers = ports.iter().enumerate().map(|(p, times)| {
            let frames: Vec<_> = times
                .iter()
                .enumerate()
                .map(|(i, &t)| (t, vec![p as u8, i as u8], 2))
                .collect();
            reader(write(Format::PcapNs, LinkType::ETHERNET, 0, &frames))
        });
        let got: Vec<(usize, i64, u8)> = Merge::new(readers.collect())
            .map(|r| r.map(|(p, f)| (p, f.ts_ns, f.data[1])).unwrap())
            .collect();
        let mut at = vec![0; ports.len()];
        let mut expected = Vec::new();
        while let Some((t, p)) = (0..ports.len())
            .filter_map(|p| ports[p].get(at[p]).map(|&t| (t, p)))
            .min()
        {
            expected.push((p, t, at[p] as u8));
            at[p] += 1;
        }
        prop_assert_eq!(got, expected);
    }
}

#[test]
fn a_damaged_port_does_not_stop_the_others() {
    let frames = |t: [i64; 3]| t.map(|t| (t, vec![0u8; 60], 60u32));
    let a = write(Format::PcapNs, LinkType::ETHERNET, 0, &frames([1, 3, 5]));
    let b = write(Format::PcapNg, LinkType::ETHERNET, 0, &frames([2, 4, 6]));
    let cut = a.len() - 10;
    let mut merge = Merge::new(vec![reader(a[..cut].to_vec()), reader(b)]);
    let mut buf = Vec::new();
    let mut seen = Vec::new();
    while let Some(item) = merge.next_into(&mut buf) {
        seen.push(match item {
            Ok((port, meta)) => (port, Some(meta.ts_ns)),
            Err(e) => {
                assert!(e.to_string().starts_with("port 0: "), "{e}");
                (e.port, None)
            }
        });
    }
    let ts = |p, t| (p, Some(t));
    assert_eq!(
        seen,
        [ts(0, 1), ts(1, 2), ts(0, 3), (0, None), ts(1, 4), ts(1, 6)]
    );
    assert_eq!(merge.readers().map(CaptureReader::frames).sum::<u64>(), 5);
}

#[test]
fn what_a_format_cannot_hold_is_refused_and_the_writer_goes_on() {
    for format in [Format::PcapUs, Format::PcapNs, Format::PcapNg] {
        let mut w = CaptureWriter::new(Vec::new(), format, LinkType::RAW, 0).unwrap();
        assert!(matches!(
            w.write(-1, &[0; 4], 4),
            Err(WriteError::Time { ts_ns: -1 })
        ));
        assert!(matches!(
            w.write(0, &vec![0; MAX_FRAME + 1], 4),
            Err(WriteError::FrameTooLong { .. })
        ));
        let far = w.write(i64::MAX, &[0; 4], 4);
        assert_eq!(far.is_ok(), format == Format::PcapNg);
        w.write(5_000, &[1; 4], 4).unwrap();
        let last = reader(w.finish().unwrap()).last().unwrap().unwrap();
        assert_eq!((last.ts_ns, last.data), (5_000, vec![1; 4]));
    }
}

#[test]
fn the_name_chooses_the_format() {
    assert_eq!(Format::from_path("a.pcapng").unwrap(), Format::PcapNg);
    assert_eq!(Format::from_path("a.PCAPNG").unwrap(), Format::PcapNg);
    assert_eq!(Format::from_path("a.pcap").unwrap(), Format::PcapNs);
    assert_eq!(Format::from_path("a").unwrap(), Format::PcapNs);
    assert!(matches!(
        Format::from_path("a.pcap.gz"),
        Err(WriteError::Name { .. })
    ));
    let dir = std::env::temp_dir().join(format!("onefold-capture-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let path = dir.join("x.pcapng");
    let mut w = CaptureWriter::create_for(&path, LinkType::ETHERNET).unwrap();
    w.write(9, &[1, 2, 3], 3).unwrap();
    w.finish().unwrap();
    let mut r = CaptureReader::open(&path).unwrap();
    assert_eq!(r.next().unwrap().unwrap().ts_ns, 9);
    assert_eq!(r.path(), Some(path.as_path()));
    let e = CaptureWriter::create_for(dir.join("no/such.pcap"), LinkType::RAW).unwrap_err();
    assert!(matches!(e, WriteError::Create { .. }));
    std::fs::remove_dir_all(&dir).unwrap();
}
