//! A burner that logs: packets that arrive at some of its ports are written to a file, each waited for, or behind them
//! (`onefold_nf::storage`).

use anyhow::{Context, Result};
use clap::ValueEnum;
use onefold_nf::native::{Native, NativePacket};
use onefold_nf::storage::{Done, FileBytes, Settings, Storage};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// The file begins again when it has this length, in bytes.
const LENGTH: u64 = 64 << 20;

/// How a log is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum How {
    /// Each packet is written, and goes on when it is on the disk.
    Waiting,
    /// Packets go on; what was collected of them is written meanwhile.
    Behind,
}

/// Options about it.
#[derive(clap::Args, Debug)]
pub struct LogArgs {
    /// Writes packets to this file, whose bytes are on the disk when a write is done (O_DSYNC); at 64 MiB it begins
    /// again
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Only those that arrive at this port; may be given several times
    #[arg(long, value_name = "PORT", requires = "log")]
    log_port: Vec<usize>,
    /// Waits for each, or writes behind them, so many together
    #[arg(long, value_enum, default_value_t = How::Behind, requires = "log")]
    log_how: How,
    /// Packets that are collected before they are written, of those that are written behind
    #[arg(long, value_name = "N", default_value_t = 256, requires = "log",
        value_parser = clap::value_parser!(u16).range(1..=4096))]
    log_batch: u16,
}

/// See the module's text.
pub struct Log {
    file: Arc<File>,
    path: PathBuf,
    ports: Vec<usize>,
    at: u64,
    storage: Option<Storage<FileBytes<()>>>,
    done: Vec<Done<FileBytes<()>>>,
    /// Memory to be used again.
    spare: Vec<Vec<u8>>,
    failed: u64,
}

impl Log {
    /// Of these options; `None`: nothing is to be logged.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn new(args: &LogArgs, place: &Native) -> Result<Option<Log>> {
        let Some(path) = &args.log else {
            return Ok(None);
        };
        let mut options = OpenOptions::new();
        let options = options.write(true).create(true).truncate(true);
        let file = options.custom_flags(nix::libc::O_DSYNC).open(path);
        let settings = Settings {
            batch: usize::from(args.log_batch),
            ..Settings::default()
        };
        let behind = args.log_how == How::Behind;
        Ok(Some(Log {
            file: Arc::new(file.with_context(|| format!("'{}'", path.display()))?),
            path: path.clone(),
            ports: args.log_port.clone(),
            at: 0,
            storage: behind.then(|| Storage::new(settings, Some(place.bell()))),
            done: Vec::new(),
            spare: Vec::new(),
            failed: 0,
        }))
    }

    /// Writes a packet, if it is one to be logged. `held`: packets of the batch that are not written to a port yet.
    ///
    /// # Errors
    /// A peer does what cannot be.
    pub fn write(&mut self, place: &mut Native, p: &NativePacket, held: usize) -> Result<()> {
        if !self.ports.is_empty() && !self.ports.contains(&p.port) {
            return Ok(());
        }
        let at = self.at;
        let next = at + p.len as u64;
        self.at = if next >= LENGTH { 0 } else { next };
        let Some(storage) = &mut self.storage else {
            if let Err(e) = self.file.write_all_at(p.data(), at) {
                self.failed(&e);
            }
            return Ok(());
        };
        place.yield_to_storage(storage, held)?;
        let mut bytes = self.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(p.data());
        let (file, context) = (self.file.clone(), ());
        storage.write(
            FileBytes {
                file,
                bytes,
                context,
            },
            at,
        )?;
        Ok(())
    }

    /// Between two batches: what was written is told.
    pub fn look(&mut self) {
        if let Some(storage) = &mut self.storage {
            storage.take_done(&mut self.done);
        }
        for d in std::mem::take(&mut self.done) {
            if let Err(e) = &d.result {
                self.failed(e);
            }
            self.spare.push(d.data.bytes);
        }
    }

    /// Sleeps until packets come, or something was written.
    ///
    /// # Errors
    /// A peer does what cannot be.
    pub fn wait(&self, place: &mut Native, most: Duration) -> Result<()> {
        match &self.storage {
            Some(storage) => place.wait_with(most, 0, storage)?,
            None => place.wait(most)?,
        }
        Ok(())
    }

    /// Everything is written.
    pub fn end(&mut self) {
        if let Some(storage) = &mut self.storage {
            storage.finish();
        }
        self.look();
        if self.failed > 0 {
            let shown = self.path.display();
            eprintln!("burn: '{shown}': {} packets were not written", self.failed);
        }
    }

    fn failed(&mut self, e: &std::io::Error) {
        if self.failed == 0 {
            eprintln!("burn: '{}': {e}", self.path.display());
        }
        self.failed += 1;
    }
}
