//! Deterministic random numbers: PRF(seed, element, number of the draw).

/// One round of the splitmix64 finalizer.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The `draw`th number of `element` in a run with this seed.
pub(crate) fn draw(seed: u64, element: u32, draw: u64) -> u32 {
    let key = mix(seed ^ mix(0x9e37_79b9_7f4a_7c15 ^ u64::from(element)));
    (mix(key.wrapping_add(draw.wrapping_mul(0x9e37_79b9_7f4a_7c15))) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use crate::graph::random::draw;

    #[test]
    fn differs_by_seed_element_and_draw_and_is_even() {
        assert_eq!(draw(1, 2, 3), draw(1, 2, 3));
        assert_ne!(draw(1, 2, 3), draw(2, 2, 3));
        assert_ne!(draw(1, 2, 3), draw(1, 3, 3));
        assert_ne!(draw(1, 2, 3), draw(1, 2, 4));
        let ones: u32 = (0..10_000).map(|i| draw(7, 7, i) & 1).sum();
        assert!((4_700..5_300).contains(&ones), "{ones}");
    }
}
