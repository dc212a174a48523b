//! systemd's journal, in its own protocol (systemd.io, "Native Journal Protocol"): a datagram of fields.

use super::Level;
use super::line::{Line, plain};
use std::io;
use std::os::unix::net::UnixDatagram;

/// Where it listens.
const SOCKET: &str = "/run/systemd/journal/socket";

/// A way to it.
pub struct Journal(UnixDatagram);

impl Journal {
    /// Connects to it.
    ///
    /// # Errors
    /// When it is not there.
    pub fn connect() -> io::Result<Journal> {
        let s = UnixDatagram::unbound()?;
        s.connect(SOCKET)?;
        Ok(Journal(s))
    }

    /// Sends a line.
    ///
    /// # Errors
    /// What the system says.
    pub fn send(&self, line: &Line) -> io::Result<()> {
        self.0.send(&datagram(line)).map(|_| ())
    }
}

/// Priorities of syslog(3).
fn priority(l: Level) -> u8 {
    match l {
        Level::Error => 3,
        Level::Warning => 4,
        Level::Info => 6,
    }
}

fn datagram(line: &Line) -> Vec<u8> {
    let mut all = Vec::new();
    let mut said = line.event.to_string();
    for (k, v) in &line.fields {
        said += &format!(" {k}={}", plain(v));
    }
    field(&mut all, "MESSAGE", &said);
    field(&mut all, "PRIORITY", &priority(line.level).to_string());
    field(&mut all, "SYSLOG_IDENTIFIER", "onefold");
    field(&mut all, "ONEFOLD_EVENT", line.event);
    for (k, v) in &line.fields {
        let value = v.as_str().map_or_else(|| v.to_string(), str::to_string);
        field(
            &mut all,
            &format!("ONEFOLD_{}", k.to_ascii_uppercase()),
            &value,
        );
    }
    all
}

/// Values with ends of lines have their length in front.
fn field(to: &mut Vec<u8>, name: &str, value: &str) {
    to.extend_from_slice(name.as_bytes());
    match value.contains('\n') {
        false => {
            to.push(b'=');
            to.extend_from_slice(value.as_bytes());
        }
        true => {
            to.push(b'\n');
            to.extend_from_slice(&(value.len() as u64).to_le_bytes());
            to.extend_from_slice(value.as_bytes());
        }
    }
    to.push(b'\n');
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Map;
    use std::time::SystemTime;

    #[test]
    fn fields_are_as_the_journal_reads_them() {
        let mut fields = Map::new();
        fields.insert("port".into(), "lan".into());
        fields.insert("what".into(), "two\nlines".into());
        let line = Line {
            at: SystemTime::now(),
            level: Level::Error,
            event: "link",
            fields,
        };
        let d = datagram(&line);
        let text = String::from_utf8_lossy(&d);
        assert!(
            text.starts_with("MESSAGE=link port=lan what=\"two\\nlines\"\nPRIORITY=3\n"),
            "{text}"
        );
        assert!(
            text.contains("\nONEFOLD_EVENT=link\nONEFOLD_PORT=lan\nONEFOLD_WHAT\n"),
            "{text}"
        );
        let mut long = 9u64.to_le_bytes().to_vec();
        long.extend_from_slice(b"two\nlines\n");
        assert!(d.ends_with(&long), "{text}");
    }
}
