//! Containers built byte by byte, so that the reader is not tested with the writer's ideas only.

use std::io::{Cursor, Write};

use onefold_capture::{
    CaptureError, CaptureFormat, CaptureReader, Frame, LinkType, MAX_FRAME, Reason,
};

/// All frames, and the error at the end if there is one. Asserts that nothing follows.
fn read(bytes: &[u8]) -> (Vec<Frame>, Option<CaptureError>) {
    match CaptureReader::from_reader(Cursor::new(bytes.to_vec())) {
        Ok(mut r) => drain(&mut r),
        Err(e) => (Vec::new(), Some(e)),
    }
}

fn drain(r: &mut CaptureReader) -> (Vec<Frame>, Option<CaptureError>) {
    let mut frames = Vec::new();
    let mut error = None;
    for item in r.by_ref() {
        assert!(error.is_none(), "something follows the damage");
        match item {
            Ok(f) => frames.push(f),
            Err(e) => error = Some(e),
        }
    }
    assert!(r.next().is_none());
    (frames, error)
}

fn good(bytes: &[u8]) -> Vec<Frame> {
    let (frames, error) = read(bytes);
    assert!(error.is_none(), "{}", error.unwrap());
    frames
}

#[derive(Clone, Copy)]
struct Order(bool);

impl Order {
    fn u16(self, v: u16) -> Vec<u8> {
        if self.0 {
            v.to_be_bytes().to_vec()
        } else {
            v.to_le_bytes().to_vec()
        }
    }
    fn u32(self, v: u32) -> Vec<u8> {
        if self.0 {
            v.to_be_bytes().to_vec()
        } else {
            v.to_le_bytes().to_vec()
        }
    }
    fn i64(self, v: i64) -> Vec<u8> {
        if self.0 {
            v.to_be_bytes().to_vec()
        } else {
            v.to_le_bytes().to_vec()
        }
    }
    fn words(self, v: &[u32]) -> Vec<u8> {
        v.iter().flat_map(|&w| self.u32(w)).collect()
    }

    fn pcap_header(self, magic: u32, version: (u16, u16), link: u32) -> Vec<u8> {
        [
            self.u32(magic),
            self.u16(version.0),
            self.u16(version.1),
            self.words(&[0, 0, 65_535, link]),
        ]
        .concat()
    }

    fn block(self, kind: u32, body: &[u8]) -> Vec<u8> {
        let len = self.u32(12 + body.len() as u32);
        [&self.u32(kind), &len, body, &len].concat()
    }
    fn section(self) -> Vec<u8> {
        let body = [
            self.u32(0x1a2b_3c4d),
            self.u16(1),
            self.u16(0),
            self.i64(-1),
        ]
        .concat();
        self.block(0x0a0d_0d0a, &body)
    }
    fn option(self, code: u16, value: &[u8]) -> Vec<u8> {
        let mut o = [self.u16(code), self.u16(value.len() as u16), value.to_vec()].concat();
        o.resize(o.len().next_multiple_of(4), 0);
        o
    }
    fn interface(self, link: u16, snaplen: u32, options: &[Vec<u8>]) -> Vec<u8> {
        let mut body = [self.u16(link), self.u16(0), self.u32(snaplen)].concat();
        body.extend(options.concat());
        self.block(1, &body)
    }
    fn enhanced(self, interface: u32, ticks: u64, orig: u32, data: &[u8]) -> Vec<u8> {
        let mut body = self.words(&[
            interface,
            (ticks >> 32) as u32,
            ticks as u32,
            data.len() as u32,
            orig,
        ]);
        body.extend(data);
        body.resize(body.len().next_multiple_of(4), 0);
        self.block(6, &body)
    }
}

const LE: Order = Order(false);
const BE: Order = Order(true);

#[test]
fn pcap_of_every_magic_and_byte_order() {
    for order in [LE, BE] {
        for (magic, unit, extra) in [
            (0xa1b2_c3d4u32, 1_000, 0),
            (0xa1b2_3c4d, 1, 0),
            (0xa1b2_cd34, 1_000, 8),
        ] {
            let mut file = order.pcap_header(magic, (2, 4), 1);
            for (i, len) in [0usize, 1, 60, 1514].into_iter().enumerate() {
                file.extend(order.words(&[
                    1_700_000_000,
                    i as u32 * 7,
                    len as u32,
                    len as u32 + 4,
                ]));
                file.extend(vec![0xee; extra]);
                file.extend(vec![i as u8; len]);
            }
            let frames = good(&file);
            assert_eq!(frames.len(), 4);
            assert_eq!(frames[2].data, [2u8; 60]);
            assert_eq!(frames[3].ts_ns, 1_700_000_000_000_000_000 + 21 * unit);
            assert_eq!(frames[3].orig_len, 1518);
            assert_eq!(frames[3].link, LinkType::ETHERNET);
            let r = CaptureReader::from_reader(Cursor::new(file)).unwrap();
            assert_eq!(r.link(), Some(LinkType::ETHERNET));
            let expected = if unit == 1 {
                CaptureFormat::PcapNs
            } else {
                CaptureFormat::PcapUs
            };
            assert_eq!(r.format(), expected);
        }
    }
}

#[test]
fn old_versions_swap_the_lengths() {
    let record = |first: u32, second: u32| [LE.words(&[0, 0, first, second]), vec![7; 10]].concat();
    for (version, record) in [
        ((2, 2), record(99, 10)),
        ((2, 3), record(99, 10)),
        ((2, 3), record(10, 99)),
        ((543, 0), record(99, 10)),
        ((2, 4), record(10, 99)),
    ] {
        let frames = good(&[LE.pcap_header(0xa1b2_c3d4, version, 1), record].concat());
        assert_eq!(frames[0].data, [7; 10], "{version:?}");
        assert_eq!(frames[0].orig_len, 99, "{version:?}");
    }
    for version in [(1, 0), (2, 5), (3, 0), (543, 1)] {
        let (_, e) = read(&LE.pcap_header(0xa1b2_c3d4, version, 1));
        assert!(matches!(e.unwrap().reason, Reason::Unsupported { .. }));
    }
}

#[test]
fn lying_fields_are_carried_not_trusted() {
    // The wire length is smaller than the captured one, the fraction is over a second, the snaplen is smaller than the
    // frame and the link type carries flags: all of these occur in the wild and none is damage.
    let mut file = LE.pcap_header(0xa1b2_c3d4, (2, 4), 0x5400_0000 | 1);
    file[16..20].copy_from_slice(&8u32.to_le_bytes());
    file.extend(LE.words(&[1, 2_500_000, 60, 3]));
    file.extend([1; 60]);
    let frames = good(&file);
    assert_eq!(frames[0].data.len(), 60);
    assert_eq!(frames[0].orig_len, 3);
    assert_eq!(frames[0].ts_ns, 3_500_000_000);
    assert_eq!(frames[0].link, LinkType::ETHERNET);
}

/// Cut anywhere: the frames before the cut come, and an error exactly if the cut is within a structure.
fn cut_everywhere(file: &[u8], ends: &[usize], header: usize) {
    let all = good(file);
    assert_eq!(all.len(), ends.len());
    for cut in header..file.len() {
        let (frames, error) = read(&file[..cut]);
        let whole = ends.iter().filter(|&&e| e <= cut).count();
        assert_eq!(frames, all[..whole], "cut at {cut}");
        let clean = cut == header || ends.contains(&cut);
        match error {
            None => assert!(clean, "no error for a cut at {cut}"),
            Some(e) => {
                assert!(!clean, "cut at {cut}: {e}");
                assert!(matches!(e.reason, Reason::Truncated { .. }), "{e}");
                assert_eq!(e.frames as usize, whole);
                let start = ends[..whole].last().copied().unwrap_or(header);
                assert_eq!(e.offset as usize, start, "cut at {cut}");
            }
        }
    }
}

#[test]
fn a_cut_pcap_yields_what_is_before_the_cut() {
    let mut file = LE.pcap_header(0xa1b2_c3d4, (2, 4), 1);
    let mut ends = Vec::new();
    for len in [5usize, 0, 33] {
        file.extend(LE.words(&[1, 2, len as u32, len as u32]));
        file.extend(vec![9; len]);
        ends.push(file.len());
    }
    cut_everywhere(&file, &ends, 24);
    for cut in 0..24 {
        let (frames, error) = read(&file[..cut]);
        assert!(frames.is_empty());
        let reason = error.unwrap().reason;
        if cut == 0 {
            assert!(matches!(reason, Reason::Empty));
        } else {
            assert!(matches!(reason, Reason::Truncated { .. }));
        }
    }
}

#[test]
fn a_cut_pcapng_yields_what_is_before_the_cut() {
    let mut file = [BE.section(), BE.interface(1, 0, &[])].concat();
    let header = file.len();
    let mut ends = Vec::new();
    for len in [5usize, 0, 33] {
        file.extend(BE.enhanced(0, 77, len as u32, &vec![9; len]));
        ends.push(file.len());
    }
    cut_everywhere(&file, &ends, header);
}

#[test]
fn damaged_lengths_are_refused_with_their_place() {
    for len in [MAX_FRAME as u32 + 1, 0x7fff_ffff, u32::MAX] {
        let mut file = LE.pcap_header(0xa1b2_c3d4, (2, 4), 1);
        file.extend(LE.words(&[0, 0, 4, 4]));
        file.extend([0; 4]);
        file.extend(LE.words(&[0, 0, len, len]));
        file.extend([0; 100]);
        let (frames, e) = read(&file);
        let e = e.unwrap();
        assert_eq!(frames.len(), 1);
        assert_eq!(e.offset, 44);
        assert!(matches!(e.reason, Reason::FrameTooLong { len: l, .. } if l == u64::from(len)));
        assert!(e.to_string().contains("byte 44"), "{e}");
    }
    let mut longest = LE.pcap_header(0xa1b2_c3d4, (2, 4), 1);
    longest.extend(LE.words(&[0, 0, MAX_FRAME as u32, 0]));
    longest.extend(vec![3; MAX_FRAME]);
    assert_eq!(good(&longest)[0].data.len(), MAX_FRAME);
}

#[test]
fn pcapng_clocks_interfaces_and_link_types() {
    for o in [LE, BE] {
        let file = [
            o.section(),
            o.interface(1, 0, &[o.option(2, b"eth0"), o.option(0, b"")]),
            o.interface(228, 0, &[o.option(9, &[9]), o.option(1, b"a comment")]),
            o.interface(101, 0, &[o.option(9, &[0x80 | 10])]),
            o.interface(
                1,
                0,
                &[o.option(9, &[3]), o.option(14, &o.i64(1_000_000_000))],
            ),
            o.enhanced(0, 1_500_000, 60, &[0; 60]),
            o.enhanced(1, 1_500_000_001, 21, &[1; 21]),
            o.enhanced(2, 1_536, 22, &[2; 22]),
            o.enhanced(3, 250, 23, &[3; 23]),
        ]
        .concat();
        let f = good(&file);
        assert_eq!(
            f.iter().map(|f| f.ts_ns).collect::<Vec<_>>(),
            [
                1_500_000_000,
                1_500_000_001,
                1_500_000_000,
                1_000_000_000_250_000_000
            ]
        );
        assert_eq!(f[1].link, LinkType::IPV4);
        assert_eq!(f[2].link, LinkType::RAW);
        assert_eq!(f[3].interface, 3);
        assert_eq!(f[3].data, [3; 23]);
    }
}

#[test]
fn pcapng_simple_and_obsolete_packets() {
    for o in [LE, BE] {
        let simple = |orig: u32, data: &[u8]| {
            let mut body = [o.u32(orig), data.to_vec()].concat();
            body.resize(body.len().next_multiple_of(4), 0);
            o.block(3, &body)
        };
        // Interface 0 (with a drop counter beside it), 7 us, 5 of 9 bytes.
        let obsolete = o.block(
            2,
            &[
                o.u16(0),
                o.u16(0xffff),
                o.words(&[0, 7, 5, 9]),
                vec![4, 4, 4, 4, 4, 0, 0, 0],
                o.option(2, &[0; 4]),
            ]
            .concat(),
        );
        let file = [
            o.section(),
            o.interface(1, 10, &[]),
            simple(6, &[1; 6]),
            obsolete,
            simple(1500, &[2; 10]),
        ]
        .concat();
        let f = good(&file);
        assert_eq!(f[0].data, [1; 6]);
        assert_eq!(f[0].ts_ns, 0);
        assert_eq!(f[1].data, [4; 5]);
        assert_eq!(f[1].ts_ns, 7_000);
        assert_eq!(f[1].orig_len, 9);
        // Cut to the snap length of its interface; no time of its own.
        assert_eq!(f[2].data, [2; 10]);
        assert_eq!(f[2].orig_len, 1500);
        assert_eq!(f[2].ts_ns, 7_000);
    }
}

#[test]
fn pcapng_sections_start_afresh_and_unknown_blocks_are_passed_over() {
    let file = [
        LE.section(),
        LE.block(5, &[0; 24]),
        LE.interface(1, 0, &[]),
        LE.block(0x0bad_beef, &[0; 4096]),
        LE.enhanced(0, 1, 4, &[1; 4]),
        LE.block(0x4444, &[]),
        BE.section(),
        BE.interface(101, 0, &[BE.option(9, &[9])]),
        BE.enhanced(0, 2, 4, &[2; 4]),
        BE.section(),
        BE.enhanced(0, 3, 4, &[3; 4]),
    ]
    .concat();
    let (frames, e) = read(&file);
    assert_eq!(frames.len(), 2);
    assert_eq!(
        (frames[0].ts_ns, frames[0].link),
        (1_000, LinkType::ETHERNET)
    );
    assert_eq!((frames[1].ts_ns, frames[1].link), (2, LinkType::RAW));
    assert!(matches!(
        e.unwrap().reason,
        Reason::UnknownInterface { id: 0, known: 0 }
    ));
}

#[test]
fn pcapng_damage_is_told_apart() {
    let start = [LE.section(), LE.interface(1, 0, &[])].concat();
    let reason = |tail: Vec<u8>| read(&[start.clone(), tail].concat()).1.unwrap().reason;

    let mut trailer = LE.enhanced(0, 0, 4, &[0; 4]);
    *trailer.last_mut().unwrap() = 1;
    assert!(matches!(
        reason(trailer),
        Reason::BlockLengthMismatch { head: 36, .. }
    ));
    assert!(matches!(
        reason(LE.words(&[6, 11, 0])),
        Reason::BadBlockLength { .. }
    ));
    assert!(matches!(
        reason(LE.words(&[9, 14, 0])),
        Reason::BadBlockLength { .. }
    ));
    // A frame longer than its block.
    assert!(matches!(
        reason(LE.block(6, &LE.words(&[0, 0, 0, 8, 8, 0]))),
        Reason::BadBlockLength { .. }
    ));
    // An option longer than its block.
    let option = [LE.u16(9), LE.u16(200)].concat();
    assert!(matches!(
        reason(LE.interface(1, 0, &[option])),
        Reason::BadBlockLength { .. }
    ));
    // A block that claims four gigabytes is passed over without memory, until the file ends.
    assert!(matches!(
        reason(LE.words(&[0x77, u32::MAX - 3, 0])),
        Reason::Truncated { .. }
    ));
    let magic = LE.words(&[0x0a0d_0d0a, 28, 0xdead_beef, 1, 0, 0, 28]);
    assert!(matches!(reason(magic), Reason::BadByteOrder { .. }));
    let version = LE.words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 9, 0, 0, 28]);
    assert!(matches!(reason(version), Reason::Unsupported { .. }));
}

#[test]
fn too_many_interfaces_are_refused() {
    let mut file = LE.section();
    for _ in 0..65_537 {
        file.extend(LE.interface(1, 0, &[]));
    }
    assert!(matches!(
        read(&file).1.unwrap().reason,
        Reason::TooManyInterfaces(65_536)
    ));
}

#[test]
fn gzip_is_unpacked_and_its_damage_reported() {
    let mut file = LE.pcap_header(0xa1b2_c3d4, (2, 4), 1);
    let mut state = 1u32;
    for _ in 0..200 {
        file.extend(LE.words(&[0, 0, 100, 100]));
        file.extend((0..100).map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        }));
    }
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gz.write_all(&file).unwrap();
    let gz = gz.finish().unwrap();
    let all = good(&file);
    assert_eq!(good(&gz), all);

    let (frames, e) = read(&gz[..gz.len() / 2]);
    assert!(!frames.is_empty() && frames.len() < 200);
    assert_eq!(frames, all[..frames.len()]);
    assert!(matches!(e.unwrap().reason, Reason::Io(_)));
}

#[test]
fn what_is_no_capture_is_named() {
    let reason = |b: &[u8]| read(b).1.unwrap().reason;
    assert!(matches!(reason(b""), Reason::Empty));
    assert!(matches!(reason(b"ab"), Reason::Truncated { .. }));
    assert!(matches!(
        reason(b"#!/bin/sh\n and more text"),
        Reason::NotACapture { .. }
    ));
    for b in [
        &b"snoop\0\0\0"[..],
        b"\x28\xb5\x2f\xfd0000",
        b"\xa1\xb2\x34\xcd0000",
    ] {
        assert!(matches!(reason(b), Reason::Unsupported { .. }), "{b:?}");
    }
    let e = CaptureReader::open("/nonexistent/x.pcap").unwrap_err();
    assert!(
        e.to_string()
            .starts_with("/nonexistent/x.pcap: cannot open"),
        "{e}"
    );
}
