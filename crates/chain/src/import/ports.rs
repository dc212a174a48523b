//! Sets of ports, and tests for them.
//!
//! A negated test is written as the ports that are left: a packet without ports then matches neither a test nor its
//! opposite, as in the tools whose rules are read.

/// Ranges, both ends included, ascending, not touching one another.
pub type Ports = Vec<(u16, u16)>;

/// All ports.
pub const ANY: (u16, u16) = (0, u16::MAX);

/// Brings ranges in order.
pub fn union(mut v: Ports) -> Ports {
    v.sort_unstable();
    let mut out = Ports::new();
    for (lo, hi) in v {
        match out.last_mut() {
            Some(last) if u32::from(lo) <= u32::from(last.1) + 1 => last.1 = last.1.max(hi),
            _ => out.push((lo, hi)),
        }
    }
    out
}

/// All ports that are not in an ordered set.
pub fn complement(v: &Ports) -> Ports {
    let mut out = Ports::new();
    let mut next = 0u32;
    for (lo, hi) in v {
        if next < u32::from(*lo) {
            out.push((next as u16, lo - 1));
        }
        next = u32::from(*hi) + 1;
    }
    if next <= u32::from(u16::MAX) {
        out.push((next as u16, u16::MAX));
    }
    out
}

/// A test for one of an ordered set; `way` is `src` or `dst`. `None`: any port, or no port at all.
pub fn test(set: &Ports, way: &str) -> Option<String> {
    if set.as_slice() == [ANY] {
        return None;
    }
    let all: Vec<String> = set
        .iter()
        .map(|(lo, hi)| match (*lo, *hi) {
            (a, b) if a == b => format!("{way} port {a}"),
            (0, b) => format!("{way} port <= {b}"),
            (a, u16::MAX) => format!("{way} port >= {a}"),
            (a, b) => format!("({way} port >= {a} && {way} port <= {b})"),
        })
        .collect();
    match all.len() {
        1 => all.into_iter().next(),
        _ => Some(format!("({})", all.join(" or "))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets() {
        let s = union(vec![
            (80, 80),
            (81, 90),
            (5, 7),
            (85, 100),
            (65_535, 65_535),
        ]);
        assert_eq!(s, [(5, 7), (80, 100), (65_535, 65_535)]);
        assert_eq!(complement(&s), [(0, 4), (8, 79), (101, 65_534)]);
        assert_eq!(complement(&complement(&s)), s);
        assert_eq!(complement(&vec![]), [ANY]);
        assert_eq!(complement(&vec![ANY]), []);
        assert_eq!(test(&vec![ANY], "src"), None);
        assert_eq!(
            test(&s, "src").unwrap(),
            "((src port >= 5 && src port <= 7) or (src port >= 80 && src port <= 100) or src port 65535)"
        );
    }
}
