//! The arrow notation of links and ports: `fw[1] -> [0]router`, `fw[1] <-> [0]router`, `router[2]`, `[2]router`.

/// A port of a function, as written.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct PortRef {
    /// The function's name.
    pub function: String,
    /// The port (interface) number.
    pub port: usize,
}

impl std::fmt::Display for PortRef {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}[{}]", self.function, self.port)
    }
}

/// One arrow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Link {
    /// Packets leave here.
    pub from: PortRef,
    /// And arrive here.
    pub to: PortRef,
    /// And the other way round too (`<->`).
    pub both: bool,
}

/// `name`, `name[2]` or `[2]name`; without a number it is port 0.
pub fn parse_port(text: &str) -> Result<PortRef, String> {
    let t = text.trim();
    let bad = || format!("expected a port such as fw[1] or [0]router, found '{t}'");
    let number = |s: &str| {
        s.trim()
            .parse::<usize>()
            .ok()
            .filter(|n| *n < 65_536)
            .ok_or_else(bad)
    };
    let (name, port) = if let Some(r) = t.strip_prefix('[') {
        let (n, name) = r.split_once(']').ok_or_else(bad)?;
        (name.trim(), number(n)?)
    } else if let Some(r) = t.strip_suffix(']') {
        let (name, n) = r.split_once('[').ok_or_else(bad)?;
        (name.trim(), number(n)?)
    } else {
        (t, 0)
    };
    let ok = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if ok {
        Ok(PortRef {
            function: name.to_string(),
            port,
        })
    } else {
        Err(bad())
    }
}

/// A line of one or more arrows: `lan[1] -> [0]fw[1] <-> [0]router`. A function between two arrows has its input port
/// before and its output port behind its name.
pub fn parse_links(text: &str) -> Result<Vec<Link>, String> {
    let mut parts: Vec<(&str, bool)> = Vec::new(); // text, and whether the arrow behind it goes both ways
    let mut rest = text;
    loop {
        match rest.find("->") {
            Some(i) => {
                let both = rest[..i].ends_with('<');
                parts.push((rest[..i].trim_end_matches('<').trim(), both));
                rest = &rest[i + 2..];
            }
            None => {
                parts.push((rest.trim(), false));
                break;
            }
        }
    }
    if parts.len() < 2 {
        return Err(format!(
            "expected a link such as fw[1] -> [0]router, found '{}'",
            text.trim()
        ));
    }
    let mut links = Vec::new();
    for w in parts.windows(2) {
        let from = parse_port(output_side(w[0].0))?;
        let to = parse_port(input_side(w[1].0))?;
        links.push(Link {
            from,
            to,
            both: w[0].1,
        });
    }
    Ok(links)
}

/// `[0]fw[1]` -> `fw[1]`
fn output_side(s: &str) -> &str {
    match s.strip_prefix('[').and_then(|r| r.split_once(']')) {
        Some((_, rest)) if rest.trim_end().ends_with(']') => rest,
        _ => s,
    }
}

/// `[0]fw[1]` -> `[0]fw`
fn input_side(s: &str) -> &str {
    match s.rfind('[') {
        Some(i) if i > 0 && s.starts_with('[') => &s[..i],
        _ => s,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn p(function: &str, port: usize) -> PortRef {
        PortRef {
            function: function.into(),
            port,
        }
    }

    #[test]
    fn arrows() {
        let l = parse_links("a[1] -> [0]b[2] <-> [3] c").unwrap();
        assert_eq!(
            l[0],
            Link {
                from: p("a", 1),
                to: p("b", 0),
                both: false
            }
        );
        assert_eq!(
            l[1],
            Link {
                from: p("b", 2),
                to: p("c", 3),
                both: true
            }
        );
        assert_eq!(parse_links("a -> b").unwrap()[0].from, p("a", 0));
        assert_eq!(parse_port(" fw [7] ").unwrap(), p("fw", 7));
        for bad in [
            "a",
            "",
            "a -> ",
            "-> b",
            "a[x] -> b",
            "a[1 -> b",
            "a b -> c",
            "a[70000] -> b",
            "a[-1] -> b",
        ] {
            assert!(parse_links(bad).is_err(), "{bad}");
        }
    }
}
