//! What keeps an interface from being a port.

use std::net::IpAddr;

/// What is wrong with an interface, and what to type.
#[derive(Debug, thiserror::Error)]
pub enum InterfaceError {
    /// No interface can have this name.
    #[error("'{name}' cannot be the name of an interface: 1 to 15 bytes without '/' and blanks")]
    NoName {
        /// The name.
        name: String,
    },
    /// There is no such interface.
    #[error("there is no interface '{name}' here; there are {}; type: ip link show", list(.known))]
    Missing {
        /// The name.
        name: String,
        /// Those that there are.
        known: Vec<String>,
    },
    /// Its frames are not Ethernet frames.
    #[error(
        "interface '{name}' is no Ethernet interface: it has no MAC address; a chain's packets are Ethernet frames"
    )]
    NotEthernet {
        /// The name.
        name: String,
    },
    /// It is down.
    #[error("interface '{name}' is down; type: ip link set dev {name} up")]
    Down {
        /// The name.
        name: String,
    },
    /// The chain sends longer packets than it takes.
    #[error(
        "interface '{name}' takes packets of {mtu} bytes, the chain sends packets of up to {needed} there; type: \
         ip link set dev {name} mtu {needed}; or give the interface of the chain file 'mtu: {mtu}'"
    )]
    SmallMtu {
        /// The name.
        name: String,
        /// What it takes, in bytes.
        mtu: u32,
        /// What the chain sends, in bytes.
        needed: u32,
    },
    /// It has an address: the kernel would answer besides the chain.
    #[error(
        "interface '{name}' has the address {address}: the kernel would answer what is for the chain, too; type: \
         ip address flush dev {name}; or say that this is meant: {name},kernel=shared"
    )]
    HasAddress {
        /// The name.
        name: String,
        /// One of its addresses.
        address: IpAddr,
    },
    /// The kernel routes besides the chain.
    #[error(
        "the kernel routes what comes in at interface '{name}' ({family}), besides the chain: packets would leave \
         twice; type: sysctl -w net.{family}.conf.{name}.forwarding=0; or say that this is meant: {name},kernel=shared"
    )]
    Forwards {
        /// The name.
        name: String,
        /// `ipv4` or `ipv6`.
        family: &'static str,
    },
    /// Somebody else's privilege is needed.
    #[error(
        "no permission for {doing} '{name}': that takes the capability {capability}; run onefold as root, or type: \
         sudo setcap {}+ep $(command -v onefold)", capability.to_ascii_lowercase()
    )]
    NoPermission {
        /// The interface.
        name: String,
        /// What was tried.
        doing: &'static str,
        /// The capability that allows it.
        capability: &'static str,
    },
    /// The kernel has no such thing.
    #[error("{what} is not there ({error}); {cure}")]
    NotSupported {
        /// What is missing.
        what: &'static str,
        /// What the system says.
        error: std::io::Error,
        /// What to type.
        cure: &'static str,
    },
    /// The system refuses for another reason.
    #[error("interface '{name}': {doing}: {error}")]
    System {
        /// The interface.
        name: String,
        /// What was tried.
        doing: &'static str,
        /// What the system says.
        error: std::io::Error,
    },
}

impl InterfaceError {
    /// What the system said when something was tried with an interface: a permission that is missing is said with the
    /// capability.
    pub fn of(
        name: &str,
        doing: &'static str,
        capability: &'static str,
        error: std::io::Error,
    ) -> InterfaceError {
        let name = name.to_string();
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => InterfaceError::NoPermission {
                name,
                doing,
                capability,
            },
            _ => InterfaceError::System { name, doing, error },
        }
    }
}

/// Names of interfaces that are shown: no more than fit into a line.
const SHOWN: usize = 12;

fn list(names: &[String]) -> String {
    match names {
        [] => "none".to_string(),
        _ if names.len() > SHOWN => format!("{}, ...", names[..SHOWN].join(", ")),
        _ => names.join(", "),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Error, ErrorKind};

    #[test]
    fn missing_permission_names_the_capability() {
        let denied = Error::from(ErrorKind::PermissionDenied);
        let e = InterfaceError::of("eth7", "opening a packet socket on", "CAP_NET_RAW", denied);
        let text = e.to_string();
        assert!(
            text.contains("CAP_NET_RAW") && text.contains("setcap cap_net_raw+ep"),
            "{text}"
        );
        let other = InterfaceError::of(
            "eth7",
            "binding",
            "CAP_NET_RAW",
            Error::from(ErrorKind::Other),
        );
        assert!(matches!(other, InterfaceError::System { .. }), "{other}");
    }
}
