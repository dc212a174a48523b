//! A file that says which servers are down: `ADDRESS[:PORT] down` or `up`, a line each; `#` begins a comment.

use onefold_chain::HealthServer;
use std::io::Read as _;
use std::path::Path;
use std::time::SystemTime;

/// Longest file.
const MAX_BYTES: u64 = 1 << 20;

/// What a file says, by server. One without a port is all of an address.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Said(Vec<(HealthServer, bool)>);

impl Said {
    /// What it says of a server; the last line about it counts. What it says nothing of is up.
    pub fn is_up(&self, server: &HealthServer) -> bool {
        let about = |s: &HealthServer| {
            s.address == server.address && (s.port.is_none() || s.port == server.port)
        };
        let last = self.0.iter().rev().find(|(s, _)| about(s));
        last.is_none_or(|(_, up)| *up)
    }

    /// Reads the text.
    ///
    /// # Errors
    /// The first line that is not understood, in words. Nothing of such a file counts: it may be half written.
    pub fn parse(text: &str) -> Result<Said, String> {
        let mut all = Vec::new();
        for (n, line) in text.lines().enumerate() {
            let words = line.split('#').next().unwrap_or_default();
            let words: Vec<&str> = words.split_whitespace().collect();
            let server = |text: &str| text.parse::<HealthServer>().ok();
            let said = match words[..] {
                [] => continue,
                [who, "up"] => server(who).map(|s| (s, true)),
                [who, "down"] => server(who).map(|s| (s, false)),
                _ => None,
            };
            all.push(said.ok_or_else(|| {
                let line = line.trim();
                format!(
                    "line {}: expected ADDRESS[:PORT] and 'up' or 'down', found '{line}'",
                    n + 1
                )
            })?);
        }
        Ok(Said(all))
    }
}

/// What tells whether a file has changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    modified: SystemTime,
    len: u64,
    inode: u64,
}

/// What came of looking at a file: nothing where it is the one that was read before. Why it could not be read, and the
/// stamp that it has, if it is there.
pub type Read = Result<Option<(Stamp, Said)>, (Option<Stamp>, String)>;

/// Reads a file if it is another one than when it had this stamp.
///
/// # Errors
/// It cannot be read, or what it says is not understood; in words.
pub fn read(path: &Path, before: Option<Stamp>) -> Read {
    use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
    let failed = |e: std::io::Error| (None, e.to_string());
    // nobody waits for who writes to a pipe: the thread has servers to try, and an end
    let flags = nix::fcntl::OFlag::O_NONBLOCK.bits();
    let mut options = std::fs::OpenOptions::new();
    let file = options.read(true).custom_flags(flags).open(path);
    let file = file.map_err(failed)?;
    let about = file.metadata().map_err(failed)?;
    let stamp = Stamp {
        modified: about.modified().map_err(failed)?,
        len: about.len(),
        inode: about.ino(),
    };
    if before == Some(stamp) {
        return Ok(None);
    }
    let wrong = |why: String| (Some(stamp), why);
    if !about.is_file() {
        return Err(wrong("it is no file".into()));
    }
    let mut text = String::new();
    let n = file.take(MAX_BYTES + 1).read_to_string(&mut text);
    let n = n.map_err(|e| wrong(e.to_string()))?;
    if n as u64 > MAX_BYTES {
        return Err(wrong(format!("it is longer than {MAX_BYTES} bytes")));
    }
    Ok(Some((stamp, Said::parse(&text).map_err(wrong)?)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(text: &str) -> HealthServer {
        text.parse().unwrap()
    }

    #[test]
    fn a_line_for_each_server() {
        let text = "# maintenance\n10.0.0.1 down # until noon\n\n  10.0.0.2:80 down\n10.0.0.3 down\n10.0.0.3:81 up\n\
                    2001:db8::1 down\n[2001:db8::2]:80 down\n";
        let said = Said::parse(text).unwrap();
        for (who, up) in [
            ("10.0.0.1", false),
            ("10.0.0.1:8080", false),
            ("10.0.0.2", true),
            ("10.0.0.2:80", false),
            ("10.0.0.2:81", true),
            ("10.0.0.3:80", false),
            ("10.0.0.3:81", true),
            ("10.0.0.4", true),
            ("[2001:db8::1]:80", false),
            ("[2001:db8:0::2]:80", false),
            ("2001:db8::2", true),
        ] {
            assert_eq!(said.is_up(&server(who)), up, "{who}");
        }
    }

    #[test]
    fn what_is_not_understood_is_said() {
        for text in [
            "10.0.0.1 dow",
            "10.0.0.1",
            "10.0.0 up",
            "10.0.0.1:x up",
            "10.0.0.1 up down",
        ] {
            let said = Said::parse(&format!("10.0.0.9 up\n{text}\n")).unwrap_err();
            assert!(
                said.starts_with("line 2: ") && said.contains(text),
                "{said}"
            );
        }
    }

    #[test]
    fn it_is_read_when_it_has_changed() {
        let path = std::env::temp_dir().join(format!("onefold-health-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        assert!(read(&path, None).unwrap_err().0.is_none());
        std::fs::write(&path, "10.0.0.1 down\n").unwrap();
        let (stamp, said) = read(&path, None).unwrap().unwrap();
        assert!(!said.is_up(&server("10.0.0.1")));
        assert_eq!(read(&path, Some(stamp)).unwrap(), None);
        // as long as before, and perhaps in the same tick of the clock: another file in its place
        let other = path.with_extension("new");
        std::fs::write(&other, "10.0.0.2 down\n").unwrap();
        std::fs::rename(&other, &path).unwrap();
        let (_, said) = read(&path, Some(stamp)).unwrap().unwrap();
        assert!(said.is_up(&server("10.0.0.1")) && !said.is_up(&server("10.0.0.2")));
        std::fs::write(&path, "nonsense\n").unwrap();
        assert!(read(&path, None).unwrap_err().0.is_some());
        std::fs::write(&path, vec![b'#'; MAX_BYTES as usize + 1]).unwrap();
        assert!(read(&path, None).unwrap_err().1.contains("longer"));
        std::fs::remove_file(&path).unwrap();
    }

    /// A pipe that nobody writes to is refused, and not waited for.
    #[test]
    fn a_pipe_is_no_file() {
        let path = std::env::temp_dir().join(format!("onefold-health-pipe-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRWXU).unwrap();
        let (_, why) = read(&path, None).unwrap_err();
        assert!(why.contains("no file"), "{why}");
        std::fs::remove_file(&path).unwrap();
    }
}
