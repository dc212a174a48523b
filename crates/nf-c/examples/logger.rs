//! A network function in Rust that writes the first bytes of every packet to a file while packets go on: what
//! `logger.c` is in C.

use onefold_nf::native::{Native, NativePacket};
use onefold_nf::storage::{Done, FileBytes, Settings, Storage};
use std::error::Error;
use std::fs::OpenOptions;
use std::sync::Arc;
use std::time::Duration;

/// Bytes of a record: a packet's number, its length, its first bytes.
const RECORD: usize = 16;

fn record(number: u64, p: &NativePacket) -> Vec<u8> {
    let mut bytes = [number as u32, p.len as u32].map(u32::to_ne_bytes).concat();
    bytes.extend(p.data().iter().take(RECORD - bytes.len()));
    bytes.resize(RECORD, 0);
    bytes
}

fn main() -> Result<(), Box<dyn Error>> {
    log(&std::env::args().nth(1).unwrap_or("packets.log".into()))
}

/// Logs to this file, behind what is in it.
pub fn log(path: &str) -> Result<(), Box<dyn Error>> {
    let mut place = Native::from_environment()?;
    let mut options = OpenOptions::new();
    let file = Arc::new(
        options
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)?,
    );
    let settings = Settings {
        batch: 256,
        ..Settings::default()
    };
    let mut storage = Storage::new(settings, Some(place.bell()));
    // behind the last whole record
    let mut next = file.metadata()?.len() / RECORD as u64;
    let (mut batch, mut done, mut failed) = (Vec::new(), Vec::new(), 0u64);
    let mut look = |done: &mut Vec<Done<FileBytes<()>>>| {
        for d in done.drain(..) {
            if let Err(e) = d.result {
                eprintln!("logger: {path}: {e}");
                failed += 1;
            }
        }
    };
    while !place.is_over() {
        storage.take_done(&mut done);
        look(&mut done);
        if place.read(&mut batch, 32)? == 0 {
            place.wait_with(Duration::from_millis(100), 0, &storage)?;
        }
        let mut left = batch.len();
        for p in batch.drain(..) {
            // gives the processor up while both buffers are full
            place.yield_to_storage(&mut storage, left)?;
            let bytes = record(next, &p);
            let (file, context) = (file.clone(), ());
            storage.write(
                FileBytes {
                    file,
                    bytes,
                    context,
                },
                next * RECORD as u64,
            )?;
            next += 1;
            let to = p.port ^ 1;
            place.write(p, to);
            left -= 1;
        }
    }
    storage.finish();
    storage.take_done(&mut done);
    look(&mut done);
    place.end()?;
    match failed {
        0 => Ok(()),
        n => Err(format!("{n} records were not written").into()),
    }
}
