//! Files that are written by name, where `-` is the standard output.

use onefold_capture::{CaptureWriter, Format, LinkType, WriteError};
use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

/// Is the standard output meant?
pub fn is_standard(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// Opens a file for writing, replacing one that exists; a FIFO waits for somebody who reads.
///
/// # Errors
/// It cannot be opened.
pub fn file(path: &Path) -> io::Result<File> {
    match is_standard(path) {
        true => Ok(File::from(io::stdout().as_fd().try_clone_to_owned()?)),
        false => File::create(path),
    }
}

/// A capture of Ethernet frames, in the format that its name asks for; on the standard output pcap with nanoseconds.
///
/// # Errors
/// It cannot be opened or written.
pub fn capture(path: impl AsRef<Path>) -> Result<CaptureWriter<File>, WriteError> {
    let path = path.as_ref();
    if !is_standard(path) {
        return CaptureWriter::create_for(path, LinkType::ETHERNET);
    }
    let out = file(path).map_err(|source| WriteError::Create {
        path: path.to_path_buf(),
        source,
    })?;
    CaptureWriter::new(out, Format::PcapNs, LinkType::ETHERNET, 0)
}
