//! Zipf's law: the k-th most popular of n has probability proportional to k^-s.

use crate::rng::Rng;

/// Draws ranks by rejection-inversion (Hörmann and Derflinger 1996): constant time, no table.
#[derive(Clone, Debug)]
pub struct Zipf {
    n: f64,
    s: f64,
    low: f64,
    high: f64,
    squeeze: f64,
}

impl Zipf {
    /// Ranks `1..=n` with exponent `s` (zero: all alike).
    pub fn new(n: u32, s: f64) -> Self {
        let mut z = Self {
            n: f64::from(n.max(1)),
            s,
            low: 0.0,
            high: 0.0,
            squeeze: 0.0,
        };
        z.low = z.integral(1.5) - 1.0;
        z.high = z.integral(z.n + 0.5);
        z.squeeze = 2.0 - z.inverse(z.integral(2.5) - z.density(2.0));
        z
    }

    /// A rank, from 1.
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        // Each round succeeds with a probability of over one half; 64 failures do not happen, and the bound keeps a
        // strange exponent from looping.
        let mut rank = 1.0;
        for _ in 0..64 {
            let u = self.high + rng.unit() * (self.low - self.high);
            let x = self.inverse(u);
            rank = x.round().clamp(1.0, self.n);
            if rank - x <= self.squeeze || u >= self.integral(rank + 0.5) - self.density(rank) {
                break;
            }
        }
        rank as u32
    }

    fn density(&self, x: f64) -> f64 {
        (-self.s * x.ln()).exp()
    }

    /// The integral of the density from 1 to x, exact for s near 1 too.
    fn integral(&self, x: f64) -> f64 {
        let log = x.ln();
        let t = (1.0 - self.s) * log;
        log * if t.abs() > 1e-8 {
            t.exp_m1() / t
        } else {
            1.0 + t / 2.0
        }
    }

    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.s)).max(-1.0);
        (y * if t.abs() > 1e-8 {
            t.ln_1p() / t
        } else {
            1.0 - t / 2.0
        })
        .exp()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Observed frequencies against the definition, for exponents on both sides of one and at it.
    #[test]
    fn frequencies_follow_the_law() {
        const N: u32 = 50;
        const DRAWS: u32 = 400_000;
        for s in [0.0, 0.5, 1.0, 1.1, 2.0] {
            let zipf = Zipf::new(N, s);
            let mut rng = Rng::new(11);
            let mut seen = vec![0u32; N as usize + 1];
            for _ in 0..DRAWS {
                seen[zipf.draw(&mut rng) as usize] += 1;
            }
            assert_eq!(seen[0], 0);
            let total: f64 = (1..=N).map(|k| f64::from(k).powf(-s)).sum();
            for k in 1..=N {
                let p = f64::from(k).powf(-s) / total;
                let expected = p * f64::from(DRAWS);
                let sigma = (expected * (1.0 - p)).sqrt();
                let got = f64::from(seen[k as usize]);
                assert!(
                    (got - expected).abs() < 5.0 * sigma + 1.0,
                    "s {s} rank {k}: {got} instead of {expected}"
                );
            }
        }
    }

    #[test]
    fn odd_parameters_stay_in_range() {
        let mut rng = Rng::new(3);
        for n in [1, 2, u32::MAX] {
            for s in [0.0, 1.0, 1.0 + 1e-12, 30.0] {
                let z = Zipf::new(n, s);
                for _ in 0..100 {
                    assert!((1..=n).contains(&z.draw(&mut rng)));
                }
            }
        }
    }
}
