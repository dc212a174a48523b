//! Asks.

use crate::MAX_REPLY;
use crate::protocol::{Failure, Request};
use serde_json::Value;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// The chain said no.
    #[error("{0}")]
    Refused(Failure),
    /// It ended while it was asked.
    #[error("the chain has ended")]
    Gone,
    /// It does not answer.
    #[error("the chain does not answer: {0}")]
    Io(std::io::Error),
    /// It says something else.
    #[error("the chain's answer is none: {0}")]
    NoAnswer(String),
}

impl From<std::io::Error> for ClientError {
    fn from(e: std::io::Error) -> ClientError {
        match e.kind() {
            ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
                ClientError::Gone
            }
            _ => ClientError::Io(e),
        }
    }
}

/// A connection to a running chain.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
    /// The beginning of a line.
    pending: Vec<u8>,
}

impl Client {
    /// Connects; an answer is waited for as long as `patience`, if one is given.
    ///
    /// # Errors
    /// When nobody listens, or is not allowed to be asked.
    pub fn connect(path: &Path, patience: Option<Duration>) -> std::io::Result<Client> {
        let stream = UnixStream::connect(path)?;
        stream.set_read_timeout(patience)?;
        Ok(Client {
            stream: BufReader::new(stream),
            pending: Vec::new(),
        })
    }

    /// Asks, and waits for the answer.
    ///
    /// # Errors
    /// When the chain refuses, or does not answer in time.
    pub fn ask(&mut self, request: &Request) -> Result<Value, ClientError> {
        self.send(request)?;
        loop {
            let line = self.line()?;
            if let Some(end) = ended(line) {
                return end;
            }
        }
    }

    /// Asks, and hands every line before the answer to `each`, and `None` whenever nothing has come for as long as an
    /// answer is waited for. Where that says false, no more is waited for.
    ///
    /// # Errors
    /// When the chain refuses, or has gone.
    pub fn ask_for(
        &mut self,
        request: &Request,
        mut each: impl FnMut(Option<&Value>) -> bool,
    ) -> Result<Value, ClientError> {
        self.send(request)?;
        loop {
            let goes_on = match self.line() {
                Ok(line) if line.get("ok").is_none() => each(Some(&line)),
                Ok(line) => match ended(line) {
                    Some(end) => return end,
                    None => true,
                },
                Err(ClientError::Io(e))
                    if matches!(e.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) =>
                {
                    each(None)
                }
                Err(e) => return Err(e),
            };
            if !goes_on {
                return Ok(Value::Null);
            }
        }
    }

    fn send(&mut self, request: &Request) -> Result<(), ClientError> {
        let text = serde_json::to_string(request);
        let text = text.map_err(|e| ClientError::NoAnswer(e.to_string()))?;
        let to = self.stream.get_mut();
        Ok(to.write_all(format!("{text}\n").as_bytes())?)
    }

    /// The next line; what has come of it when time is over is kept.
    fn line(&mut self) -> Result<Value, ClientError> {
        let most = (MAX_REPLY + 1).saturating_sub(self.pending.len());
        let mut bounded = (&mut self.stream).take(most as u64);
        let n = bounded.read_until(b'\n', &mut self.pending)?;
        let line = std::mem::take(&mut self.pending);
        match line.len() {
            _ if n == 0 => Err(ClientError::Gone),
            n if n > MAX_REPLY => Err(ClientError::NoAnswer("it is too long".to_string())),
            _ => serde_json::from_slice(&line).map_err(|e| ClientError::NoAnswer(e.to_string())),
        }
    }
}

/// The answer, if the line is it.
fn ended(v: Value) -> Option<Result<Value, ClientError>> {
    match v.get("ok").and_then(Value::as_bool)? {
        true => Some(Ok(v)),
        false => {
            let error = v.get("error").cloned().unwrap_or_default();
            Some(Err(match serde_json::from_value(error) {
                Ok(failure) => ClientError::Refused(failure),
                Err(e) => ClientError::NoAnswer(e.to_string()),
            }))
        }
    }
}
