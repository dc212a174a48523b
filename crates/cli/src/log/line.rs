//! A line of the log.

use super::{Format, Level};
use serde_json::{Map, Value, json};
use std::fmt::Write;
use std::time::{SystemTime, UNIX_EPOCH};

/// An event, and when it was.
pub struct Line {
    pub at: SystemTime,
    pub level: Level,
    pub event: &'static str,
    pub fields: Map<String, Value>,
}

impl Line {
    /// When, in UTC as RFC 3339 has it, with microseconds.
    pub fn time(&self) -> String {
        let since = self.at.duration_since(UNIX_EPOCH).unwrap_or_default();
        let (seconds, micros) = (since.as_secs(), since.subsec_micros());
        let date = onefold_bench::experiment::date_of(seconds / 86_400);
        let (h, m, s) = (seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
        format!("{date}T{h:02}:{m:02}:{s:02}.{micros:06}Z")
    }

    /// With its end of line.
    pub fn text(&self, format: Format) -> String {
        let mut text = match format {
            Format::Json => {
                let mut all = json!({
                    "time": self.time(),
                    "level": self.level.name(),
                    "event": self.event,
                });
                if let Some(all) = all.as_object_mut() {
                    all.extend(self.fields.clone());
                }
                all.to_string()
            }
            Format::Text => {
                let mut text = format!("{} {} {}", self.time(), self.level.name(), self.event);
                for (k, v) in &self.fields {
                    // to a string
                    let _ = write!(text, " {k}={}", plain(v));
                }
                text
            }
        };
        text.push('\n');
        text
    }
}

/// A value as text: a word as it is, everything else as JSON has it, in one line.
pub fn plain(v: &Value) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "._-:/@+[]".contains(c);
    match v {
        Value::String(s) if !s.is_empty() && s.chars().all(is_plain) => s.clone(),
        v => v.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn both_formats_are_one_line() {
        let mut fields = Map::new();
        fields.insert("port".into(), "lan".into());
        fields.insert("text".into(), "is gone;\nwaiting".into());
        fields.insert("packets".into(), 17.into());
        let line = Line {
            at: UNIX_EPOCH + Duration::from_micros(1_795_687_584_000_250),
            level: Level::Warning,
            event: "link",
            fields,
        };
        let text = line.text(Format::Text);
        assert_eq!(
            text,
            "2026-11-26T10:06:24.000250Z warning link port=lan text=\"is gone;\\nwaiting\" packets=17\n"
        );
        let json: Value = serde_json::from_str(&line.text(Format::Json)).unwrap();
        assert_eq!(json["text"], "is gone;\nwaiting");
        assert_eq!(json["time"], "2026-11-26T10:06:24.000250Z");
        assert_eq!(line.text(Format::Json).matches('\n').count(), 1);
    }
}
