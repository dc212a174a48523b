//! The servers of a load balancer as who asks a running chain knows them.

use super::{HealthServer, LoadBalancer};

/// The servers of a load balancer, those that are drained among them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Balanced {
    /// The handler that says how many flows they have ([`Balanced::counter`]).
    handler: String,
    /// Each once, in the order of the chain file, and its weight: 0, it is drained.
    pub servers: Vec<(HealthServer, u32)>,
}

impl Balanced {
    /// What the handler is called by: how many flows of a part of the table, from this record on, go to each server.
    /// It says numbers: where the next part begins (0: that was the last one), flows by server, flows to others.
    pub fn counter(&self, from: usize) -> String {
        let mut call = format!("{} {from}", self.handler);
        for (server, _) in &self.servers {
            call.push(' ');
            call.push_str(&server.to_string());
        }
        call
    }
}

impl LoadBalancer {
    /// Of a function of this name whose addresses have been checked, all of IPv6 or all of IPv4.
    pub(super) fn balanced(&self, function: &str, six: bool) -> Balanced {
        let mut servers: Vec<(HealthServer, u32)> = Vec::new();
        for s in &self.servers {
            let Ok(address) = s.address.value.parse() else {
                continue;
            };
            let port = s.port.as_ref().map(|p| p.value);
            let server = HealthServer { address, port };
            match servers.iter_mut().find(|known| known.0 == server) {
                Some(known) => known.1 += s.weight(),
                None => servers.push((server, s.weight())),
            }
        }
        let table = if six { "connections" } else { "rw" };
        Balanced {
            handler: format!("{function}/{table}.flows_to"),
            servers,
        }
    }
}
