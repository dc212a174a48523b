//! How long packets are: fixed, or drawn from a published mix.
//!
//! A size is that of the frame as captured, without the frame check sequence. The built-in models:
//!
//! | name | what | source |
//! |---|---|---|
//! | `imix` | frames of 60, 590 and 1514 bytes, 7 : 4 : 1 | the "simple IMIX" of packet generators (IP lengths 40, 576, 1500) |
//! | `campus` | 26.9% below 100 bytes, 11.8% up to 500, the rest up to 1514 | Katsikas, thesis 2018, section 8.2.3.2 |
//! | `router` | a histogram of IP lengths in steps of 32 | NetFlow of a backbone router (43 thousand million packets), NANOG thread "Avg. Packet Size - Again?" |
//! | `isp` | 40% of 40 bytes, 20% of 1500, 10% of 1300 (the share is ours: the source gives only the mode), the rest between | Sinha, Papadopoulos and Heidemann, ISI-TR-2007-643 |
//! | `datacenter` | IP lengths of 40 and 1470, half each (the split is ours: the source gives only the modes) | Benson et al., WREN 2009, by a summary |

use serde_json::Value;

use crate::rng::Rng;

/// An Ethernet header.
const ETHERNET: u32 = 14;
/// The shortest frame on an Ethernet, without frame check sequence.
pub const MIN_FRAME: u32 = 60;
/// The longest frame that is generated: the longest IPv4 packet in an Ethernet frame with a VLAN tag.
pub const MAX_SIZE: u32 = 65_535 + ETHERNET + 4;

/// A distribution of frame sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct SizeModel {
    name: String,
    /// Share of the packets up to and including this segment, and the segment: uniform in `lo..=hi`.
    segments: Vec<(f64, u32, u32)>,
}

/// Why a size model cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SizeError(String);

impl SizeModel {
    /// Every frame alike.
    pub fn fixed(bytes: u32) -> Self {
        Self {
            name: bytes.to_string(),
            segments: vec![(1.0, bytes, bytes)],
        }
    }

    /// From weights and ranges of frame sizes.
    ///
    /// # Errors
    /// No weight is positive, a weight is negative, a range is empty or reaches beyond [`MAX_SIZE`].
    pub fn from_weights(name: &str, parts: &[(f64, u32, u32)]) -> Result<Self, SizeError> {
        let total: f64 = parts.iter().map(|p| p.0).sum();
        let usable = total.is_finite() && total > 0.0 && parts.iter().all(|p| p.0 >= 0.0);
        if !usable {
            return Err(SizeError(format!(
                "the size model {name} has no usable weights"
            )));
        }
        let mut sum = 0.0;
        let mut segments = Vec::with_capacity(parts.len());
        for &(weight, lo, hi) in parts {
            if lo > hi || hi > MAX_SIZE {
                return Err(SizeError(format!(
                    "the size model {name} has frames of {lo} to {hi} bytes, expected an ascending range up to {MAX_SIZE}"
                )));
            }
            if weight > 0.0 {
                sum += weight / total;
                segments.push((sum, lo.max(MIN_FRAME), hi.max(MIN_FRAME)));
            }
        }
        Ok(Self {
            name: name.to_owned(),
            segments,
        })
    }

    /// A built-in model.
    pub fn named(name: &str) -> Option<Self> {
        let ip = |w: f64, lo: u32, hi: u32| (w, lo + ETHERNET, hi + ETHERNET);
        let parts: Vec<(f64, u32, u32)> = match name {
            "imix" => vec![(7.0, 60, 60), (4.0, 590, 590), (1.0, 1514, 1514)],
            "campus" => vec![(0.269, 64, 99), (0.118, 100, 500), (0.613, 501, 1514)],
            "router" => {
                // Right edges of the bins: 64, 96, ... 576, then 1024 and 1500; the two longest bins are cut at the
                // largest packet of an Ethernet.
                const SHARES: [f64; 17] = [
                    0.382, 0.077, 0.043, 0.022, 0.012, 0.011, 0.006, 0.007, 0.004, 0.004, 0.005,
                    0.003, 0.003, 0.003, 0.005, 0.002, 0.007,
                ];
                let mut parts: Vec<_> = SHARES
                    .iter()
                    .zip(1u32..)
                    .map(|(&w, i)| ip(w, (32 * i + 1).max(40), 32 * (i + 1)))
                    .collect();
                parts.push(ip(0.021, 577, 1024));
                parts.push(ip(0.375, 1025, 1500));
                parts
            }
            "isp" => vec![
                ip(0.4, 40, 40),
                ip(0.2, 1500, 1500),
                ip(0.1, 1300, 1300),
                ip(0.3, 41, 1499),
            ],
            "datacenter" => vec![ip(0.5, 40, 40), ip(0.5, 1470, 1470)],
            _ => return None,
        };
        Self::from_weights(name, &parts).ok()
    }

    /// Has every frame the same length?
    pub fn is_fixed(&self) -> bool {
        self.segments
            .iter()
            .all(|s| s.1 == s.2 && Some(s.1) == self.segments.first().map(|f| f.1))
    }

    /// The names that [`SizeModel::named`] knows.
    pub const NAMES: [&'static str; 5] = ["imix", "campus", "router", "isp", "datacenter"];

    /// What a `--size` argument means: bytes, a model of `file` (the text of a models file), or a built-in model.
    ///
    /// # Errors
    /// It is none of these, or the model in the file has no usable sizes.
    pub fn parse(spec: &str, file: Option<&str>) -> Result<Self, SizeError> {
        if let Ok(bytes) = spec.parse::<u32>() {
            return if (MIN_FRAME..=MAX_SIZE).contains(&bytes) {
                Ok(Self::fixed(bytes))
            } else {
                Err(SizeError(format!(
                    "frames of {bytes} bytes, expected {MIN_FRAME} to {MAX_SIZE} (without frame check sequence)"
                )))
            };
        }
        let mut known: Vec<String> = Vec::new();
        if let Some(text) = file {
            let root: Value = serde_json::from_str(text)
                .map_err(|e| SizeError(format!("the models file is not JSON: {e}")))?;
            let models = root
                .get("models")
                .and_then(Value::as_array)
                .ok_or_else(|| SizeError("the models file has no list `models`".into()))?;
            for model in models {
                let name = model.get("name").and_then(Value::as_str).unwrap_or("");
                if name == spec {
                    return from_json(name, model);
                }
                known.push(name.to_owned());
            }
        }
        Self::named(spec).ok_or_else(|| {
            known.extend(Self::NAMES.map(str::to_owned));
            SizeError(format!(
                "no size model `{spec}`, expected a number of bytes or one of: {}",
                known.join(", ")
            ))
        })
    }

    /// The name, or the number of bytes.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The mean size in bytes.
    pub fn mean(&self) -> f64 {
        let mut before = 0.0;
        let mut mean = 0.0;
        for &(upto, lo, hi) in &self.segments {
            mean += (upto - before) * (f64::from(lo) + f64::from(hi)) / 2.0;
            before = upto;
        }
        mean
    }

    /// The largest size.
    pub fn max(&self) -> u32 {
        self.segments.iter().map(|s| s.2).max().unwrap_or(MIN_FRAME)
    }

    /// A size.
    pub fn draw(&self, rng: &mut Rng) -> u32 {
        let (lo, hi) = match self.segments.as_slice() {
            [only] => (only.1, only.2),
            many => {
                let u = rng.unit();
                many.iter()
                    .find(|s| u < s.0)
                    .or(many.last())
                    .map_or((MIN_FRAME, MIN_FRAME), |s| (s.1, s.2))
            }
        };
        if lo == hi {
            lo
        } else {
            rng.between(u64::from(lo), u64::from(hi)) as u32
        }
    }
}

/// A model of a models file, in any of the shapes that such a file has: `ratio` with `frame` or `ip`, `bins`,
/// `bins_right_edge`, `peaks_ip`, `percentiles`.
fn from_json(name: &str, model: &Value) -> Result<SizeModel, SizeError> {
    let bad = |what: &str| SizeError(format!("the size model {name}: {what}"));
    let number = |v: &Value| v.as_f64().filter(|f| f.is_finite());
    let size = |v: f64| (0.0..=f64::from(MAX_SIZE)).contains(&v).then_some(v as u32);
    let list = |key: &str| -> Option<Vec<f64>> {
        model.get(key)?.as_array()?.iter().map(number).collect()
    };
    // Objects with numbers as keys, in ascending order.
    let table = |key: &str| -> Option<Vec<(u32, f64)>> {
        let mut rows = model
            .get(key)?
            .as_object()?
            .iter()
            .map(|(k, v)| Some((k.parse().ok()?, number(v)?)))
            .collect::<Option<Vec<(u32, f64)>>>()?;
        rows.sort_by_key(|r| r.0);
        Some(rows)
    };
    let sizes_out = || bad("a size beyond what is generated");

    let mut parts: Vec<(f64, u32, u32)> = Vec::new();
    if let Some(ratio) = list("ratio") {
        let (frames, add) = match (list("frame"), list("ip")) {
            (Some(f), _) => (f, 0),
            (None, Some(ip)) => (ip, ETHERNET),
            (None, None) => return Err(bad("`ratio` without `frame` or `ip`")),
        };
        if frames.len() != ratio.len() {
            return Err(bad("`ratio` and its sizes differ in length"));
        }
        for (&w, &s) in ratio.iter().zip(&frames) {
            let s = size(s).ok_or_else(sizes_out)? + add;
            parts.push((w, s, s));
        }
    } else if let Some(bins) = model.get("bins").and_then(Value::as_array) {
        for bin in bins {
            let get = |key| bin.get(key).and_then(number);
            let (Some(lo), Some(hi), Some(p)) =
                (get("lo").and_then(size), get("hi").and_then(size), get("p"))
            else {
                return Err(bad("a bin without `lo`, `hi` and `p`"));
            };
            parts.push((p, lo, hi));
        }
    } else if let Some(rows) = table("bins_right_edge") {
        let mut left = 0;
        for (edge, p) in rows {
            // Nothing is shorter than an IPv4 header with ports, nor longer than an Ethernet carries where the last
            // bin is rounded up to 1536.
            let lo = (left + 1).clamp(28, 1500);
            let hi = if edge <= 1536 {
                edge.clamp(lo, 1500)
            } else {
                edge
            };
            parts.push((p, lo.saturating_add(ETHERNET), hi.saturating_add(ETHERNET)));
            left = edge;
        }
    } else if let Some(rows) = table("peaks_ip") {
        let sum: f64 = rows.iter().map(|r| r.1).sum();
        for &(s, p) in &rows {
            parts.push((p, s.saturating_add(ETHERNET), s.saturating_add(ETHERNET)));
        }
        // What the peaks leave over lies somewhere between them.
        if let (true, Some(first), Some(last)) = (sum < 1.0, rows.first(), rows.last()) {
            parts.push((
                1.0 - sum,
                first.0.saturating_add(ETHERNET),
                last.0.saturating_add(ETHERNET),
            ));
        }
    } else if let Some(peaks) = list("peaks_ip") {
        for s in peaks {
            let s = size(s).ok_or_else(sizes_out)? + ETHERNET;
            parts.push((1.0, s, s));
        }
    } else if let Some(rows) = table("percentiles") {
        let mut before = (0u32, None::<u32>);
        for (percent, v) in rows {
            let s = size(v).ok_or_else(sizes_out)? + ETHERNET;
            let w = f64::from(percent.saturating_sub(before.0));
            parts.push((w, before.1.unwrap_or(s).min(s), s));
            before = (percent, Some(s));
        }
        if let (percent @ 0..100, Some(s)) = before {
            parts.push((f64::from(100 - percent), s, s));
        }
    } else {
        return Err(bad("it has no sizes to generate from"));
    }
    SizeModel::from_weights(name, &parts)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sampled_mean(m: &SizeModel) -> f64 {
        let mut rng = Rng::new(5);
        let n = 200_000;
        (0..n).map(|_| f64::from(m.draw(&mut rng))).sum::<f64>() / f64::from(n)
    }

    #[test]
    fn built_in_models_have_the_means_of_their_sources() {
        // (7 * 60 + 4 * 590 + 1514) / 12; the others from their shares, by hand.
        let expect = [
            ("imix", 357.83),
            ("campus", 0.269 * 81.5 + 0.118 * 300.0 + 0.613 * 1007.5),
            ("datacenter", 0.5 * 60.0 + 0.5 * 1484.0),
            (
                "isp",
                0.4 * 60.0 + 0.2 * 1514.0 + 0.1 * 1314.0 + 0.3 * 784.7,
            ),
        ];
        for (name, mean) in expect {
            let m = SizeModel::named(name).unwrap();
            assert!((m.mean() - mean).abs() < 2.0, "{name}: {}", m.mean());
            assert!((sampled_mean(&m) - mean).abs() < 6.0, "{name}");
        }
        for name in SizeModel::NAMES {
            let m = SizeModel::named(name).unwrap();
            assert!(m.max() <= 1514, "{name}");
            assert!((m.mean() - sampled_mean(&m)).abs() < 6.0, "{name}");
        }
    }

    #[test]
    fn sizes_by_number_and_by_file() {
        assert_eq!(SizeModel::parse("64", None).unwrap(), SizeModel::fixed(64));
        for bad in ["59", "70000", "imx", "-1", ""] {
            assert!(SizeModel::parse(bad, None).is_err(), "{bad}");
        }
        let file = r#"{"models":[
            {"name":"r","ratio":[1,1],"ip":[46,1500]},
            {"name":"b","bins":[{"lo":100,"hi":200,"p":1}]},
            {"name":"e","bins_right_edge":{"64":0.5,"1536":0.5}},
            {"name":"p","peaks_ip":{"100":0.5,"200":0.3}},
            {"name":"l","peaks_ip":[100,300]},
            {"name":"c","percentiles":{"50":100,"90":200}},
            {"name":"none","packets_pct":{"tcp":84}},
            {"name":"huge","ratio":[1],"frame":[1e9]},
            {"name":"neg","ratio":[-1],"frame":[64]}]}"#;
        let mean = |name| SizeModel::parse(name, Some(file)).unwrap().mean();
        assert_eq!(mean("r"), 787.0);
        assert_eq!(mean("b"), 150.0);
        assert_eq!(
            mean("e"),
            0.5 * (60.0 + 78.0) / 2.0 + 0.5 * (79.0 + 1514.0) / 2.0
        );
        assert!((mean("p") - (0.5 * 114.0 + 0.3 * 214.0 + 0.2 * 164.0)).abs() < 1e-9);
        assert_eq!(mean("l"), 214.0);
        assert!((mean("c") - (0.5 * 114.0 + 0.4 * 164.0 + 0.1 * 214.0)).abs() < 1e-9);
        assert_eq!(mean("imix"), SizeModel::named("imix").unwrap().mean());
        for bad in ["none", "huge", "neg", "absent"] {
            assert!(SizeModel::parse(bad, Some(file)).is_err(), "{bad}");
        }
        assert!(SizeModel::parse("x", Some("{}")).is_err());
        assert!(SizeModel::parse("x", Some("not json")).is_err());
    }
}
