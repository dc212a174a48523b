//! `onefold status`: how a running chain stands.

use crate::common::{self, thousands};
use crate::servers;
use anyhow::{Result, anyhow};
use onefold_control::{Client, ClientError, Failure, Kind, Request, default_folder, find};
use serde_json::Value;
use std::path::PathBuf;
use std::time::Duration;

/// Longest time for an answer that takes no work.
pub const PATIENCE: Duration = Duration::from_secs(15);

/// Which running chain.
#[derive(clap::Args, Debug, Clone)]
pub struct Which {
    /// Its name (`onefold run --name`, or its chain's); the only one that runs if not given
    #[arg(value_name = "NAME")]
    pub name: Option<String>,
    /// Its control socket
    #[arg(long, value_name = "PATH", conflicts_with = "name")]
    pub socket: Option<PathBuf>,
}

impl Which {
    /// The one of this name (empty: the only one), or at this socket.
    pub fn of(name: &str, socket: Option<PathBuf>) -> Which {
        Which {
            name: (!name.is_empty()).then(|| name.to_string()),
            socket,
        }
    }

    /// Connects to it.
    ///
    /// # Errors
    /// When it does not run, or it is not clear which one is meant.
    pub fn connect(&self, patience: Option<Duration>) -> Result<Client> {
        let path = match &self.socket {
            Some(path) => path.clone(),
            None => find(&default_folder(), self.name.as_deref())?,
        };
        let shown = path.display();
        Client::connect(&path, patience).map_err(|e| anyhow!("{shown}: {e}"))
    }
}

/// What a chain that says no is reported as: the exit status, its reasons on standard error.
pub fn refused(e: ClientError, json: bool) -> Result<u8> {
    let f = match e {
        ClientError::Refused(f) => f,
        ClientError::Gone => Failure::new(Kind::Ended, e.to_string()),
        e => return Err(e.into()),
    };
    for line in &f.details {
        eprintln!("{line}");
    }
    eprintln!("onefold: {f}");
    if json {
        common::print_json(&f.line())?;
    }
    Ok(match f.kind {
        Kind::BadRequest | Kind::BadInput => common::BAD_INPUT,
        _ => common::HOLDS_NOT,
    })
}

/// Options of `onefold status`.
#[derive(clap::Args, Debug)]
pub struct Args {
    #[command(flatten)]
    which: Which,
    /// The operator's rules, too, each with what it decided
    #[arg(long)]
    rules: bool,
    /// Prints one JSON object
    #[arg(long)]
    json: bool,
}

/// Runs it.
pub fn run(args: &Args) -> Result<u8> {
    let mut client = args.which.connect(Some(PATIENCE))?;
    let request = Request::Status {
        rules: args.rules,
        servers: true,
    };
    let v = match client.ask(&request) {
        Ok(v) => v,
        Err(e) => return refused(e, args.json),
    };
    if args.json {
        return common::print_json(&v);
    }
    for line in super::top::frame(&v, None) {
        crate::say!("{line}");
    }
    for s in v["servers"].as_array().into_iter().flatten() {
        crate::say!("  {}", servers::line(s));
    }
    for r in v["rules"].as_array().into_iter().flatten() {
        crate::say!(
            "  {:>14} packets  {}  {}",
            thousands(r["packets"].as_u64().unwrap_or(0)),
            r["nf"].as_str().unwrap_or_default(),
            r["text"].as_str().unwrap_or_default()
        );
    }
    Ok(common::HOLDS)
}

/// A number of a status, 0 if it is not there.
pub fn number(v: &Value, path: &[&str]) -> u64 {
    let end = path.iter().try_fold(v, |v, key| v.get(key));
    end.and_then(Value::as_u64).unwrap_or(0)
}
