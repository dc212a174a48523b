//! Errors, and the reader of the files that a chain is made of.

use onefold_click::diag::Diagnostic;
use onefold_click::source::{FileId, SourceMap, Span};
use std::io::Read;
use std::path::{Path, PathBuf};

/// Largest file that is read, in bytes.
pub const MAX_FILE_BYTES: u64 = onefold_click::source::MAX_SOURCE_BYTES as u64;

/// Why there is no chain.
#[derive(Debug, thiserror::Error)]
pub enum ChainError {
    /// Neither a file nor the name of an example.
    #[error("no chain file or example named '{name}'")]
    NotFound {
        /// What was asked for.
        name: String,
        /// Examples with names like it, or all of them.
        near: Vec<String>,
    },
    /// The chain, or a file that it names, is wrong.
    #[error("{} error(s) in the chain", .0.iter().filter(|d| d.is_error()).count())]
    Invalid(Vec<Diagnostic>),
}

/// Reads the files that a chain names, keeps their texts for diagnostics, and collects these.
pub struct Reader {
    /// All texts read.
    pub sources: SourceMap,
    /// All that is wrong so far, and warnings.
    pub diagnostics: Vec<Diagnostic>,
    /// Files named in the chain are relative to this folder.
    pub dir: PathBuf,
    /// Whether files may be read at all; a chain from an unknown hand may name any.
    pub files: bool,
    /// The chain's ports that are network interfaces.
    pub live: crate::live::Live,
    /// Lists of rules hold what no packet comes to, too ([`crate::load_whole`]).
    pub(crate) whole: bool,
    /// Changes that are not in the file.
    pub(crate) edits: Vec<crate::edit::Edit>,
    /// Which of how many workers the chain is for.
    pub(crate) share: crate::workers::Share,
    /// What was found of translators.
    pub(crate) translators: Vec<crate::workers::Translator>,
    /// What functions are in the kernel, where that is asked for.
    pub(crate) kernel: Option<crate::kernel::KernelPlan>,
    /// The ports of functions that the chain file connects.
    pub(crate) wired: std::collections::HashSet<crate::links::PortRef>,
}

impl Reader {
    /// Relative to `dir`.
    pub fn new(dir: &Path) -> Reader {
        Reader {
            sources: SourceMap::new(),
            diagnostics: Vec::new(),
            dir: dir.to_path_buf(),
            files: true,
            live: crate::live::Live::default(),
            whole: false,
            edits: Vec::new(),
            share: crate::workers::Share::default(),
            translators: Vec::new(),
            kernel: None,
            wired: std::collections::HashSet::new(),
        }
    }

    /// Reads no files: a chain that names one is wrong.
    pub fn without_files() -> Reader {
        Reader {
            files: false,
            ..Reader::new(Path::new("."))
        }
    }

    /// Records an error at a place.
    pub fn error(&mut self, span: Span, message: impl Into<String>) {
        let d = Diagnostic::error(message).at(&self.sources, span);
        self.diagnostics.push(d);
    }

    /// Records an error at a place, with a hint.
    pub fn error_hint(&mut self, span: Span, message: impl Into<String>, hint: impl Into<String>) {
        let d = Diagnostic::error(message)
            .at(&self.sources, span)
            .hint(hint);
        self.diagnostics.push(d);
    }

    /// No error so far?
    pub fn ok(&self) -> bool {
        !self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// The path of a file that the chain names: absolute as it is, relative to the chain file's folder, or, where there
    /// is no such file, to the current folder (so that `--set rules=FILE` means what the shell completes).
    pub fn resolve(&self, name: &str) -> PathBuf {
        let p = Path::new(name);
        let beside = self.dir.join(p);
        if p.is_absolute() || beside.exists() || !p.exists() {
            beside
        } else {
            p.to_path_buf()
        }
    }

    /// Reads a file named at `span`. On failure the error is recorded.
    pub fn read(&mut self, name: &str, span: Span) -> Option<(FileId, String)> {
        let path = self.resolve(name);
        let shown = path.display().to_string();
        let bytes = match std::fs::metadata(&path) {
            _ if !self.files => Err("no files may be read here".to_string()),
            Ok(m) if m.is_dir() => Err("is a folder, not a file".to_string()),
            Ok(m) if m.len() > MAX_FILE_BYTES => {
                Err(format!("is longer than {} MiB", MAX_FILE_BYTES >> 20))
            }
            // devices and pipes have no length: never more than the bound
            Ok(_) => {
                let mut bytes = Vec::new();
                std::fs::File::open(&path)
                    .and_then(|f| f.take(MAX_FILE_BYTES + 1).read_to_end(&mut bytes))
                    .map_err(|e| e.to_string())
                    .and_then(|n| match n as u64 > MAX_FILE_BYTES {
                        true => Err(format!("is longer than {} MiB", MAX_FILE_BYTES >> 20)),
                        false => Ok(bytes),
                    })
            }
            Err(e) => Err(e.to_string()),
        };
        match bytes.and_then(|b| String::from_utf8(b).map_err(|_| "is not UTF-8 text".to_string()))
        {
            Ok(text) => Some((self.sources.add(shown, text.clone()), text)),
            Err(why) => {
                self.error_hint(
                    span,
                    format!("cannot read '{shown}': {why}"),
                    "names are relative to the chain file",
                );
                None
            }
        }
    }

    /// The span of the word in line `line` (from 1) that a message is about: the first thing that stands in quotes in
    /// the message, if it is in the line once. Else that of the line.
    pub fn word_span(&self, file: FileId, line: usize, message: &str) -> Span {
        let whole = self.line_span(file, line);
        let bytes = self.sources.bytes(file);
        let Some(text) = bytes.get(whole.start as usize..whole.end as usize) else {
            return whole;
        };
        let quoted = |q: char| {
            let (before, rest) = message.split_once(q)?;
            Some((before.len(), rest.split_once(q)?.0))
        };
        let first = ['`', '\''].into_iter().filter_map(quoted).min();
        let Some(word) = first.map(|(_, w)| w.as_bytes()).filter(|w| !w.is_empty()) else {
            return whole;
        };
        let edge = |b: Option<&u8>| b.is_none_or(|b| !b.is_ascii_alphanumeric() && *b != b'_');
        let mut found = text.windows(word.len()).enumerate().filter(|(i, w)| {
            let before = i.checked_sub(1).and_then(|i| text.get(i));
            *w == word && edge(before) && edge(text.get(i + word.len()))
        });
        match (found.next(), found.next()) {
            (Some((i, _)), None) => {
                let start = whole.start as usize + i;
                Span::new(file, start, start + word.len())
            }
            _ => whole,
        }
    }

    /// The span of line `line` (from 1) of a file that was read, without its white space.
    pub fn line_span(&self, file: FileId, line: usize) -> Span {
        let bytes = self.sources.bytes(file);
        let mut start = 0;
        for _ in 1..line {
            match bytes[start..].iter().position(|b| *b == b'\n') {
                Some(n) => start += n + 1,
                None => break,
            }
        }
        let end = bytes[start..]
            .iter()
            .position(|b| *b == b'\n')
            .map_or(bytes.len(), |n| start + n);
        let trimmed = bytes[start..end].trim_ascii();
        let lead = bytes[start..end]
            .iter()
            .take_while(|b| b.is_ascii_whitespace())
            .count();
        Span::new(file, start + lead, start + lead + trimmed.len())
    }
}
