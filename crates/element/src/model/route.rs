//! Questions to tables, of routes and of neighbours.

/// What a table is asked of an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RouteWhat {
    /// The output, in 32 bits, all ones where there is no route.
    Output,
    /// The gateway; where there is none, or no route, the address itself.
    NextHop,
    /// Of a table of neighbours: 1 where a packet for this address gets its Ethernet header now and nothing else
    /// happens, 0 where the element is needed (the address is unknown, has expired, or a query is due).
    Known,
    /// The Ethernet address that packets for an address get that is [known](RouteWhat::Known); else anything.
    Ether,
}

impl RouteWhat {
    /// Width in bits, for addresses of so many.
    pub fn width(self, address: u8) -> u8 {
        match self {
            RouteWhat::Output => 32,
            RouteWhat::NextHop => address,
            RouteWhat::Known => 1,
            RouteWhat::Ether => 48,
        }
    }
}
