//! A worker's slice of a range of ports.

/// The slice of `range` (both ends belong to it) that worker `worker` of `workers` hands out: the range is cut in equal
/// parts, in the workers' order, and what is left over is the last one's. `None`: there are too few for so many.
pub fn slice_of(range: (u16, u16), worker: usize, workers: usize) -> Option<(u16, u16)> {
    let size = size(range, workers)?;
    if worker >= workers {
        return None;
    }
    let first = usize::from(range.0) + worker * size;
    let last = match worker + 1 == workers {
        true => usize::from(range.1),
        false => first + size - 1,
    };
    Some((u16::try_from(first).ok()?, u16::try_from(last).ok()?))
}

/// The worker in whose slice of `range` this port is; `None`: it is not in the range, or there are no slices.
pub fn owner(range: (u16, u16), port: u16, workers: usize) -> Option<usize> {
    let size = size(range, workers)?;
    if !(range.0..=range.1).contains(&port) {
        return None;
    }
    Some((usize::from(port - range.0) / size).min(workers - 1))
}

/// Ports of every slice but the last.
fn size((first, last): (u16, u16), workers: usize) -> Option<usize> {
    let all = usize::from(last.checked_sub(first)?) + 1;
    all.checked_div(workers).filter(|n| *n > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_cover_the_range_once_and_know_their_owner() {
        for range in [(1024, 65535), (1, 65535), (0, 65535), (80, 80), (100, 106)] {
            for workers in [1, 2, 3, 5, 7, 64] {
                let all = usize::from(range.1 - range.0) + 1;
                if all < workers {
                    assert_eq!(slice_of(range, 0, workers), None);
                    assert_eq!(owner(range, range.0, workers), None);
                    continue;
                }
                let mut next = u32::from(range.0);
                for w in 0..workers {
                    let Some((first, last)) = slice_of(range, w, workers) else {
                        panic!("{range:?}: worker {w} of {workers} has none");
                    };
                    assert_eq!(u32::from(first), next);
                    next = u32::from(last) + 1;
                    for p in [first, first + (last - first) / 2, last] {
                        assert_eq!(owner(range, p, workers), Some(w), "{range:?} {p}");
                    }
                }
                assert_eq!(next, u32::from(range.1) + 1);
                assert_eq!(slice_of(range, workers, workers), None);
            }
        }
        assert_eq!(owner((1024, 65535), 1023, 2), None);
        assert_eq!(owner((9, 8), 9, 2), None);
        assert_eq!(slice_of((1, 9), 0, 0), None);
    }
}
