//! A byte stream that knows where it is, and that tells "ended" from "ended within something".

use std::io::{self, BufRead, BufReader, Read};

use crate::error::Reason;

/// Large enough that a system call is shared by hundreds of frames.
const BUFFER: usize = 128 * 1024;

/// The bytes of a capture, decompressed.
pub(crate) struct Source {
    inner: BufReader<Box<dyn Read + Send>>,
    offset: u64,
    mark: u64,
    compressed: bool,
}

impl Source {
    /// Looks at the first two bytes: gzip is unpacked on the fly, anything else is passed through.
    pub fn new(reader: Box<dyn Read + Send>) -> io::Result<Self> {
        let mut raw = BufReader::with_capacity(BUFFER, reader);
        // `fill_buf` could show a single byte where the stream is a pipe, so the two are read and then put in front
        // again.
        let mut head = [0u8; 2];
        let got = fill(&mut raw, &mut head)?;
        let front = io::Cursor::new(head).take(got as u64);
        let whole: Box<dyn Read + Send> = Box::new(front.chain(raw));
        let compressed = got == 2 && head == [0x1f, 0x8b];
        let inner: Box<dyn Read + Send> = if compressed {
            Box::new(flate2::read::MultiGzDecoder::new(whole))
        } else {
            whole
        };
        Ok(Self {
            inner: BufReader::with_capacity(BUFFER, inner),
            offset: 0,
            mark: 0,
            compressed,
        })
    }

    /// Was the stream gzip?
    pub fn compressed(&self) -> bool {
        self.compressed
    }

    /// Bytes consumed so far.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Notes that a structure (header, record, block) starts here.
    pub fn begin(&mut self) {
        self.mark = self.offset;
    }

    /// Where the structure starts that is being read.
    pub fn begun(&self) -> u64 {
        self.mark
    }

    /// Reads until `buf` is full or the stream ends; returns how many bytes there were.
    pub fn fill(&mut self, buf: &mut [u8]) -> Result<usize, Reason> {
        let got = fill(&mut self.inner, buf).map_err(Reason::Io)?;
        self.offset += got as u64;
        Ok(got)
    }

    /// Fills `buf` or reports the structure `what` as cut off.
    pub fn exact(&mut self, buf: &mut [u8], what: &'static str) -> Result<(), Reason> {
        let got = self.fill(buf)?;
        if got < buf.len() {
            return Err(Reason::Truncated {
                what,
                needed: buf.len() as u64,
                got: got as u64,
            });
        }
        Ok(())
    }

    /// A fixed number of bytes.
    pub fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Reason> {
        let mut a = [0; N];
        self.exact(&mut a, what)?;
        Ok(a)
    }

    /// Passes over `n` bytes without keeping them.
    pub fn skip(&mut self, n: u64, what: &'static str) -> Result<(), Reason> {
        let mut left = n;
        while left > 0 {
            let available = match self.inner.fill_buf() {
                Ok(b) => b.len() as u64,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(Reason::Io(e)),
            };
            if available == 0 {
                return Err(Reason::Truncated {
                    what,
                    needed: n,
                    got: n - left,
                });
            }
            let step = available.min(left);
            self.inner.consume(step as usize);
            self.offset += step;
            left -= step;
        }
        Ok(())
    }
}

fn fill(r: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while let Some(rest) = buf.get_mut(got..).filter(|rest| !rest.is_empty()) {
        match r.read(rest) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

/// Integers of a file whose byte order is known only at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Endian {
    Little,
    Big,
}

impl Endian {
    pub fn u16(self, b: [u8; 2]) -> u16 {
        match self {
            Self::Little => u16::from_le_bytes(b),
            Self::Big => u16::from_be_bytes(b),
        }
    }

    pub fn u32(self, b: [u8; 4]) -> u32 {
        match self {
            Self::Little => u32::from_le_bytes(b),
            Self::Big => u32::from_be_bytes(b),
        }
    }

    pub fn i64(self, b: [u8; 8]) -> i64 {
        match self {
            Self::Little => i64::from_le_bytes(b),
            Self::Big => i64::from_be_bytes(b),
        }
    }

    /// The `i`-th 32-bit word of a fixed-size header; `i` is a constant at every call.
    pub fn word<const N: usize>(self, b: &[u8; N], i: usize) -> u32 {
        let at = i * 4;
        self.u32([b[at], b[at + 1], b[at + 2], b[at + 3]])
    }

    /// The 16-bit half at byte `at` of a fixed-size header; `at` is a constant at every call.
    pub fn half<const N: usize>(self, b: &[u8; N], at: usize) -> u16 {
        self.u16([b[at], b[at + 1]])
    }
}
