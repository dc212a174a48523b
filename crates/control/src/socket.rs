//! Where sockets are, and which of them somebody listens at.

use nix::unistd::geteuid;
use std::io::ErrorKind;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

/// Why there is no socket.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Another process listens there.
    #[error("another chain already listens at {0}; give this one another name (--name NAME)")]
    InUse(PathBuf),
    /// There is a file that is no socket.
    #[error("{0} is there and is no socket: it is left alone; --control PATH names another place")]
    NoSocket(PathBuf),
    /// A name must be usable as a file's.
    #[error("'{0}' is no name: letters, digits, '.', '_' and '-', at most 64")]
    Name(String),
    /// Others may put sockets there.
    #[error(
        "{0} belongs to somebody else, or others may write there: remove it, or name another place"
    )]
    Folder(PathBuf),
    /// What the system says.
    #[error("{path}: {error}")]
    System {
        /// The socket, or its folder.
        path: PathBuf,
        /// Why not.
        error: std::io::Error,
    },
    /// Nobody listens.
    #[error("no chain of that name runs: nobody listens at {0}")]
    Nobody(PathBuf),
    /// No chain runs at all.
    #[error(
        "no chain runs here (no socket in {0} that anybody listens at); --socket PATH names another place"
    )]
    None(PathBuf),
    /// Several chains run.
    #[error("several chains run here, say which one: {}", .0.join(", "))]
    Several(Vec<String>),
}

/// The folder of sockets: `$XDG_RUNTIME_DIR/onefold`; without it `/run/onefold` for root, and
/// `/tmp/onefold-UID` for others.
pub fn default_folder() -> PathBuf {
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|d| !d.is_empty()) {
        Some(d) => PathBuf::from(d).join("onefold"),
        None if geteuid().is_root() => PathBuf::from("/run/onefold"),
        None => std::env::temp_dir().join(format!("onefold-{}", geteuid())),
    }
}

/// Makes the folder of a socket, for nobody else, unless it is there.
pub(crate) fn make_folder(path: &Path) -> Result<(), SocketError> {
    let Some(folder) = path.parent().filter(|f| !f.as_os_str().is_empty()) else {
        return Ok(());
    };
    let mut make = std::fs::DirBuilder::new();
    let made = make.recursive(true).mode(0o700).create(folder);
    made.map_err(|error| SocketError::System {
        path: folder.to_path_buf(),
        error,
    })
}

/// Is the folder one where only this user, or root, puts sockets? One that is not there is.
pub(crate) fn is_own(folder: &Path) -> Result<(), SocketError> {
    let Ok(m) = std::fs::symlink_metadata(folder) else {
        return Ok(());
    };
    let mine = m.is_dir() && (m.uid() == geteuid().as_raw() || m.uid() == 0);
    match mine && m.mode() & 0o022 == 0 {
        true => Ok(()),
        false => Err(SocketError::Folder(folder.to_path_buf())),
    }
}

/// The file of a name in a folder.
pub(crate) fn of_name(folder: &Path, name: &str) -> Result<PathBuf, SocketError> {
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    match !name.is_empty() && name.len() <= 64 && name.chars().all(fits) && !name.starts_with('.') {
        true => Ok(folder.join(format!("{name}.sock"))),
        false => Err(SocketError::Name(name.to_string())),
    }
}

/// Does anybody listen there?
pub(crate) fn listens(path: &Path) -> std::io::Result<bool> {
    match UnixStream::connect(path) {
        Ok(_) => Ok(true),
        Err(e) if matches!(e.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotFound) => {
            Ok(false)
        }
        Err(e) => Err(e),
    }
}

/// A running chain's socket.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    /// The chain's name.
    pub name: String,
    /// Its socket.
    pub path: PathBuf,
}

/// All chains that run, by name: those whose sockets in the folder somebody listens at.
pub fn running(folder: &Path) -> Vec<Found> {
    let files = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut all: Vec<Found> = files
        .filter_map(|f| {
            let path = f.path();
            let name = path
                .file_name()?
                .to_str()?
                .strip_suffix(".sock")?
                .to_string();
            listens(&path)
                .is_ok_and(|l| l)
                .then_some(Found { name, path })
        })
        .collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}

/// The socket of the chain with this name in the folder; of the only one that runs if no name is given.
///
/// # Errors
/// When nobody listens there, or it is not clear which one is meant.
pub fn find(folder: &Path, name: Option<&str>) -> Result<PathBuf, SocketError> {
    is_own(folder)?;
    if let Some(name) = name {
        let path = of_name(folder, name)?;
        return match listens(&path) {
            Ok(true) => Ok(path),
            Ok(false) => Err(SocketError::Nobody(path)),
            Err(error) => Err(SocketError::System { path, error }),
        };
    }
    let mut all = running(folder);
    match (all.pop(), all.is_empty()) {
        (None, _) => Err(SocketError::None(folder.to_path_buf())),
        (Some(one), true) => Ok(one.path),
        (Some(last), false) => {
            let names = all.into_iter().chain([last]).map(|f| f.name);
            Err(SocketError::Several(names.collect()))
        }
    }
}
