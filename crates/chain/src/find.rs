//! Chain files by name: files, folders, examples.

use crate::error::ChainError;
use crate::load::Options;
use std::path::{Path, PathBuf};

/// Finds a chain file (or a Click configuration, whose name ends in `.click`): a file, a folder with a `chain.yaml`, or
/// an example's name. An example `routers-7` that has no folder of its own is folder `routers-N` with parameter `n` =
/// 7.
pub fn find(
    name: &str,
    options: &Options,
) -> Result<(PathBuf, Option<(String, String)>), ChainError> {
    let direct = Path::new(name);
    if direct.is_file() {
        return Ok((direct.to_path_buf(), None));
    }
    if direct.join("chain.yaml").is_file() {
        return Ok((direct.join("chain.yaml"), None));
    }
    let plain = !name.contains(['/', '\\']) && name != "..";
    if plain {
        for dir in &options.examples {
            let f = dir.join(name).join("chain.yaml");
            if f.is_file() {
                return Ok((f, None));
            }
            if let Some((base, n)) = name.rsplit_once('-')
                && n.parse::<u32>().is_ok()
            {
                let f = dir.join(format!("{base}-N")).join("chain.yaml");
                if f.is_file() {
                    return Ok((f, Some(("n".to_string(), n.to_string()))));
                }
            }
        }
    }
    let all = example_names(options);
    let near = onefold_click::suggest::near_misses(name, all.iter().map(String::as_str));
    let near = if near.is_empty() {
        all.clone()
    } else {
        near.iter().map(|s| s.to_string()).collect()
    };
    Err(ChainError::NotFound {
        name: name.to_string(),
        near,
    })
}

/// The names of all examples, sorted.
pub fn example_names(options: &Options) -> Vec<String> {
    let mut names: Vec<String> = options
        .examples
        .iter()
        .filter_map(|d| std::fs::read_dir(d).ok())
        .flatten()
        .filter_map(|e| e.ok())
        .filter(|e| e.path().join("chain.yaml").is_file())
        .filter_map(|e| e.file_name().into_string().ok())
        .collect();
    names.sort();
    names.dedup();
    names
}
