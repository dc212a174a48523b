//! All structures with each kind of vector instructions. A process of its own: the limit is global.

mod common;

use common::*;
use onefold_classify::*;

#[test]
fn every_kind_of_vectors_gives_the_same_answers() {
    for vectors in [Vectors::Portable, Vectors::Avx2, Vectors::Avx512] {
        limit_vectors(vectors);
        for (i, shape) in SHAPES.into_iter().enumerate() {
            for n in [30, 240, 700] {
                let mut rng = Rng(i as u64 + 77);
                let layout = Layout::new(LAYOUTS[i % LAYOUTS.len()]).unwrap();
                let rules = rules(shape, &layout, n, &mut rng);
                let keys = keys(&rules, 3, 200, &mut rng);
                let about = format!("{vectors:?}, {shape:?}");
                compare(&rules, keys.keys(), &structures(&rules), &about);
            }
        }
        // tries: narrow, two words, four words
        for bits in [32, 48, 128] {
            let mut rng = Rng(u64::from(bits));
            let max = u128::MAX >> (128 - bits);
            let routes = Routes {
                list: (0..400u32)
                    .map(|i| (rng.wide() & max, rng.below(usize::from(bits)) as u8 + 1, i))
                    .collect(),
            };
            let rules = routes.rules(bits).unwrap();
            let keys = keys(&rules, 4, 300, &mut rng);
            let trie: Box<dyn Classifier> = Box::new(routes.trie(bits, 1 << 30).unwrap());
            compare(
                &rules,
                keys.keys(),
                &[trie],
                &format!("{vectors:?}, {bits} bits"),
            );
        }
    }
}
