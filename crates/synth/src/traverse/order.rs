//! In which order elements are visited within a stage.

use crate::input::Input;

/// Position of every element in an order in which packets pass them (cycles cut where they close).
pub(super) fn order(input: &Input) -> Vec<u32> {
    let n = input.elements.len();
    let mut state = vec![0u8; n];
    let mut post = Vec::with_capacity(n);
    for root in input.sources.iter().map(|s| s.0 as usize).chain(0..n) {
        if root >= n || state[root] != 0 {
            continue;
        }
        let mut stack = vec![(root, 0usize)];
        state[root] = 1;
        while let Some((e, next)) = stack.pop() {
            let outputs = &input.elements[e].outputs;
            match outputs.get(next) {
                Some(to) => {
                    stack.push((e, next + 1));
                    if let Some((t, _)) = to
                        && let Some(0) = state.get(t.0 as usize)
                    {
                        state[t.0 as usize] = 1;
                        stack.push((t.0 as usize, 0));
                    }
                }
                None => post.push(e),
            }
        }
    }
    let mut topo = vec![0; n];
    for (i, e) in post.iter().rev().enumerate() {
        topo[*e] = i as u32;
    }
    topo
}
