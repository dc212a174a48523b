//! Lines and records of a summary dump, from a file, standard input or a string.

use std::fs::File;
use std::io::{self, BufRead, BufReader};

/// Longest line or record that is read; what is longer is cut there.
pub const MAX_LINE: usize = 1 << 20;

/// Reads lines and counts them.
pub struct Lines {
    from: Box<dyn BufRead + Send>,
    position: u64,
    /// Number of the line or record read last, from 1.
    pub number: u64,
    ahead: Option<Vec<u8>>,
}

impl Lines {
    fn new(from: Box<dyn BufRead + Send>) -> Self {
        Lines {
            from,
            position: 0,
            number: 0,
            ahead: None,
        }
    }

    /// Over a string.
    pub fn of(text: Vec<u8>) -> Self {
        Self::new(Box::new(io::Cursor::new(text)))
    }

    /// Over standard input.
    pub fn stdin() -> Self {
        Self::new(Box::new(BufReader::new(io::stdin())))
    }

    /// Over a file, compressed by gzip or not.
    pub fn open(path: &str) -> io::Result<Self> {
        let mut file = BufReader::new(File::open(path)?);
        let compressed = file.fill_buf()?.starts_with(&[0x1f, 0x8b]);
        Ok(Self::new(match compressed {
            true => Box::new(BufReader::new(flate2::bufread::MultiGzDecoder::new(file))),
            false => Box::new(file),
        }))
    }

    /// Bytes read so far.
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Is there nothing more? (A line that was looked at counts as there.)
    pub fn at_end(&mut self) -> io::Result<bool> {
        Ok(self.ahead.is_none() && self.from.fill_buf()?.is_empty())
    }

    /// The next line, with its end; empty at the end of the file. Lines end with LF, CR or both.
    pub fn line(&mut self) -> io::Result<Vec<u8>> {
        let line = match self.ahead.take() {
            Some(l) => l,
            None => self.read_line()?,
        };
        if !line.is_empty() {
            self.number += 1;
            self.position += line.len() as u64;
        }
        Ok(line)
    }

    /// The next line, which [`Lines::line`] will give again.
    pub fn peek(&mut self) -> io::Result<&[u8]> {
        if self.ahead.is_none() {
            self.ahead = Some(self.read_line()?);
        }
        Ok(self.ahead.as_deref().unwrap_or_default())
    }

    fn read_line(&mut self) -> io::Result<Vec<u8>> {
        let mut line = Vec::new();
        // Bound: MAX_LINE, then the line is taken to end.
        loop {
            let have = self.from.fill_buf()?;
            if have.is_empty() {
                return Ok(line);
            }
            let end = have.iter().position(|b| matches!(b, b'\n' | b'\r'));
            let room = MAX_LINE.saturating_sub(line.len());
            let take = end.map_or(have.len(), |e| e + 1).min(room);
            line.extend_from_slice(have.get(..take).unwrap_or_default());
            self.from.consume(take);
            match line.last() {
                Some(b'\n') => return Ok(line),
                Some(b'\r') => {
                    if self.from.fill_buf()?.first() == Some(&b'\n') {
                        line.push(b'\n');
                        self.from.consume(1);
                    }
                    return Ok(line);
                }
                _ if line.len() >= MAX_LINE => return Ok(line),
                _ => {}
            }
        }
    }

    /// The next binary record: is it one of text, and its bytes. Nothing at the end of the file.
    pub fn record(&mut self) -> io::Result<Option<(bool, Vec<u8>)>> {
        let mut head = [0u8; 4];
        if read_up_to(&mut self.from, &mut head)? < head.len() {
            return Ok(None);
        }
        let word = u32::from_be_bytes(head);
        let len = (word & 0x7fff_ffff) as usize;
        let Some(len) = len.checked_sub(head.len()) else {
            let m = "binary record too short";
            return Err(io::Error::new(io::ErrorKind::InvalidData, m));
        };
        if len > MAX_LINE {
            let m = "binary record too long";
            return Err(io::Error::new(io::ErrorKind::InvalidData, m));
        }
        let mut record = vec![0; len];
        if read_up_to(&mut self.from, &mut record)? < len {
            return Ok(None);
        }
        self.position += (head.len() + len) as u64;
        self.number += 1;
        let textual = word & 0x8000_0000 != 0;
        if textual {
            while record.last() == Some(&0) {
                record.pop();
            }
        }
        Ok(Some((textual, record)))
    }
}

fn read_up_to(from: &mut dyn BufRead, buf: &mut [u8]) -> io::Result<usize> {
    let mut got = 0;
    while let Some(rest) = buf.get_mut(got..).filter(|r| !r.is_empty()) {
        match from.read(rest) {
            Ok(0) => break,
            Ok(n) => got += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(got)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ends_of_lines() {
        let mut l = Lines::of(b"a\nb\r\nc\rd".to_vec());
        assert_eq!(l.peek().unwrap(), b"a\n");
        let all: Vec<Vec<u8>> = (0..5).map(|_| l.line().unwrap()).collect();
        assert_eq!(all, [&b"a\n"[..], b"b\r\n", b"c\r", b"d", b""]);
        assert_eq!((l.number, l.position()), (4, 8));
        assert!(l.at_end().unwrap());
        let mut l = Lines::of(vec![b'x'; MAX_LINE + 5]);
        assert_eq!(l.line().unwrap().len(), MAX_LINE);
        assert_eq!(l.line().unwrap().len(), 5);
    }

    #[test]
    fn records() {
        let mut l = Lines::of(vec![
            0, 0, 0, 6, 1, 2, 0x80, 0, 0, 7, b'x', b'\n', 0, 0, 0, 0, 9, 1,
        ]);
        assert_eq!(l.record().unwrap(), Some((false, vec![1, 2])));
        assert_eq!(l.record().unwrap(), Some((true, b"x\n".to_vec())));
        assert_eq!(l.record().unwrap(), None);
        assert!(Lines::of(vec![0, 0, 0, 3]).record().is_err());
        assert!(Lines::of(vec![0x7f, 0xff, 0xff, 0xff]).record().is_err());
    }
}
