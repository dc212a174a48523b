//! Route tables for tests: made up, or read; the naive longest-prefix match; a router with such a table as Click text.

use std::collections::HashMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A small generator of random numbers (xorshift).
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
}

/// A route: address left-aligned in 128 bits, length, gateway (zero for none), output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub v6: bool,
    pub addr: u128,
    pub len: u8,
    pub gw: u128,
    pub port: u32,
}

fn cut(a: u128, len: u8) -> u128 {
    a & u128::MAX.checked_shl(128 - u32::from(len)).unwrap_or(0)
}

fn show(a: u128, v6: bool) -> String {
    match v6 {
        true => Ipv6Addr::from(a).to_string(),
        false => Ipv4Addr::from((a >> 96) as u32).to_string(),
    }
}

impl Route {
    /// A route for a prefix; next hop and output follow from it.
    pub fn to(v6: bool, addr: u128, len: u8, ports: u32, salt: u64) -> Route {
        let addr = cut(addr, len);
        let h = ((addr >> 64) as u64 ^ addr as u64 ^ u64::from(len) << 3 ^ salt)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let port = (h >> 40) as u32 % ports;
        let gw = match h >> 33 & 3 {
            0 => 0,
            n if v6 => 0xfe80 << 112 | u128::from(n),
            n => u128::from(0xc0a8_0000 | port << 8 | n as u32) << 96,
        };
        Route {
            v6,
            addr,
            len,
            gw,
            port,
        }
    }
    pub fn prefix(&self) -> String {
        format!("{}/{}", show(self.addr, self.v6), self.len)
    }
    /// As an argument of a look-up element.
    pub fn text(&self) -> String {
        match self.gw {
            0 => format!("{} {}", self.prefix(), self.port),
            g => format!("{} {} {}", self.prefix(), show(g, self.v6), self.port),
        }
    }
}

/// So many made-up prefixes, lengths as in the Internet's table, many within each other.
pub fn made_up(n4: usize, n6: usize, ports: u32, r: &mut Rng) -> Vec<Route> {
    const LEN4: [u8; 16] = [
        24, 24, 24, 24, 24, 24, 24, 22, 22, 23, 21, 20, 19, 16, 32, 8,
    ];
    const LEN6: [u8; 8] = [48, 48, 48, 32, 44, 40, 36, 64];
    let mut seen = HashMap::new();
    let mut out = Vec::new();
    for (v6, n) in [(false, n4), (true, n6)] {
        let before = out.len();
        let mut last = 0u128;
        while out.len() < before + n {
            let len = match v6 {
                true => LEN6[r.below(8) as usize],
                false => LEN4[r.below(16) as usize],
            };
            let mut a = u128::from(r.next()) << 64 | u128::from(r.next());
            if v6 {
                a = 0x2000 << 112 | a >> 3 & !(0xfff << 112);
            }
            // often near the one before: within it, or beside it
            if r.below(2) == 0 {
                a = cut(last, if v6 { 28 } else { 14 }) | a >> if v6 { 28 } else { 14 };
            }
            last = a;
            let route = Route::to(v6, a, len, ports, 0);
            if seen.insert((v6, route.addr, len), ()).is_none() {
                out.push(route);
            }
        }
    }
    out
}

/// Prefixes, one a line.
#[allow(dead_code)] // not by all who take up this file
pub fn read(text: &str, ports: u32) -> Vec<Route> {
    let one = |l: &str| {
        let (a, len) = l.trim().split_once('/')?;
        let len = len.parse().ok()?;
        Some(match a.parse().ok()? {
            IpAddr::V4(a) => Route::to(false, u128::from(u32::from(a)) << 96, len, ports, 0),
            IpAddr::V6(a) => Route::to(true, a.into(), len, ports, 0),
        })
    };
    text.lines().filter_map(one).collect()
}

/// The naive longest-prefix match: a hash table per length, the longest first.
#[derive(Default)]
pub struct Naive {
    by_len: [HashMap<(u8, u128), Route>; 2],
    lens: [Vec<u8>; 2],
}

impl Naive {
    pub fn new(routes: &[Route]) -> Naive {
        let mut n = Naive::default();
        for r in routes {
            n.set(*r);
        }
        n
    }
    pub fn set(&mut self, r: Route) {
        let v = usize::from(r.v6);
        self.by_len[v].insert((r.len, r.addr), r);
        if !self.lens[v].contains(&r.len) {
            self.lens[v].push(r.len);
            self.lens[v].sort_unstable_by_key(|l| std::cmp::Reverse(*l));
        }
    }
    #[allow(dead_code)] // not by all who take up this file
    pub fn remove(&mut self, r: &Route) {
        self.by_len[usize::from(r.v6)].remove(&(r.len, r.addr));
    }
    /// Output and next hop.
    pub fn lookup(&self, v6: bool, a: u128) -> Option<(u32, u128)> {
        let v = usize::from(v6);
        let hit = self.lens[v]
            .iter()
            .find_map(|l| self.by_len[v].get(&(*l, cut(a, *l))))?;
        Some((hit.port, if hit.gw == 0 { a } else { hit.gw }))
    }
}

/// A router for both IP versions with so many ports; packets come in at `in` and leave at `out0` ...
pub fn router(routes: &[Route], ports: u32) -> String {
    let mut t = String::from(
        "FromDevice(in) -> c :: Classifier(12/0800, 12/86dd, -);
         c[0] -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> rt :: RadixIPLookup(",
    );
    let list = |t: &mut String, v6: bool| {
        for (i, r) in routes.iter().filter(|r| r.v6 == v6).enumerate() {
            let comma = if i > 0 { ",\n" } else { "" };
            let _ = write!(t, "{comma}{}", r.text());
        }
        t.push_str(");\n");
    };
    list(&mut t, false);
    t.push_str(
        "c[1] -> Strip(14) -> CheckIP6Header -> GetIP6Address(24) -> rt6 :: LookupIP6Route(",
    );
    list(&mut t, true);
    t.push_str("c[2] -> Discard;\n");
    for p in 0..ports {
        let _ = writeln!(
            t,
            "o{p} :: ToDevice(out{p});
             rt[{p}] -> dt{p} :: DecIPTTL -> EtherEncap(0x0800, 2:0:0:0:0:{p}, 2:0:0:0:1:{p}) -> o{p}; dt{p}[1] -> Discard;
             rt6[{p}] -> hl{p} :: DecIP6HLIM -> EtherEncap(0x86dd, 2:0:0:0:0:{p}, 2:0:0:0:1:{p}) -> o{p}; hl{p}[1] -> Discard;"
        );
    }
    t
}

/// An address to ask for: near a route, or anywhere.
pub fn address(routes: &[Route], v6: bool, r: &mut Rng) -> u128 {
    let any = u128::from(r.next()) << 64 | u128::from(r.next());
    if r.below(4) == 0 {
        return if v6 { any } else { cut(any, 32) };
    }
    let near = &routes[r.below(routes.len() as u64) as usize];
    let host = any.checked_shr(near.len.into()).unwrap_or(0);
    let a = near.addr | host;
    if v6 { a } else { cut(a, 32) }
}

/// A UDP packet to an address.
pub fn frame(v6: bool, dst: u128, r: &mut Rng) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2];
    let port = 1024 + (r.next() as u16 & 7);
    if v6 {
        f.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 8, 17, 64]);
        f.extend((0x2001_0db8u128 << 96 | u128::from(r.below(4))).to_be_bytes());
        f.extend(dst.to_be_bytes());
    } else {
        f.extend([8, 0, 0x45, 0, 0, 28, 0, 0, 0, 0, 64, 17, 0, 0, 10, 0, 0]);
        f.push(r.below(4) as u8);
        f.extend(&dst.to_be_bytes()[..4]);
        let sum = onefold_packet::checksum::internet(&f[14..34]);
        f[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    f.extend(port.to_be_bytes());
    f.extend([0, 53, 0, 8, 0, 0]);
    f.resize(f.len().max(60), 0);
    f
}
