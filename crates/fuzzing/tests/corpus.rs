//! What runs of the fuzz targets have kept (`fuzz/corpus.tar.gz`, made by `scripts/keep-corpus.sh`), again: no finding.

use flate2::read::GzDecoder;
use onefold_fuzzing::TARGETS;
use std::io::Read;
use std::path::Path;

#[test]
fn nothing_is_found_in_what_was_kept() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus.tar.gz");
    let bytes = std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
    let mut inputs: Vec<(String, Vec<u8>)> = Vec::new();
    let mut archive = tar::Archive::new(GzDecoder::new(&bytes[..]));
    for entry in archive.entries().expect("an archive") {
        let mut entry = entry.expect("an entry");
        let name = entry.path().expect("a name").display().to_string();
        let mut data = Vec::new();
        if entry.header().entry_type().is_file() {
            entry.read_to_end(&mut data).expect("its bytes");
            inputs.push((name, data));
        }
    }
    for (target, run) in TARGETS {
        let dir = format!("{target}/");
        let own: Vec<_> = inputs
            .iter()
            .filter(|(n, _)| n.trim_start_matches("./").starts_with(&dir))
            .collect();
        assert!(own.len() >= 10, "{target}: {} inputs kept", own.len());
        for (name, data) in &own {
            let data = data.clone();
            if std::panic::catch_unwind(move || run(&data)).is_err() {
                panic!("{name}: see above");
            }
        }
        println!("{target}: {} inputs", own.len());
    }
}

/// Short inputs of all kinds, which no run needs to think of.
#[test]
fn plain_inputs() {
    for (_, run) in TARGETS {
        for data in [
            &b""[..],
            b"\0",
            b"a",
            b"\xff\xfe",
            &[0; 64],
            &[0xff; 64],
            b"# a comment\n",
        ] {
            run(data);
        }
    }
}
