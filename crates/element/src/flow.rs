//! Flow codes: which inputs of an element its packets leave at which outputs (Click's `flow_code`).

/// The set of letters (and port numbers, for `#`) that one port of a flow code stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
struct PortSet {
    letters: [bool; 128],
    /// `#` was given: the port's own number. All numbers but this one when negated.
    number: bool,
    negated: bool,
    port: usize,
}

impl PortSet {
    fn meets(&self, other: &PortSet) -> bool {
        let letter = (0..128usize)
            .filter(|i| (*i as u8).is_ascii_alphabetic())
            .any(|i| (self.letters[i] ^ self.negated) && (other.letters[i] ^ other.negated));
        if letter {
            return true;
        }
        // port numbers are letters of their own
        match (self.negated, other.negated) {
            (false, false) => self.number && other.number && self.port == other.port,
            (true, false) => other.number && !(self.number && self.port == other.port),
            (false, true) => self.number && !(other.number && self.port == other.port),
            (true, true) => true,
        }
    }
}

/// The code of port `port` in one half of a flow code; the last code repeats.
fn port_set(half: &str, port: usize) -> PortSet {
    let b = half.as_bytes();
    let mut codes: Vec<&[u8]> = Vec::new();
    let mut i = 0;
    while let Some(&c) = b.get(i) {
        let end = match c {
            b'[' => b[i..]
                .iter()
                .position(|c| *c == b']')
                .map_or(b.len(), |n| i + n + 1),
            _ => i + 1,
        };
        codes.push(&b[i..end]);
        i = end;
    }
    let code = codes
        .get(port)
        .or(codes.last())
        .copied()
        .unwrap_or_default();
    let mut set = PortSet {
        letters: [false; 128],
        number: false,
        negated: false,
        port,
    };
    for c in code {
        match c {
            b'^' => set.negated = true,
            b'#' => set.number = true,
            c if c.is_ascii_alphabetic() => set.letters[*c as usize] = true,
            _ => {}
        }
    }
    set
}

/// Does a packet that comes in at `input` leave at `output` of an element with this flow code?
pub fn flows(code: &str, input: usize, output: usize) -> bool {
    if code.is_empty() || code == "x/x" || code == "x" {
        return true;
    }
    let (i, o) = code.split_once('/').unwrap_or((code, code));
    port_set(i, input).meets(&port_set(o, output))
}

#[cfg(test)]
mod tests {
    use super::flows;

    #[test]
    fn codes_of_the_documentation() {
        assert!(flows("x/x", 3, 2));
        assert!(!flows("x/y", 0, 0));
        assert!(flows("#/#", 2, 2) && !flows("#/#", 2, 1));
        assert!(flows("xy/yx", 0, 1) && !flows("xy/yx", 0, 0));
        assert!(flows("#/[^#]", 0, 1) && !flows("#/[^#]", 1, 1));
        assert!(flows("xyx/xy", 2, 0) && flows("x[xy]/xy", 1, 0) && flows("x[xy]/xy", 1, 1));
        assert!(!flows("x[xy]/xy", 0, 1) && flows("x[xy]/xy", 7, 1));
    }
}
