//! What can go wrong in `onefold gen`.

use std::io;
use std::path::PathBuf;

use onefold_capture::{CaptureError, WriteError};

use crate::rules::{RuleError, RuleParamsError};
use crate::traffic::TrafficError;

/// Why nothing was generated, or not all of it.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum GenError {
    /// A flag whose value cannot be used.
    #[error("{flag}: {message}")]
    Usage {
        /// The flag, as on the command line.
        flag: &'static str,
        /// What is wrong, and what is expected.
        message: String,
    },
    /// Parameters of traffic that do not fit together.
    #[error(transparent)]
    Traffic(#[from] TrafficError),
    /// Parameters of rules that do not fit together.
    #[error(transparent)]
    RuleParams(#[from] RuleParamsError),
    /// A rule set that cannot be read.
    #[error("{}", list(path, errors))]
    Rules {
        /// The file.
        path: PathBuf,
        /// Its bad lines.
        errors: Vec<RuleError>,
    },
    /// A capture that cannot be written.
    #[error(transparent)]
    Capture(#[from] WriteError),
    /// A capture that cannot be read.
    #[error(transparent)]
    Read(#[from] CaptureError),
    /// Another file that cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// Which file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

fn list(path: &std::path::Path, errors: &[RuleError]) -> String {
    errors
        .iter()
        .map(|e| format!("{}:{}:{}: {}", path.display(), e.line, e.column, e.message))
        .collect::<Vec<_>>()
        .join("\n")
}
