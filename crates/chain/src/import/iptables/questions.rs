//! Matches that elements are asked for: `limit`, `pkttype`, `mac`, `string`, `statistic`, `recent`.

use super::limit::LimitDraft;
use crate::import::asks::{Kind, Question};
use crate::import::recent::{Does, MAX_HITS, Recent};
use crate::import::terms::Family;

/// A question while its options are read.
pub(super) enum QuestionDraft {
    Limit(LimitDraft),
    Kind(Option<Kind>),
    Mac(Option<String>),
    String(StringDraft),
    Statistic(Statistic),
    Recent(RecentDraft),
}

/// `-m string`
#[derive(Default)]
pub(super) struct StringDraft {
    pattern: Option<Vec<u8>>,
    algorithm: bool,
    from: u16,
    to: Option<u16>,
    any_case: bool,
}

/// `-m statistic`
#[derive(Default)]
pub(super) struct Statistic {
    mode: Option<String>,
    probability: Option<f64>,
    every: Option<u32>,
    packet: Option<u32>,
}

/// `-m recent`
#[derive(Default)]
pub(super) struct RecentDraft {
    list: Option<String>,
    does: Option<Does>,
    destination: bool,
    mask: Option<std::net::IpAddr>,
    seconds: u32,
    hits: u32,
    reap: bool,
}

impl QuestionDraft {
    /// That of a match by its name; `None` if it asks no element.
    pub fn of(name: &str) -> Option<QuestionDraft> {
        Some(match name {
            "limit" => QuestionDraft::Limit(LimitDraft::default()),
            "pkttype" => QuestionDraft::Kind(None),
            "mac" => QuestionDraft::Mac(None),
            "string" => QuestionDraft::String(StringDraft::default()),
            "statistic" => QuestionDraft::Statistic(Statistic::default()),
            "recent" => QuestionDraft::Recent(RecentDraft::default()),
            _ => return None,
        })
    }

    /// Has it this option?
    pub fn knows(&self, w: &str) -> bool {
        let all: &[&str] = match self {
            QuestionDraft::Limit(_) => &["--limit", "--limit-burst"],
            QuestionDraft::Kind(_) => &["--pkt-type"],
            QuestionDraft::Mac(_) => &["--mac-source"],
            QuestionDraft::String(_) => &[
                "--string",
                "--hex-string",
                "--algo",
                "--from",
                "--to",
                "--icase",
            ],
            QuestionDraft::Statistic(_) => &["--mode", "--probability", "--every", "--packet"],
            QuestionDraft::Recent(_) => &[
                "--set",
                "--rcheck",
                "--update",
                "--remove",
                "--name",
                "--rsource",
                "--rdest",
                "--mask",
                "--seconds",
                "--hitcount",
                "--reap",
                "--rttl",
            ],
        };
        all.contains(&w)
    }

    /// Does this option stand alone, without a value?
    pub fn is_flag(w: &str) -> bool {
        matches!(
            w,
            "--icase"
                | "--set"
                | "--rcheck"
                | "--update"
                | "--remove"
                | "--rsource"
                | "--rdest"
                | "--reap"
                | "--rttl"
        )
    }

    /// May a '!' stand before this option?
    pub fn negates(w: &str) -> bool {
        matches!(
            w,
            "--pkt-type"
                | "--mac-source"
                | "--string"
                | "--hex-string"
                | "--probability"
                | "--every"
                | "--set"
                | "--rcheck"
                | "--update"
                | "--remove"
        )
    }

    /// Reads one of its options; `v`: its value, empty if it has none.
    pub fn option(&mut self, w: &str, v: &str) -> Result<(), String> {
        let number = |v: &str, most: u32| {
            let n = v.parse::<u32>().ok().filter(|n| *n <= most);
            n.ok_or_else(|| format!("'{w} {v}': expected a number up to {most}"))
        };
        match (self, w) {
            (QuestionDraft::Limit(l), _) => return l.option(w, v),
            (QuestionDraft::Kind(k), _) => *k = Some(kind(v)?),
            (QuestionDraft::Mac(m), _) => *m = Some(hardware_address(v)?),
            (QuestionDraft::String(s), "--string") => s.pattern = Some(v.as_bytes().to_vec()),
            (QuestionDraft::String(s), "--hex-string") => s.pattern = Some(hex_string(v)?),
            // both find the same
            (QuestionDraft::String(s), "--algo") if matches!(v, "bm" | "kmp") => s.algorithm = true,
            (QuestionDraft::String(_), "--algo") => {
                return Err(format!("'--algo {v}': expected bm or kmp"));
            }
            (QuestionDraft::String(s), "--from") => s.from = number(v, 65_535)? as u16,
            (QuestionDraft::String(s), "--to") => s.to = Some(number(v, 65_535)? as u16),
            (QuestionDraft::String(s), _) => s.any_case = true,
            (QuestionDraft::Statistic(s), "--mode") => s.mode = Some(v.to_string()),
            (QuestionDraft::Statistic(s), "--probability") => {
                let p = v.parse::<f64>().ok().filter(|p| (0.0..=1.0).contains(p));
                s.probability = Some(p.ok_or_else(|| format!("'{w} {v}': expected 0 to 1"))?);
            }
            (QuestionDraft::Statistic(s), "--every") => s.every = Some(number(v, u32::MAX)?),
            (QuestionDraft::Statistic(s), _) => s.packet = Some(number(v, u32::MAX)?),
            (QuestionDraft::Recent(r), _) => return r.option(w, v),
        }
        Ok(())
    }

    /// What it comes to.
    pub fn question(self, family: Family) -> Result<Question, String> {
        Ok(match self {
            QuestionDraft::Limit(l) => Question::Limit(l.limit()?),
            QuestionDraft::Kind(k) => {
                Question::Kind(k.ok_or("match 'pkttype' needs '--pkt-type'")?)
            }
            QuestionDraft::Mac(m) => {
                let m = m.ok_or("match 'mac' needs '--mac-source'")?;
                Question::Frame(vec![format!("6/{m}")])
            }
            QuestionDraft::String(s) => Question::Element(s.element()?),
            QuestionDraft::Statistic(s) => s.question()?,
            QuestionDraft::Recent(r) => Question::Recent(r.recent(family)?),
        })
    }
}

impl RecentDraft {
    fn option(&mut self, w: &str, v: &str) -> Result<(), String> {
        let number = |most: u32| {
            let n = v.parse::<u32>().ok().filter(|n| (1..=most).contains(n));
            n.ok_or_else(|| format!("'{w} {v}': expected 1 to {most}"))
        };
        let does = match w {
            "--set" => Does::Set,
            "--rcheck" => Does::Check,
            "--update" => Does::Update,
            "--remove" => Does::Remove,
            "--name" => {
                self.list = Some(v.to_string());
                return Ok(());
            }
            "--rsource" | "--rdest" => {
                self.destination = w == "--rdest";
                return Ok(());
            }
            "--mask" => {
                let mask = v
                    .parse()
                    .map_err(|_| format!("'{w} {v}': expected a mask"))?;
                self.mask = Some(mask);
                return Ok(());
            }
            "--seconds" => {
                self.seconds = number(u32::MAX)?;
                return Ok(());
            }
            "--hitcount" => {
                self.hits = number(MAX_HITS)?;
                return Ok(());
            }
            "--reap" => {
                self.reap = true;
                return Ok(());
            }
            _ => {
                return Err(format!(
                    "option '{w}' of match 'recent' is not supported: it compares hop limits, too; leave it out"
                ));
            }
        };
        match self.does.replace(does) {
            None => Ok(()),
            Some(_) => Err("match 'recent' does one of set, rcheck, update, remove".into()),
        }
    }

    fn recent(self, family: Family) -> Result<Recent, String> {
        let does = self
            .does
            .ok_or("match 'recent' needs --set, --rcheck, --update or --remove")?;
        let whole = Recent::whole(family);
        let mask = self.mask.unwrap_or(whole);
        if mask.is_ipv6() != whole.is_ipv6() {
            return Err(format!("'--mask {mask}' is of the other family"));
        }
        if self.hits > 0 && matches!(does, Does::Set | Does::Remove) {
            return Err("'--hitcount' needs --rcheck or --update".into());
        }
        if self.reap && self.seconds == 0 {
            return Err("'--reap' needs '--seconds'".into());
        }
        Ok(Recent {
            list: self.list.unwrap_or_else(|| "DEFAULT".into()),
            does,
            destination: self.destination,
            mask,
            seconds: self.seconds,
            hits: self.hits,
            reap: self.reap,
        })
    }
}

impl StringDraft {
    /// Bytes are counted from the IP header on; what is found begins and ends there (xt_string.c, since Linux 6.0).
    fn element(self) -> Result<String, String> {
        let pattern = self.pattern.filter(|p| (1..=128).contains(&p.len()));
        let pattern =
            pattern.ok_or("match 'string' needs '--string' or '--hex-string' of 1 to 128 bytes")?;
        if !self.algorithm {
            return Err("match 'string' needs '--algo bm' or '--algo kmp'".into());
        }
        let to = self.to.unwrap_or(u16::MAX);
        let Some(depth) = to.checked_sub(self.from) else {
            return Err("match 'string': '--from' is behind '--to'".into());
        };
        let case = if self.any_case { " nocase" } else { "" };
        let range = match (self.from, self.to) {
            (0, None) => String::new(),
            (from, None) => format!(" offset {from}"),
            (from, Some(_)) => format!(" offset {from} depth {depth}"),
        };
        let what = search(&pattern);
        Ok(format!(
            "PayloadMatcher(0 {what}{case}{range}, BASE network, NOMATCH 1)"
        ))
    }
}

/// A PayloadMatcher's term for bytes.
fn search(pattern: &[u8]) -> String {
    let plain = |b: &u8| b.is_ascii_alphanumeric() || b" .-_/:".contains(b);
    if pattern.iter().all(plain) {
        return format!("string \"{}\"", String::from_utf8_lossy(pattern));
    }
    let hex: Vec<String> = pattern.iter().map(|b| format!("{b:02x}")).collect();
    format!("hex \"{}\"", hex.join(" "))
}

impl Statistic {
    fn question(self) -> Result<Question, String> {
        match (self.mode.as_deref(), self.probability, self.every) {
            (Some("random"), Some(p), None) => Ok(Question::Element(chance(p))),
            (Some("nth"), None, Some(every)) if every > 0 => {
                // as iptables wants it
                let packet = self.packet.filter(|p| *p < every);
                let packet = packet.ok_or("'--every' needs '--packet', which is below it")?;
                Ok(Question::Turn {
                    every,
                    from: packet,
                    to: packet,
                })
            }
            _ => Err(
                "match 'statistic' needs '--mode random --probability P' or '--mode nth --every N'"
                    .into(),
            ),
        }
    }
}

/// The element that lets packets leave at its first output with a probability.
pub(in crate::import) fn chance(p: f64) -> String {
    // as exact as what is asked
    format!("RandomSample({p:.9})")
}

fn kind(v: &str) -> Result<Kind, String> {
    Ok(match v.to_lowercase().as_str() {
        "unicast" | "host" | "to-us" => Kind::Unicast,
        "broadcast" | "bcast" => Kind::Broadcast,
        "multicast" | "mcast" => Kind::Multicast,
        "otherhost" | "other" => Kind::Other,
        _ => {
            return Err(format!(
                "'--pkt-type {v}': expected unicast, broadcast or multicast"
            ));
        }
    })
}

/// `00:11:22:33:44:55` as hexadecimal digits.
pub(in crate::import) fn hardware_address(v: &str) -> Result<String, String> {
    let wrong = || format!("hardware address '{v}'");
    let parts: Vec<&str> = v.split(':').collect();
    if parts.len() != 6 {
        return Err(wrong());
    }
    let one = |p: &&str| u8::from_str_radix(p, 16).map(|b| format!("{b:02x}"));
    let all: Result<Vec<String>, _> = parts.iter().map(one).collect();
    all.map(|l| l.concat()).map_err(|_| wrong())
}

/// `--hex-string "|0d 0a|text"`
fn hex_string(v: &str) -> Result<Vec<u8>, String> {
    let wrong = || format!("'--hex-string {v}': expected digits between '|'");
    let mut out = Vec::new();
    for (i, part) in v.split('|').enumerate() {
        if i % 2 == 0 {
            out.extend(part.bytes());
            continue;
        }
        let digits: Vec<u8> = part.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
        for pair in digits.chunks(2) {
            let text = std::str::from_utf8(pair).map_err(|_| wrong())?;
            let byte = u8::from_str_radix(text, 16)
                .ok()
                .filter(|_| pair.len() == 2);
            out.push(byte.ok_or_else(wrong)?);
        }
    }
    match v.matches('|').count() % 2 {
        0 => Ok(out),
        _ => Err(wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, options: &[(&str, &str)]) -> Result<Question, String> {
        let mut d = QuestionDraft::of(name).unwrap();
        for (w, v) in options {
            assert!(d.knows(w), "{w}");
            d.option(w, v)?;
        }
        d.question(Family::V4)
    }

    #[test]
    fn strings() {
        let of = |options: &[(&str, &str)]| {
            let all = [&[("--algo", "bm")], options].concat();
            match read("string", &all) {
                Ok(Question::Element(e)) => e,
                other => format!("{other:?}"),
            }
        };
        assert_eq!(
            of(&[("--string", "facebook.com")]),
            "PayloadMatcher(0 string \"facebook.com\", BASE network, NOMATCH 1)"
        );
        assert_eq!(
            of(&[
                ("--hex-string", "|0D 0a|x"),
                ("--from", "20"),
                ("--to", "50"),
                ("--icase", "")
            ]),
            "PayloadMatcher(0 hex \"0d 0a 78\" nocase offset 20 depth 30, BASE network, NOMATCH 1)"
        );
        for bad in [
            &[("--hex-string", "|0|")][..],
            &[("--hex-string", "|00")],
            &[("--string", "")],
            &[],
        ] {
            assert!(of(bad).starts_with("Err"), "{bad:?}");
        }
        assert!(read("string", &[("--string", "x")]).is_err());
    }

    #[test]
    fn chance_and_turns() {
        let random = [("--mode", "random"), ("--probability", "0.33333333349")];
        assert_eq!(
            read("statistic", &random),
            Ok(Question::Element("RandomSample(0.333333333)".into()))
        );
        let nth = [("--mode", "nth"), ("--every", "3"), ("--packet", "2")];
        assert_eq!(
            read("statistic", &nth),
            Ok(Question::Turn {
                every: 3,
                from: 2,
                to: 2
            })
        );
        assert!(
            read(
                "statistic",
                &[("--mode", "nth"), ("--every", "2"), ("--packet", "2")]
            )
            .is_err()
        );
        assert!(read("statistic", &[("--mode", "random"), ("--probability", "2")]).is_err());
    }

    #[test]
    fn frames() {
        assert_eq!(
            read("mac", &[("--mac-source", "00:1B:2c:0d:e:ff")]),
            Ok(Question::Frame(vec!["6/001b2c0d0eff".into()]))
        );
        assert!(read("mac", &[("--mac-source", "00:1b")]).is_err());
        assert_eq!(
            read("pkttype", &[("--pkt-type", "broadcast")]),
            Ok(Question::Kind(Kind::Broadcast))
        );
        assert!(read("pkttype", &[]).is_err());
    }

    #[test]
    fn recent_lists() {
        let options = [
            ("--update", ""),
            ("--seconds", "60"),
            ("--hitcount", "3"),
            ("--name", "x"),
            ("--mask", "255.255.255.0"),
            ("--rdest", ""),
        ];
        let Ok(Question::Recent(r)) = read("recent", &options) else {
            panic!()
        };
        assert_eq!(
            r.element("recent_x"),
            "RecentCheck(recent_x, update, DESTINATION true, MASK 255.255.255.0, SECONDS 60, HITS 3)"
        );
        for bad in [
            &[][..],
            &[("--set", ""), ("--update", "")],
            &[("--set", ""), ("--hitcount", "2")],
            &[("--update", ""), ("--hitcount", "256")],
            &[("--update", ""), ("--reap", "")],
            &[("--update", ""), ("--mask", "::1")],
            &[("--update", ""), ("--rttl", "")],
        ] {
            assert!(read("recent", bad).is_err(), "{bad:?}");
        }
    }
}
