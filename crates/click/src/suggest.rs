//! Near misses: which known name was probably meant by an unknown one.

/// Names longer than this are not compared.
const MAX_NAME: usize = 100;

/// At most this many names are suggested.
const MAX_SUGGESTIONS: usize = 3;

/// The candidates nearest to `name`, best first, at most three. Letter case counts less than other
/// differences; a candidate is near if about a third of its letters differ at most.
pub fn near_misses<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Vec<&'a str> {
    let mut near: Vec<(usize, usize, &str)> = Vec::new();
    for candidate in candidates {
        if candidate == name || candidate.len() > MAX_NAME || name.len() > MAX_NAME {
            continue;
        }
        let bound = (name.len().max(candidate.len()) / 3).max(1);
        if name.len().abs_diff(candidate.len()) > bound {
            continue;
        }
        let folded = distance(&name.to_lowercase(), &candidate.to_lowercase());
        if folded <= bound {
            // among equals, people rather get the beginning of a word right than its end
            let same = name
                .chars()
                .zip(candidate.chars())
                .take_while(|(a, b)| a == b)
                .count();
            near.push((
                2 * folded + usize::from(distance(name, candidate) != folded),
                usize::MAX - same,
                candidate,
            ));
        }
    }
    near.sort_unstable();
    near.dedup();
    near.into_iter()
        .take(MAX_SUGGESTIONS)
        .map(|(_, _, candidate)| candidate)
        .collect()
}

/// [`near_misses`] as a hint: `did you mean 'Queue'?`.
pub fn did_you_mean<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<String> {
    let quoted: Vec<String> = near_misses(name, candidates)
        .iter()
        .map(|c| format!("'{c}'"))
        .collect();
    match quoted.as_slice() {
        [] => None,
        [one] => Some(format!("did you mean {one}?")),
        [first @ .., last] => Some(format!("did you mean {} or {last}?", first.join(", "))),
    }
}

/// Edit distance (insertions, deletions, replacements, exchanges of neighbours).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut before: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    for i in 1..=a.len() {
        let mut row = vec![i];
        for j in 1..=b.len() {
            let mut best = (last[j] + 1)
                .min(row[j - 1] + 1)
                .min(last[j - 1] + usize::from(a[i - 1] != b[j - 1]));
            if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                best = best.min(before[j - 2] + 1);
            }
            row.push(best);
        }
        before = std::mem::replace(&mut last, row);
    }
    last.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLASSES: [&str; 5] = [
        "Queue",
        "Unqueue",
        "Discard",
        "CheckIPHeader",
        "CheckIPHeader2",
    ];

    #[test]
    fn typing_errors_are_recognised() {
        assert_eq!(near_misses("Qeuue", CLASSES), ["Queue"]);
        assert_eq!(near_misses("discard", CLASSES), ["Discard"]);
        assert_eq!(
            near_misses("CheckIPHedaer", CLASSES),
            ["CheckIPHeader", "CheckIPHeader2"]
        );
        assert!(near_misses("Teleport", CLASSES).is_empty());
    }

    #[test]
    fn hints_read_well() {
        assert_eq!(
            did_you_mean("CheckIPHeadr", CLASSES).unwrap(),
            "did you mean 'CheckIPHeader' or 'CheckIPHeader2'?"
        );
        assert_eq!(did_you_mean("", CLASSES), None);
    }
}
