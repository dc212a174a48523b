//! Libraries: files that `require(library "name")` includes.

use crate::source::MAX_SOURCE_BYTES;
use std::path::{Path, PathBuf};

/// Finds the files of `require(library "name")`.
pub trait Libraries {
    /// The file name and the text of library `name`, required by the file `from`; else why not.
    fn find(&self, name: &str, from: &str) -> Result<(String, Vec<u8>), String>;
}

/// Libraries in the directory of the file that requires them, and in the directories of a search path.
#[derive(Clone, Debug, Default)]
pub struct FileLibraries {
    path: Vec<PathBuf>,
}

impl FileLibraries {
    /// `path` is a list as in the environment variable `CLICKPATH`: directories separated by colons, each of which
    /// is searched for `conf/NAME` and `NAME`.
    pub fn new(path: Option<&str>) -> FileLibraries {
        let path = path
            .unwrap_or("")
            .split(':')
            .filter(|p| !p.is_empty())
            .map(PathBuf::from)
            .collect();
        FileLibraries { path }
    }
}

impl Libraries for FileLibraries {
    fn find(&self, name: &str, from: &str) -> Result<(String, Vec<u8>), String> {
        let beside = Path::new(from).parent().unwrap_or(Path::new(""));
        let below = self
            .path
            .iter()
            .flat_map(|dir| [dir.join("conf").join(name), dir.join(name)]);
        for file in std::iter::once(beside.join(name)).chain(below) {
            if file.is_file() {
                let shown = file.display().to_string();
                let too_large = file
                    .metadata()
                    .is_ok_and(|m| m.len() > MAX_SOURCE_BYTES as u64);
                return match std::fs::read(&file) {
                    Ok(_) if too_large => {
                        Err(format!("{shown} has more than {MAX_SOURCE_BYTES} bytes"))
                    }
                    Ok(bytes) => Ok((shown, bytes)),
                    Err(error) => Err(format!("{shown}: {error}")),
                };
            }
        }
        Err("there is no such file beside this one or in the search path".to_owned())
    }
}
