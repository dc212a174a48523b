//! Every capture of the shared data: no panic, and as many frames as its table of statistics says.

use std::collections::BTreeMap;
use std::path::PathBuf;

use onefold_capture::CaptureReader;

fn data() -> Option<PathBuf> {
    let table = onefold_testing::data("PCAP_STATS.tsv")?;
    table.parent().map(PathBuf::from)
}

#[test]
fn every_capture_reads_as_its_statistics_say() {
    let Some(root) = data() else { return };
    let table = std::fs::read_to_string(root.join("PCAP_STATS.tsv")).unwrap();
    let mut rows = table.lines();
    let columns: BTreeMap<&str, usize> = rows
        .next()
        .unwrap()
        .split('\t')
        .enumerate()
        .map(|(i, c)| (c, i))
        .collect();
    let (mut files, mut frames, mut different) = (0, 0, Vec::new());
    for row in rows {
        let cells: Vec<&str> = row.split('\t').collect();
        let cell = |name: &str| columns.get(name).and_then(|&i| cells.get(i)).copied();
        let path = cell("path").unwrap();
        let expected: u64 = cell("packets").unwrap().parse().unwrap();
        let damaged = cell("container_error").is_some_and(|c| !c.is_empty());
        let mut reader = match CaptureReader::open(root.join(path)) {
            Ok(r) => r,
            Err(e) => {
                different.push(format!("{e}"));
                continue;
            }
        };
        let mut buf = Vec::new();
        let mut error = None;
        while let Some(item) = reader.next_into(&mut buf) {
            error = item.err();
        }
        files += 1;
        frames += reader.frames();
        if reader.frames() != expected || damaged != error.is_some() {
            different.push(format!(
                "{path}: {} frames, expected {expected}; {error:?}, expected damage: {damaged}",
                reader.frames()
            ));
        }
    }
    println!("{files} captures, {frames} frames");
    assert!(files > 1_000, "only {files} captures were found");
    assert!(different.is_empty(), "{}", different.join("\n"));
}
