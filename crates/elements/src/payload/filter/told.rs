//! Alerts that somebody wants to be told of one by one, until they are taken.

use onefold_element::ElemId;
use onefold_packet::Pkt;
use std::fmt::Write;

/// Most bytes of alerts that wait to be taken; what comes then is counted.
const MOST: usize = 1 << 20;
/// So many bytes of a packet, from its IP header on, are told.
const HEADERS: usize = 64;

/// See the module's text. A copy (of an element that is compared with another one) tells nobody.
#[derive(Debug, Default)]
pub struct Told {
    wanted: bool,
    lines: String,
    lost: u64,
}

impl Clone for Told {
    fn clone(&self) -> Told {
        Told::default()
    }
}

impl Told {
    /// Are they wanted from now on?
    pub fn want(&mut self, wanted: bool) {
        self.wanted = wanted;
        if !wanted {
            *self = Told::default();
        }
    }

    /// Are they?
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// A rule, by its argument, is about this packet, which has come in there.
    pub fn add(&mut self, p: &Pkt, (argument, blocked): (usize, bool), ingress: Option<ElemId>) {
        if self.lines.len() >= MOST {
            self.lost += 1;
            return;
        }
        let verdict = if blocked { "blocked" } else { "allowed" };
        let at = p.anno.timestamp.nanos();
        // writing to a String cannot fail
        let _ = match ingress {
            Some(e) => write!(self.lines, "{at} {argument} {verdict} {} ", e.0),
            None => write!(self.lines, "{at} {argument} {verdict} - "),
        };
        for b in p.network().unwrap_or(&[]).iter().take(HEADERS) {
            let _ = write!(self.lines, "{b:02x}");
        }
        self.lines.push('\n');
    }

    /// All that have come since the last time, a line each: when, in nanoseconds, argument, `allowed` or `blocked`, the
    /// number of the element that the packet came in at (or `-`), and the first bytes from the IP header on. The last
    /// line is `lost N` if there were more than there is room for.
    pub fn take(&mut self) -> String {
        let lost = std::mem::take(&mut self.lost);
        if lost > 0 {
            let _ = writeln!(self.lines, "lost {lost}");
        }
        std::mem::take(&mut self.lines)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_packet::{Packet, Timestamp};

    #[test]
    fn what_waits_is_bounded() {
        let mut told = Told::default();
        told.want(true);
        let mut p: Pkt = Box::new(Packet::from_slice(&[0x45; 100]));
        p.anno.timestamp = Timestamp(12);
        p.set_network_header(0, 20);
        told.add(&p, (3, true), None);
        let headers = "45".repeat(64);
        assert_eq!(told.take(), format!("12 3 blocked - {headers}\n"));
        told.add(&p, (3, false), Some(ElemId(7)));
        assert_eq!(told.take(), format!("12 3 allowed 7 {headers}\n"));
        assert_eq!(told.take(), "");
        let each = 12 + 128;
        for _ in 0..MOST / each + 100 {
            told.add(&p, (3, true), None);
        }
        let all = told.take();
        assert!(all.len() < MOST + 2 * each, "{}", all.len());
        let (lines, last) = (all.lines().count() - 1, all.lines().last());
        let lost = MOST / each + 100 - lines;
        assert_eq!(last, Some(format!("lost {lost}").as_str()));
        assert!(told.clone().take().is_empty() && !told.clone().is_wanted());
    }
}
