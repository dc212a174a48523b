//! Time-outs and habits of a tracker: netfilter's sysctls, with its defaults.

/// How long a connection stays when no packet of it comes, in milliseconds; what the tracker takes.
///
/// Source: Documentation/networking/nf_conntrack-sysctl.rst of Linux.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Settings {
    /// TCP, by state: [`super::tcp::State`].
    pub tcp: [u64; 10],
    /// TCP that is established, but of which one direction only has been seen
    /// (nf_conntrack_tcp_timeout_unacknowledged).
    pub tcp_one_way: u64,
    /// UDP.
    pub udp: u64,
    /// UDP that has been answered for more than two seconds.
    pub udp_stream: u64,
    /// ICMP.
    pub icmp: u64,
    /// ICMPv6.
    pub icmp6: u64,
    /// All other protocols.
    pub generic: u64,
    /// A connection of TCP may begin without SYN (nf_conntrack_tcp_loose).
    pub loose: bool,
    /// Packets with a wrong checksum are invalid (nf_conntrack_checksum).
    pub checksum: bool,
    /// Most connections (nf_conntrack_max).
    pub capacity: usize,
    /// Elements translate addresses by the table.
    pub translates: bool,
    /// Elements ask for connections' marks, or set them.
    pub marks: bool,
    /// Elements change addresses of packets between tracker and ConnConfirm.
    pub renames: bool,
}

impl Settings {
    /// Does somebody want to know of each packet which one it is? Who translates asks of packets that are handed to
    /// him, and tells what becomes of the others of a connection ([`onefold_element::Element::lasting`]).
    #[inline]
    pub fn wants_each(&self) -> bool {
        self.marks || self.renames
    }
}

/// Connections in a table unless CAPACITY is given: what Linux has with 4 GiB and more.
pub(super) const DEFAULT_CAPACITY: u32 = 262_144;
/// Most that may be asked for.
pub(super) const MAX_CAPACITY: u32 = 1 << 26;

/// The keyword of each time-out and its default in seconds, in the order of [`Settings::timeouts_mut`].
pub(super) const TIMEOUTS: [(&str, u64); 15] = [
    ("TCP_SYN_SENT", 120),
    ("TCP_SYN_RECV", 60),
    ("TCP_ESTABLISHED", 432_000),
    ("TCP_FIN_WAIT", 120),
    ("TCP_CLOSE_WAIT", 60),
    ("TCP_LAST_ACK", 30),
    ("TCP_TIME_WAIT", 120),
    ("TCP_CLOSE", 10),
    ("TCP_SYN_SENT2", 120),
    ("TCP_UNACKNOWLEDGED", 300),
    ("UDP", 30),
    ("UDP_STREAM", 120),
    ("ICMP", 30),
    ("ICMP6", 30),
    ("GENERIC", 600),
];

impl Default for Settings {
    fn default() -> Settings {
        let mut s = Settings {
            tcp: [0; 10],
            tcp_one_way: 0,
            udp: 0,
            udp_stream: 0,
            icmp: 0,
            icmp6: 0,
            generic: 0,
            loose: true,
            checksum: true,
            capacity: DEFAULT_CAPACITY as usize,
            translates: false,
            marks: false,
            renames: false,
        };
        for (to, (_, seconds)) in s.timeouts_mut().into_iter().zip(TIMEOUTS) {
            *to = seconds * 1000;
        }
        s
    }
}

impl Settings {
    /// All time-outs, in the order of [`TIMEOUTS`].
    pub fn timeouts_mut(&mut self) -> [&mut u64; 15] {
        let [_, a, b, c, d, e, f, g, h, i] = &mut self.tcp;
        [
            a,
            b,
            c,
            d,
            e,
            f,
            g,
            h,
            i,
            &mut self.tcp_one_way,
            &mut self.udp,
            &mut self.udp_stream,
            &mut self.icmp,
            &mut self.icmp6,
            &mut self.generic,
        ]
    }
}
