//! How packets of network interfaces come to several workers: what can be asked for, and what is chosen.

use super::Args;
use crate::ports::Receivers;
use anyhow::{Result, bail};
use clap::ValueEnum;
use onefold_runtime::FirstTag;

/// The first tag, if nobody says otherwise.
const FIRST_TAG: FirstTag = FirstTag::Vlan(100);

/// How packets come to their worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Dispatch {
    /// A queue for each worker where every port can have as many, else software
    Auto,
    /// One more thread receives at all ports and hands each packet to its worker: works with every kind of port
    Software,
    /// Every worker (with --workers MIN..MAX every group of flows) has a queue of its own at each port, over which the
    /// device or the kernel spreads packets by a hash; workers hand over to each other what came to the wrong queue
    Rss,
    /// Frames carry a tag that says whose they are, decided upstream (--tag); a program in the driver of each xdp: port
    /// looks at it, and it is taken off
    Tag,
}

/// Reads `vlan:FIRST` or `mac:FIRST`.
///
/// # Errors
/// What is wrong, in words.
pub fn first_tag(s: &str) -> Result<FirstTag, String> {
    let wrong = || format!("expected vlan:1 to vlan:4094, or mac:02:00:00:00:01:00, not '{s}'");
    let (kind, first) = s.split_once(':').ok_or_else(wrong)?;
    match kind {
        "vlan" => {
            let tag = first.parse().map(FirstTag::Vlan).ok();
            tag.filter(|t| t.vlan(0).is_some()).ok_or_else(wrong)
        }
        "mac" => {
            let bytes = first.split(':').map(|b| u8::from_str_radix(b, 16).ok());
            let bytes: Option<Vec<u8>> = bytes.collect();
            let mac = bytes.and_then(|b| <[u8; 6]>::try_from(b).ok());
            mac.map(FirstTag::Mac).ok_or_else(wrong)
        }
        _ => Err(wrong()),
    }
}

/// What was chosen, and why.
#[derive(Debug, Clone)]
pub enum Way {
    Software(String),
    Rss(String),
    /// From this tag on, one for each of so many.
    Tag(FirstTag, usize),
}

impl Way {
    /// Chooses, for so many groups of flows: workers, where these do not change.
    ///
    /// # Errors
    /// What was asked for cannot be.
    pub fn of(args: &Args, groups: usize) -> Result<Way> {
        if args.tag.is_some() && args.dispatch != Dispatch::Tag {
            bail!("--tag is for --dispatch tag");
        }
        let mut devices = args.ports.iter().filter(|p| p.device().is_some());
        if args.dispatch == Dispatch::Tag {
            if let Some(why) = devices.map(|p| p.takes_tags()).find_map(Result::err) {
                bail!("--dispatch tag: {why}; use --dispatch software");
            }
            return Way::tag(args.tag.unwrap_or(FIRST_TAG), groups);
        }
        let lacking = devices.find_map(|p| p.has_queues(groups).err());
        if args.workers.is_range() && args.dispatch == Dispatch::Auto {
            // queues of groups make most packets go through two of them
            let why = "groups of flows go from worker to worker";
            return Ok(Way::Software(why.to_string()));
        }
        Ok(match (args.dispatch, lacking) {
            (Dispatch::Software | Dispatch::Tag, _) => Way::Software("as asked for".to_string()),
            (Dispatch::Auto, Some(why)) => Way::Software(why),
            (Dispatch::Auto, None) => Way::Rss("every port can have as many queues".to_string()),
            (Dispatch::Rss, None) => Way::Rss("as asked for".to_string()),
            (Dispatch::Rss, Some(why)) => bail!("--dispatch rss: {why}; use --dispatch software"),
        })
    }

    fn tag(first: FirstTag, groups: usize) -> Result<Way> {
        let last = groups.saturating_sub(1);
        if let FirstTag::Vlan(id) = first
            && first.vlan(last).is_none()
        {
            bail!(
                "--tag vlan:{id}: {groups} VLANs from there on are more than there are; the last one is 4094"
            );
        }
        // the first bit that is sent says that a frame is for several
        if let Some(mac) = [0, last]
            .iter()
            .filter_map(|n| first.mac(*n))
            .find(|m| m[0] & 1 == 1)
        {
            bail!("--tag mac: {} is an address of several hosts", text(mac));
        }
        Ok(Way::Tag(first, groups))
    }

    /// Who takes packets in at each port.
    pub fn receivers(&self, groups: usize) -> Receivers {
        match self {
            Way::Software(_) => Receivers::Queues(1),
            Way::Rss(_) => Receivers::Queues(groups),
            Way::Tag(..) => Receivers::Tagged(groups),
        }
    }

    /// Does one thread hand all packets over?
    pub fn is_software(&self) -> bool {
        matches!(self, Way::Software(_))
    }

    /// The first tag, if frames have some.
    pub fn first_tag(&self) -> Option<FirstTag> {
        match self {
            Way::Tag(first, _) => Some(*first),
            Way::Software(_) | Way::Rss(_) => None,
        }
    }

    pub fn name(&self) -> &'static str {
        match self {
            Way::Software(_) => "software",
            Way::Rss(_) => "rss",
            Way::Tag(..) => "tag",
        }
    }

    pub fn why(&self) -> &str {
        match self {
            Way::Software(why) | Way::Rss(why) => why,
            Way::Tag(..) => "as asked for",
        }
    }

    /// Tags by worker (or group): what upstream has to know.
    pub fn tags(&self) -> Vec<String> {
        let Way::Tag(first, groups) = self else {
            return Vec::new();
        };
        let one = |n| match (first.vlan(n), first.mac(n)) {
            (Some(id), _) => format!("vlan:{id}"),
            (None, mac) => format!("mac:{}", mac.map(text).unwrap_or_default()),
        };
        (0..*groups).map(one).collect()
    }

    /// Says it.
    pub fn say(&self) {
        let tags = self.tags();
        let what = match (self, &tags[..]) {
            (Way::Software(_), _) => {
                "one thread receives at all ports and hands packets to workers".to_string()
            }
            (Way::Tag(..), [first, .., last]) => {
                format!("frames carry {first} (of the first group or worker) to {last}")
            }
            (Way::Tag(..), tags) => format!("frames carry {}", tags.join(", ")),
            (Way::Rss(_), _) => {
                "every worker receives at a queue of its own, and hands over what is another one's"
                    .to_string()
            }
        };
        eprintln!("dispatch: {} ({}): {what}", self.name(), self.why());
    }
}

fn text(mac: [u8; 6]) -> String {
    mac.map(|b| format!("{b:02x}")).join(":")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_read_and_told() {
        assert_eq!(first_tag("vlan:7"), Ok(FirstTag::Vlan(7)));
        let mac = FirstTag::Mac([2, 0, 0, 0, 0, 0xff]);
        assert_eq!(first_tag("mac:02:00:00:00:00:ff"), Ok(mac));
        for wrong in [
            "",
            "vlan",
            "vlan:0",
            "vlan:4095",
            "vlan:x",
            "mac:2:0:0",
            "tag:1",
        ] {
            assert!(first_tag(wrong).is_err(), "{wrong}");
        }
        let told = |first, n| Way::tag(first, n).map(|w| w.tags()).unwrap_or_default();
        assert_eq!(told(FirstTag::Vlan(4093), 2), ["vlan:4093", "vlan:4094"]);
        assert!(told(FirstTag::Vlan(4093), 3).is_empty());
        assert_eq!(
            told(mac, 2),
            ["mac:02:00:00:00:00:ff", "mac:02:00:00:00:01:00"]
        );
        assert!(told(FirstTag::Mac([1, 0, 0, 0, 0, 0]), 1).is_empty());
    }
}
