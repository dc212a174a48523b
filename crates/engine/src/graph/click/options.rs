//! The command line of Click's user-level driver.

/// Where the configuration comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Source {
    File(String),
    Expression(String),
}

/// What the command line says.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Options {
    pub source: Option<Source>,
    pub handlers: Vec<String>,
    pub exit_handler: Option<String>,
    pub output: Option<String>,
    pub params: Vec<(String, String)>,
    pub quit: bool,
    pub time: bool,
    pub warnings: bool,
    pub simtime: Option<f64>,
    pub real_time: bool,
    pub clickpath: Option<String>,
    pub help: bool,
    pub version: bool,
    pub flatten: bool,
    pub seed: Option<u64>,
}

/// Long options: name, short letter, kind of argument.
const LONG: &[(&str, Option<char>, Arg)] = &[
    ("allow-reconfigure", Some('R'), Arg::None),
    ("clickpath", Some('C'), Arg::Required),
    ("expression", Some('e'), Arg::Required),
    ("file", Some('f'), Arg::Required),
    ("flatten", None, Arg::None),
    ("handler", Some('h'), Arg::Required),
    ("help", None, Arg::None),
    ("output", Some('o'), Arg::Required),
    ("socket", None, Arg::Required),
    ("port", Some('p'), Arg::Required),
    ("quit", Some('q'), Arg::None),
    ("real-time", None, Arg::None),
    ("seed", None, Arg::Required),
    ("simtime", None, Arg::Optional),
    ("simulation-time", None, Arg::Optional),
    ("threads", Some('j'), Arg::Required),
    ("affinity", Some('a'), Arg::Optional),
    ("cpu", None, Arg::Optional),
    ("time", Some('t'), Arg::None),
    ("unix-socket", Some('u'), Arg::Required),
    ("version", Some('v'), Arg::None),
    ("warnings", None, Arg::None),
    ("no-warnings", Some('w'), Arg::None),
    ("exit-handler", Some('x'), Arg::Required),
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Arg {
    None,
    Required,
    Optional,
}

/// Is this `NAME=VALUE`? Then its two halves.
fn parameter(word: &str) -> Option<(String, String)> {
    let (name, value) = word.split_once('=')?;
    let ok = !name.is_empty() && name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    ok.then(|| (name.to_string(), value.to_string()))
}

impl Options {
    /// Reads the command line (without the program's name). An error is what to tell the user.
    pub fn parse(args: &[String]) -> Result<Options, String> {
        let mut o = Options {
            warnings: true,
            ..Options::default()
        };
        let mut it = args.iter().peekable();
        let mut only_words = false;
        while let Some(word) = it.next() {
            if only_words || !word.starts_with('-') || word == "-" {
                match parameter(word) {
                    Some((name, _)) if o.params.iter().any(|(n, _)| *n == name) => {
                        return Err(format!("parameter '{name}' multiply defined"));
                    }
                    Some(p) => o.params.push(p),
                    None => o.set_source(Source::File(word.clone()))?,
                }
                continue;
            }
            if word == "--" {
                only_words = true;
                continue;
            }
            if let Some(long) = word.strip_prefix("--") {
                let (name, value) = match long.split_once('=') {
                    Some((n, v)) => (n, Some(v.to_string())),
                    None => (long, None),
                };
                let mut found = LONG.iter().filter(|l| l.0.starts_with(name));
                let exact = LONG.iter().find(|l| l.0 == name);
                let option = match (exact, found.next(), found.next()) {
                    (Some(e), _, _) | (None, Some(e), None) => e,
                    (None, Some(_), Some(_)) => return Err(format!("'--{name}' is ambiguous")),
                    _ => return Err(format!("unrecognized option '--{name}'")),
                };
                let value = match (option.2, value) {
                    (Arg::Required, None) => match it.next() {
                        Some(v) => Some(v.clone()),
                        None => return Err(format!("'--{}' requires an argument", option.0)),
                    },
                    (Arg::None, Some(_)) => {
                        return Err(format!("'--{}' can't take an argument", option.0));
                    }
                    (_, v) => v,
                };
                o.apply(option.0, value)?;
                continue;
            }
            let letters = word[1..].char_indices();
            for (i, c) in letters {
                let Some(option) = LONG.iter().find(|l| l.1 == Some(c)) else {
                    return Err(format!("unrecognized option '-{c}'"));
                };
                let rest = word[1..].get(i + c.len_utf8()..).unwrap_or("");
                let value = match option.2 {
                    Arg::None => None,
                    Arg::Required if rest.is_empty() => match it.next() {
                        Some(v) => Some(v.clone()),
                        None => return Err(format!("'-{c}' requires an argument")),
                    },
                    Arg::Optional if rest.is_empty() => None,
                    _ => Some(rest.to_string()),
                };
                let all = option.2 != Arg::None;
                o.apply(option.0, value)?;
                if all {
                    break;
                }
            }
        }
        Ok(o)
    }

    fn set_source(&mut self, s: Source) -> Result<(), String> {
        if self.source.is_some() {
            return Err("router configuration specified twice".into());
        }
        self.source = Some(s);
        Ok(())
    }

    fn apply(&mut self, name: &str, value: Option<String>) -> Result<(), String> {
        let v = value.clone().unwrap_or_default();
        match name {
            "file" => self.set_source(Source::File(v))?,
            "expression" => self.set_source(Source::Expression(v))?,
            "handler" => self.handlers.push(v),
            "exit-handler" if self.exit_handler.is_some() => {
                return Err("--exit-handler specified twice".into());
            }
            "exit-handler" => self.exit_handler = Some(v),
            "output" if self.output.is_some() => return Err("output file specified twice".into()),
            "output" => self.output = Some(v),
            "clickpath" => self.clickpath = Some(v),
            "quit" => self.quit = true,
            "time" => self.time = true,
            "warnings" => self.warnings = true,
            "no-warnings" => self.warnings = false,
            "help" => self.help = true,
            "version" => self.version = true,
            "flatten" => self.flatten = true,
            "real-time" => self.real_time = true,
            "simtime" | "simulation-time" => {
                let t = match value {
                    None => 1e9,
                    Some(t) => (t.parse::<f64>().ok().filter(|t| t.is_finite()))
                        .ok_or_else(|| format!("'--simtime' expects a real number, not '{t}'"))?,
                };
                self.simtime = Some(t);
            }
            "seed" => {
                let s = v.parse();
                self.seed = Some(s.map_err(|_| format!("'--seed' expects a number, not '{v}'"))?);
            }
            "threads" if v.parse::<u32>().is_err() => {
                return Err(format!("'--threads' expects a number, not '{v}'"));
            }
            "port" | "unix-socket" | "socket" => {
                return Err(format!("'--{name}': control sockets are not opened"));
            }
            // one thread, pinned nowhere; nothing is reconfigured from outside
            _ => {}
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(s: &str) -> Result<Options, String> {
        let v: Vec<String> = s.split_whitespace().map(str::to_string).collect();
        Options::parse(&v)
    }

    #[test]
    fn reads_what_click_reads() {
        let o = parse("-q -h c.count x.click N=3 --simtime=5 -wt --hand d.x").unwrap();
        assert_eq!(o.source, Some(Source::File("x.click".into())));
        assert_eq!(o.handlers, ["c.count", "d.x"]);
        assert_eq!(o.params, [("N".to_string(), "3".to_string())]);
        assert!(o.quit && o.time && !o.warnings);
        assert_eq!(o.simtime, Some(5.0));
        let o = parse("-eIdle").unwrap();
        assert_eq!(o.source, Some(Source::Expression("Idle".into())));
        assert!(parse("a b").is_err());
        assert!(parse("-e").is_err());
        assert!(parse("--bogus").is_err());
        assert!(parse("-p 7777").unwrap_err().contains("control sockets"));
        assert_eq!(parse("--simtime").unwrap().simtime, Some(1e9));
    }
}
