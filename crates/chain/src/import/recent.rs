//! `-m recent`: lists of addresses that packets had, with the times at which they had them (xt_recent.c).

use super::terms::Family;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Most times that the kernel keeps for an address.
pub const MAX_HITS: u32 = 255;

/// A question to a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recent {
    /// The list's name.
    pub list: String,
    /// What is done.
    pub does: Does,
    /// The destination instead of the source.
    pub destination: bool,
    /// The bits of the address that are kept.
    pub mask: IpAddr,
    /// Only what has been seen in the last seconds counts; all of it, if it is 0.
    pub seconds: u32,
    /// So often at least; once, if it is 0.
    pub hits: u32,
    /// What is older is forgotten.
    pub reap: bool,
}

/// What a rule does with the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Does {
    /// Notes the address; it holds.
    Set,
    /// Asks for it.
    Check,
    /// Asks for it, and notes it if it is there.
    Update,
    /// Asks for it, and takes it out.
    Remove,
}

impl Recent {
    /// The whole address.
    pub fn whole(family: Family) -> IpAddr {
        match family {
            Family::V4 => Ipv4Addr::BROADCAST.into(),
            Family::V6 => Ipv6Addr::from(u128::MAX).into(),
        }
    }

    /// The element that asks the list of this name.
    pub fn element(&self, list: &str) -> String {
        let does = match self.does {
            Does::Set => "set",
            Does::Check => "check",
            Does::Update => "update",
            Does::Remove => "remove",
        };
        let mut text = format!("RecentCheck({list}, {does}");
        let mut add = |is: bool, what: String| {
            if is {
                text.push_str(", ");
                text.push_str(&what);
            }
        };
        add(self.destination, "DESTINATION true".into());
        add(
            self.mask != Recent::whole(Family::V4) && self.mask != Recent::whole(Family::V6),
            format!("MASK {}", self.mask),
        );
        add(self.seconds > 0, format!("SECONDS {}", self.seconds));
        add(self.hits > 0, format!("HITS {}", self.hits));
        add(self.reap, "REAP true".into());
        text.push(')');
        text
    }
}
