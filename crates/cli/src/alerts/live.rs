//! Alerts of a chain on network interfaces, written while it runs: a line for each packet and rule, added to a file
//! that whoever rotates logs may move away (SIGHUP opens it anew).

use super::{CLASS, Signature, eve, name};
use crate::log::{self, Level};
use anyhow::{Context, Result};
use onefold_chain::Chain;
use onefold_engine::Graph;
use onefold_packet::Timestamp;
use serde_json::{Value, json};
use signal_hook::consts::SIGHUP;
use signal_hook::flag;
use std::collections::{BTreeMap, HashMap};
use std::fs::File;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// An Ethernet header in front of what elements tell of a packet, by the version of its IP header.
const ETHERNET: [u8; 12] = [0; 12];

/// The file, which all workers write to.
#[derive(Debug, Clone)]
pub struct Eve {
    to: Arc<Mutex<Written>>,
    reopen: Arc<AtomicBool>,
}

/// Ports of a chain that is a part of another one, with that one's port that all their packets have come in at, if
/// there is one.
pub type Origins = BTreeMap<String, Option<String>>;

#[derive(Debug)]
struct Written {
    path: PathBuf,
    file: File,
    /// By element and argument: packets until now.
    counts: HashMap<(String, usize), u64>,
    /// Something could not be written, which is said once.
    failed: bool,
    /// Nobody says when the file has been moved away: that is looked for.
    follows: bool,
    origins: Origins,
}

fn open(path: &Path) -> std::io::Result<File> {
    File::options().append(true).create(true).open(path)
}

impl Eve {
    /// Lines are added to this file.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn open(path: &Path) -> Result<Eve> {
        let eve = Eve::of(path, false, &Origins::new())?;
        flag::register(SIGHUP, Arc::clone(&eve.reopen)).context("--alerts: SIGHUP")?;
        Ok(eve)
    }

    /// Lines are added to the file of this name, by others too, of which this one has a part of the chain; where it has
    /// been moved away, to a new one.
    ///
    /// # Errors
    /// It cannot be written.
    pub fn beside_others(path: &Path, origins: &Origins) -> Result<Eve> {
        Eve::of(path, true, origins)
    }

    fn of(path: &Path, follows: bool, origins: &Origins) -> Result<Eve> {
        let file = open(path).with_context(|| format!("--alerts {}", path.display()))?;
        let written = Written {
            path: path.to_path_buf(),
            file,
            counts: HashMap::new(),
            failed: false,
            follows,
            origins: origins.clone(),
        };
        Ok(Eve {
            to: Arc::new(Mutex::new(written)),
            reopen: Arc::new(AtomicBool::new(false)),
        })
    }

    /// From now on the elements of this graph tell what they find.
    pub fn begin(&self, graph: &mut Graph) {
        for element in elements(graph) {
            // an element of this class has this handler
            let _ = graph.write_handler(&format!("{element}.tell_alerts"), "true");
        }
    }

    /// Writes what has been found since the last time.
    pub fn write(&self, graph: &mut Graph, chain: &Chain) {
        let mut found = Vec::new();
        for element in elements(graph) {
            let said = graph.read_handler(&format!("{element}.take_alerts"));
            let said = said.unwrap_or_default();
            if !said.is_empty() {
                found.push((element, said));
            }
        }
        let reopens = self.reopen.load(Ordering::Relaxed);
        if found.is_empty() && !reopens {
            return;
        }
        let mut to = self.to.lock().unwrap_or_else(PoisonError::into_inner);
        if self.reopen.swap(false, Ordering::Relaxed) || to.follows && to.is_moved() {
            to.reopen();
        }
        for (element, said) in found {
            to.add(chain, &element, &said);
        }
    }
}

/// Names of the elements with rules on payloads.
fn elements(graph: &Graph) -> Vec<String> {
    let all = graph.spec().elements.iter();
    let own = all.filter(|e| e.class == CLASS);
    own.map(|e| e.name.clone()).collect()
}

impl Written {
    /// Is the file of that name another one by now, or not there?
    fn is_moved(&self) -> bool {
        let own = self.file.metadata().map(|m| (m.dev(), m.ino()));
        let named = std::fs::metadata(&self.path).map(|m| (m.dev(), m.ino()));
        own.ok() != named.ok()
    }

    /// The file of that name, which may be another one by now.
    fn reopen(&mut self) {
        match open(&self.path) {
            Ok(file) => self.file = file,
            Err(e) => {
                let path = self.path.display();
                eprintln!("warning: {path} cannot be opened anew, goes on with the old file: {e}");
            }
        }
    }

    /// What an element has told.
    fn add(&mut self, chain: &Chain, element: &str, said: &str) {
        let mut lines = Vec::new();
        for line in said.lines() {
            if let Some(n) = line.strip_prefix("lost ") {
                let fields = [("element", element.into()), ("alerts", n.into())];
                log::event(Level::Warning, "alerts-lost", &fields);
                eprintln!(
                    "warning: {element}: {n} alerts were too many at once, and are counted only"
                );
                continue;
            }
            if let Some(v) = self.line(chain, element, line) {
                lines.extend(v.to_string().into_bytes());
                lines.push(b'\n');
            }
        }
        // one call, so that a line is whole for whoever reads along
        if let Err(e) = self.file.write_all(&lines)
            && !self.failed
        {
            self.failed = true;
            eprintln!("warning: {}: {e}", self.path.display());
        }
    }

    fn line(&mut self, chain: &Chain, element: &str, line: &str) -> Option<Value> {
        let mut words = line.split(' ');
        let at = Timestamp(words.next()?.parse().ok()?);
        let argument: usize = words.next()?.parse().ok()?;
        let blocked = words.next()? == "blocked";
        let ingress = words.next()?.parse().ok();
        let packet = packet(words.next().unwrap_or_default());
        let e = chain.graph.find(element)?;
        let text = chain.graph.elements.get(e)?.args.get(argument);
        let text = text.map_or("", |t| t.trim());
        let signature = Signature::of(name(text).unwrap_or(text));
        let loc = chain.graph.arg_loc(e, argument);
        let count = self.counts.entry((element.to_string(), argument));
        let count = count.or_default();
        *count += 1;
        let port = chain
            .ports
            .iter()
            .find(|p| p.source.is_some() && p.source == ingress);
        let port = port.and_then(|p| match self.origins.get(&p.name) {
            Some(origin) => origin.as_deref(),
            None => Some(p.name.as_str()),
        });
        let came = (port, None);
        let mut v = eve((came, at), &packet, (blocked, &signature));
        v["onefold"] = json!({
            "function": element.split('/').next(),
            "element": element,
            "file": loc.file.as_ref(),
            "line": loc.line,
            "count": *count,
        });
        Some(v)
    }
}

/// A frame that begins with these bytes of its IP header, in hexadecimal.
fn packet(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex
        .chars()
        .filter_map(|c| c.to_digit(16))
        .map(|d| d as u8)
        .collect();
    let net: Vec<u8> = digits.chunks_exact(2).map(|d| d[0] << 4 | d[1]).collect();
    let ether_type: [u8; 2] = match net.first().map(|b| b >> 4) {
        Some(6) => [0x86, 0xdd],
        _ => [0x08, 0x00],
    };
    [&ETHERNET[..], &ether_type, &net].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_of_told_headers() {
        let f = packet("6012");
        assert_eq!(f.get(12..), Some(&[0x86, 0xdd, 0x60, 0x12][..]));
        assert_eq!(packet("45x").get(12..), Some(&[8, 0, 0x45][..]));
    }
}
