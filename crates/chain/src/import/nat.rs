//! Rules of tables nat: what the ends of connections become.

use super::rule::{Onward, Sections, Way};
use crate::rules::RulePlace;
use std::net::IpAddr;
use std::sync::Arc;

/// What a rule makes of the source or the destination of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NatTarget {
    /// It stays as it is.
    Stays,
    /// One of these, as ConnDstNat and ConnSrcNat have it.
    Range(String),
    /// The address of the port that the packet leaves at; ports and options as ConnSrcNat has them.
    Masquerade(String),
    /// The address of the port that the packet arrived at; ports and options as ConnDstNat has them.
    Redirect(String),
}

impl NatTarget {
    /// A redirect, where its packets are sent to.
    pub(super) fn redirected(
        self,
        to: Result<Option<IpAddr>, &'static str>,
    ) -> Result<NatTarget, String> {
        match (self, to) {
            (NatTarget::Redirect(_), Err(why)) => Err(why.into()),
            (NatTarget::Redirect(options), Ok(Some(a))) => Ok(NatTarget::Range(
                format!("{a} {options}").trim_end().to_string(),
            )),
            (t, _) => Ok(t),
        }
    }

    /// A range's text; the addresses of the ports that the packet arrived at and leaves at. `None`: nothing is
    /// translated.
    ///
    /// # Errors
    /// The address is not known.
    pub fn range(
        &self,
        (arrived, leaves): (Option<IpAddr>, Option<IpAddr>),
    ) -> Result<Option<String>, String> {
        let (own, options) = match self {
            NatTarget::Stays => return Ok(None),
            NatTarget::Range(r) => return Ok(Some(r.clone())),
            NatTarget::Masquerade(options) => (leaves, options),
            NatTarget::Redirect(options) => (arrived, options),
        };
        let hint = "the address of the port is not known: say it with 'addresses: { outside: [203.0.113.1/24] }'";
        let own = own.ok_or(hint)?;
        Ok(Some(format!("{own} {options}").trim_end().to_string()))
    }
}

/// A rule: the first one that takes a connection's first packet decides.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NatRule {
    /// What becomes of it.
    pub target: NatTarget,
    /// Which packets.
    pub filter: String,
    /// Line of the file, from 1.
    pub line: u32,
    /// Where it is.
    pub place: Option<Arc<RulePlace>>,
    /// What becomes of packets beside that.
    pub onward: Option<Onward>,
}

/// A list, and the rest of it.
pub type NatList<'a> = (&'a [NatRule], &'a Sections<NatRule>);

/// What a table nat says of forwarded packets.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NatRules {
    /// Of destinations (PREROUTING), for packets from port 0 and for those from port 1.
    pub dst: [Vec<NatRule>; 2],
    /// Of sources (POSTROUTING).
    pub src: [Vec<NatRule>; 2],
    /// The rest of the lists of destinations.
    pub dst_sections: [Sections<NatRule>; 2],
    /// The rest of those of sources.
    pub src_sections: [Sections<NatRule>; 2],
}

impl NatRules {
    /// Both lists of one way: destinations, sources.
    pub fn of(&self, way: Way) -> [NatList<'_>; 2] {
        let i = usize::from(way == Way::Down);
        [
            (&self.dst[i], &self.dst_sections[i]),
            (&self.src[i], &self.src_sections[i]),
        ]
    }
}
