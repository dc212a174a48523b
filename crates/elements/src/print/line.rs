//! Where printed lines go, and how packet bytes are written out in them.

use onefold_element::args::{ArgScope, Args, Filename, FromArg, Word};
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::{ConfigError, ConfigErrors, Cx};
use std::fmt::Write as _;
use std::fs::File;
use std::io::Write as _;

/// Standard error, a file, or nowhere.
#[derive(Debug, Default)]
pub struct Output {
    path: Option<String>,
    file: Option<File>,
    silent: bool,
}

/// A copy (of a forked graph) does not write into the file a second time.
impl Clone for Output {
    fn clone(&self) -> Self {
        Output {
            path: self.path.clone(),
            file: None,
            silent: self.silent,
        }
    }
}

impl Output {
    /// Reads OUTFILE.
    pub fn configure(&mut self, args: &mut Args<'_>) {
        self.path = args.keyword("OUTFILE").map(|Filename(f)| f);
    }
    /// Reads CHANNEL: text for a channel that nobody listens on goes nowhere; only the default one has a listener here.
    pub fn configure_channel(&mut self, args: &mut Args<'_>) {
        let channel: Option<Word> = args.keyword("CHANNEL");
        self.silent = channel.is_some_and(|Word(w)| w != "default");
    }
    /// Creates the file.
    pub fn open(&mut self) -> Result<(), ConfigErrors> {
        if let Some(path) = &self.path {
            let file = File::create(path).map_err(|e| {
                vec![ConfigError {
                    argument: Some("OUTFILE".to_string()),
                    ..ConfigError::new(format!("{path}: {e}"))
                }]
            })?;
            self.file = Some(file);
        }
        Ok(())
    }
    /// Writes a line; the text may end with its newline or not. A file that cannot be written to any more is given up.
    pub fn line(&mut self, mut text: String, cx: &mut Cx<'_>) {
        if self.path.is_some() {
            text.push('\n');
            if self
                .file
                .as_mut()
                .is_some_and(|f| f.write_all(text.as_bytes()).is_err())
            {
                self.file = None;
            }
            return;
        }
        if !self.silent {
            if !text.ends_with('\n') {
                text.push('\n');
            }
            cx.chatter(&text);
        }
    }
}

/// How packet bytes are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Contents {
    /// Not.
    #[default]
    None,
    /// In hexadecimal.
    Hex,
    /// As characters, with dots for those that are not printable ASCII.
    Ascii,
}

impl FromArg for Contents {
    const WANTS: &'static str = "NONE, HEX or ASCII";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        if let Ok(b) = bool::from_arg(s, scope) {
            return Ok(if b { Contents::Hex } else { Contents::None });
        }
        match s.to_ascii_uppercase().as_str() {
            "NONE" => Ok(Contents::None),
            "HEX" => Ok(Contents::Hex),
            "ASCII" => Ok(Contents::Ascii),
            _ => Err(None),
        }
    }
}

/// Appends two hexadecimal digits.
pub fn hex(out: &mut String, b: u8) {
    // writing to a string cannot fail
    let _ = write!(out, "{b:02x}");
}

/// Appends a printable ASCII character or a dot.
pub fn ascii(out: &mut String, b: u8) {
    out.push(if (32..=126).contains(&b) {
        b.into()
    } else {
        '.'
    });
}

/// As many bytes as `max` allows, all if it is negative.
pub fn limited(data: &[u8], max: i32) -> &[u8] {
    match usize::try_from(max) {
        Ok(n) => &data[..n.min(data.len())],
        Err(_) => data,
    }
}

/// The `active` handler.
pub const ACTIVE: &[HandlerInfo] = &[HandlerInfo::rw("active")];

/// Reads the `active` handler.
pub fn read_active(active: bool, name: &str) -> HandlerResult {
    match name {
        "active" => Ok(active.to_string()),
        _ => Err(HandlerError::NoSuchHandler(name.to_string())),
    }
}

/// Writes the `active` handler.
pub fn write_active(active: &mut bool, name: &str, value: &str) -> Result<(), HandlerError> {
    match name {
        "active" => *active = onefold_element::handler::parse_bool(value)?,
        _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
    }
    Ok(())
}
