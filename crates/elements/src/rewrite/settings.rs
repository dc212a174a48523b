//! Keywords of the rewriters: time-outs, tracking, annotations.

use onefold_element::args::{AnyArg, Args, Seconds, SizedAnno, split_words, unquote};
use onefold_nat::apply::Annos;
use onefold_nat::{CLASSES, MAX_FRAGMENTED, RewriterKind, Timeout, Track};
use onefold_packet::wire::ipv4::proto;

/// Settings of a rewriter besides its input specifications.
pub(super) struct Settings {
    pub timeouts: [Timeout; CLASSES],
    pub track: [Track; 2],
    pub take_over: bool,
    /// Mappings are endpoint-independent.
    pub endpoints: bool,
    /// Protocol, outside address and port that no mapping gets.
    pub reserved: Vec<(u8, u32, u16)>,
    /// Acknowledgements count as data.
    pub handshake: bool,
    /// Packets whose later fragments are to follow.
    pub fragments: u32,
    pub annos: Annos,
}

/// Reads all keywords but the capacity's and the sweep's.
pub(super) fn settings(kind: RewriterKind, args: &mut Args<'_>) -> Settings {
    const MINUTE: u64 = 60;
    let mut seconds = |names: &[&str], default: u64| {
        let mut v = default;
        for n in names {
            if let Some(s) = read_seconds(args, n) {
                v = s;
            }
        }
        v
    };
    let mut timeouts = [Timeout::default(); CLASSES];
    let mut udp = None;
    if kind == RewriterKind::Ip {
        let expire = seconds(&["UDP_TIMEOUT"], 5 * MINUTE);
        let streaming = seconds(&["UDP_STREAMING_TIMEOUT"], expire);
        let guarantee = seconds(&["UDP_GUARANTEE"], 5);
        udp = Some((expire, streaming, guarantee));
    }
    let mut base = match kind {
        RewriterKind::Addr | RewriterKind::AddrPair => 120 * MINUTE,
        _ => 5 * MINUTE,
    };
    let mut guarantee = 5;
    match kind {
        RewriterKind::Ip | RewriterKind::Tcp => {
            base = seconds(&["TCP_NODATA_TIMEOUT"], base);
            guarantee = seconds(&["TCP_GUARANTEE"], guarantee);
            timeouts[1].expire = seconds(&["TIMEOUT", "TCP_TIMEOUT"], 24 * 60 * MINUTE);
            timeouts[2].expire = seconds(&["TCP_DONE_TIMEOUT"], 4 * MINUTE);
        }
        RewriterKind::Udp => {
            base = seconds(&["UDP_TIMEOUT", "TIMEOUT"], base);
            timeouts[4].expire = seconds(&["UDP_STREAMING_TIMEOUT", "STREAMING_TIMEOUT"], base);
            guarantee = seconds(&["UDP_GUARANTEE"], guarantee);
        }
        _ => base = seconds(&["TIMEOUT"], base),
    }
    guarantee = seconds(&["GUARANTEE"], guarantee);
    timeouts[0].expire = base;
    for t in &mut timeouts {
        t.guarantee = guarantee;
    }
    let mut track = [Track::None; 2];
    match (kind, udp) {
        (RewriterKind::Ip, Some((expire, streaming, guarantee))) => {
            timeouts[3] = Timeout { expire, guarantee };
            timeouts[4] = Timeout {
                expire: streaming,
                guarantee,
            };
            track = [Track::Tcp, Track::Udp(3)];
        }
        (RewriterKind::Tcp, _) => track[0] = Track::Tcp,
        (RewriterKind::Udp, _) => track[0] = Track::Udp(0),
        _ => {}
    }
    for t in &mut timeouts {
        t.expire *= 1000;
        t.guarantee *= 1000;
    }
    let mut annos = Annos {
        dst: true,
        reply: None,
    };
    if !matches!(kind, RewriterKind::Addr | RewriterKind::AddrPair) {
        annos.dst = args.keyword("DST_ANNO").unwrap_or(true);
    }
    let mut fragments = 0;
    // the others translate later fragments as any packet
    if !matches!(kind, RewriterKind::Addr | RewriterKind::AddrPair) {
        fragments = args.keyword("FRAGMENTS").unwrap_or(0);
        if fragments > MAX_FRAGMENTED {
            args.error(format!("FRAGMENTS: out of range, 0 to {MAX_FRAGMENTED}"));
        }
    }
    let (endpoints, reserved) = mapping(kind, args);
    let tcp = matches!(kind, RewriterKind::Ip | RewriterKind::Tcp);
    let handshake = tcp && args.keyword("TCP_HANDSHAKE").unwrap_or(false);
    annos.reply = args
        .keyword("REPLY_ANNO")
        .map(|SizedAnno::<1>(offset)| offset);
    Settings {
        timeouts,
        track,
        take_over: args.keyword("TAKE_OVER").unwrap_or(true),
        endpoints,
        reserved,
        handshake,
        fragments,
        annos,
    }
}

/// `MAPPING` and `RESERVED`.
fn mapping(kind: RewriterKind, args: &mut Args<'_>) -> (bool, Vec<(u8, u32, u16)>) {
    if matches!(kind, RewriterKind::Addr | RewriterKind::AddrPair) {
        return (false, Vec::new());
    }
    let endpoints = match args.keyword("MAPPING") {
        Some(AnyArg(how)) if how == "endpoint" => true,
        Some(AnyArg(how)) if how != "flow" => {
            args.error(format!("MAPPING: expected endpoint or flow, found '{how}'"));
            false
        }
        _ => false,
    };
    let mut reserved = Vec::new();
    if kind != RewriterKind::Ping
        && let Some(AnyArg(text)) = args.keyword("RESERVED")
    {
        let text = String::from_utf8_lossy(&unquote(&text)).into_owned();
        let words = split_words(&text);
        let (all, rest) = words.as_chunks::<3>();
        let read = |[protocol, addr, port]: &[&str; 3]| {
            let protocol = match *protocol {
                "tcp" => proto::TCP,
                "udp" => proto::UDP,
                _ => return None,
            };
            let addr = addr.parse::<std::net::Ipv4Addr>().ok()?;
            Some((protocol, u32::from(addr), port.parse().ok()?))
        };
        let found: Option<Vec<_>> = all.iter().map(read).collect();
        match found.filter(|_| rest.is_empty()) {
            Some(found) => reserved = found,
            None => args.error(format!(
                "RESERVED: expected 'tcp ADDRESS PORT udp ADDRESS PORT ...', found '{text}'"
            )),
        }
    }
    (endpoints, reserved)
}

/// A time in whole seconds, rounded as Click rounds it.
pub(super) fn read_seconds(args: &mut Args<'_>, name: &str) -> Option<u64> {
    let Seconds(t) = args.keyword(name)?;
    let s = t.nanos().saturating_add(500_000_000) / 1_000_000_000;
    match u64::try_from(s).ok().filter(|s| *s <= u64::from(u32::MAX)) {
        Some(s) if t.nanos() >= 0 => Some(s),
        _ => {
            args.error(format!("{name}: out of range, 0 to {} seconds", u32::MAX));
            None
        }
    }
}
