//! The host at port 2: packets for its addresses, and its own.
//!
//! What arrives for one of the host's addresses passes PREROUTING and INPUT, and leaves at port 2 (`up_input`,
//! `down_input`: from port 0, from port 1). What enters there passes OUTPUT and POSTROUTING, and leaves by the port
//! whose network its destination is in, else by port 1 (`host_up` to port 1, `host_down` to port 0). Where OUTPUT
//! translates destinations, the port is looked up again; what is then for the host itself (REDIRECT) leaves by its
//! loopback interface (`host_self`), comes in there again (`self_input`), and leaves at port 2.

use super::lists::{Lists, Passage};
use super::nat::Apart;
use super::{Back, Firewall, Lines, NO_ARP, NO_RULES6, Verdict};
use crate::import::Hook;
use crate::kinds::connections::universe;
use crate::kinds::{ClickText, KindCx, NOT_IP, VLAN_TAGGED, discard};
use onefold_elements::connection::classes_text;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// The port.
pub(super) const PORT: usize = 2;

/// Of what the host sends to itself, where no rule has sent it back.
const LOOPBACK: &str = "from the host to itself: it does not leave it";
/// Groups that every host is in.
const ALL_HOSTS: Ipv4Addr = Ipv4Addr::new(224, 0, 0, 1);
const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

/// The host.
pub(super) struct Host {
    /// By port, with the lengths of their networks' prefixes.
    addresses: [Vec<(IpAddr, u8)>; 2],
}

/// The lists of its packets, of a family.
pub(super) struct HostLists {
    input: Box<Lists>,
    output: Box<Lists>,
    /// Of what it sends to itself, where it leaves and where it comes in again.
    loop_out: Box<Lists>,
    loop_in: Box<Lists>,
    /// Tests for packets to it; nothing if it has no address of the family.
    own: Vec<String>,
    /// A test for packets of its own that do not leave it.
    loops: String,
    /// Tests for the networks of ports, the longest prefixes first.
    networks: Vec<(usize, String)>,
}

impl Firewall {
    /// The host, if its port is connected. What is wrong with it is said.
    pub(super) fn host(&self, cx: &mut KindCx<'_>) -> Option<Host> {
        if !cx.wired(PORT) {
            return None;
        }
        let wrong = |cx: &mut KindCx<'_>, why: &str, hint: &str| {
            let text = format!("{}: {why}", cx.name);
            let span = cx.span;
            cx.reader.error_hint(span, text, hint);
        };
        let addresses = self.own(cx).by_port();
        if addresses.iter().all(Vec::is_empty) {
            let why = "port 2 is the host itself, of which no address is known";
            let hint = "say 'addresses: { inside: [192.168.1.1/24], outside: [203.0.113.1/24] }', or connect nothing \
                        there";
            wrong(cx, why, hint);
        }
        if self.back != Back::Same {
            let why = "with the host at port 2, rules are asked both ways";
            let hint = "leave 'back' out, or connect nothing to port 2";
            wrong(cx, why, hint);
        }
        if cx.reader.share.workers > 1 {
            let why = "with the host at port 2, the function runs on one worker";
            wrong(cx, why, "give one worker");
        }
        Some(Host { addresses })
    }
}

impl Host {
    /// Tests for packets to the host: to its addresses, to all hosts of its networks.
    fn own(&self, six: bool) -> Vec<String> {
        let mut all: Vec<String> = Vec::new();
        let mut add = |a: IpAddr| {
            let test = format!("dst host {a}");
            if !all.contains(&test) {
                all.push(test);
            }
        };
        let mine = self.addresses.iter().flatten();
        for (a, len) in mine.filter(|(a, _)| a.is_ipv6() == six) {
            add(*a);
            match a {
                IpAddr::V4(a) if *len < 31 => {
                    let hosts = u32::MAX.checked_shr((*len).into()).unwrap_or(0);
                    add(Ipv4Addr::from(u32::from(*a) | hosts).into());
                }
                IpAddr::V4(_) => {}
                // neighbours ask for it there (RFC 4291, 2.7.1)
                IpAddr::V6(a) => {
                    let [.., hi, lo] = a.segments();
                    let group = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 1, 0xff00 | hi & 0xff, lo);
                    add(group.into());
                }
            }
        }
        if !all.is_empty() {
            match six {
                false => {
                    all.push(format!("dst host {}", Ipv4Addr::BROADCAST));
                    all.push(format!("dst host {ALL_HOSTS}"));
                }
                true => all.push(format!("dst host {ALL_NODES}")),
            }
        }
        all
    }

    /// A test for packets from the host to itself.
    fn loops(&self, six: bool) -> String {
        let begin = match six {
            false => "dst net 127.0.0.0/8",
            true => "dst host ::1",
        };
        let mine = self.networks(six).into_iter();
        let tests = mine.map(|(_, a, _)| format!("dst host {a}"));
        let all: Vec<String> = std::iter::once(begin.to_string()).chain(tests).collect();
        all.join(" or ")
    }

    /// The networks of both ports, the longest prefixes first.
    fn networks(&self, six: bool) -> Vec<(usize, IpAddr, u8)> {
        let mut all = Vec::new();
        for (port, list) in self.addresses.iter().enumerate() {
            let mine = list.iter().filter(|(a, _)| a.is_ipv6() == six);
            all.extend(mine.map(|(a, len)| (port, *a, *len)));
        }
        all.sort_by_key(|(_, _, len)| std::cmp::Reverse(*len));
        all
    }

    /// ARP that comes in by the classifier `name`: what asks the host, or answers it, is for the host alone.
    pub fn write_arp(&self, t: &mut ClickText, name: &str) {
        let mut patterns: Vec<String> = Vec::new();
        for (_, a, _) in self.networks(false) {
            let IpAddr::V4(a) = a else { continue };
            // its target protocol address
            let pattern = format!("38/{:08x}", u32::from(a));
            if !patterns.contains(&pattern) {
                patterns.push(pattern);
            }
        }
        let n = patterns.len();
        patterns.push("-".into());
        let arp = format!("{name}_arp");
        t.line(format!(
            "{name}[2] -> {arp} :: Classifier({});",
            patterns.join(", ")
        ));
        for k in 0..n {
            t.line(format!("{arp}[{k}] -> local_out;"));
        }
        t.line(format!("{arp}[{n}] -> {name}_out;"));
    }

    /// What enters at port 2.
    pub fn write(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        (v4, v6): (&Lists, Option<&Lists>),
        (frames, arp, other): (&str, Verdict, Verdict),
    ) {
        t.line(format!("FromDevice({PORT}) -> host :: {frames};"));
        v4.write_host(t, cx);
        let mut rest = |output: usize, v: Verdict, reason: &str| {
            let to = match v {
                Verdict::Allow => "up_out".to_string(),
                Verdict::Deny => discard(reason),
            };
            t.line(format!("host[{output}] -> {to};"));
        };
        if arp == Verdict::Deny {
            rest(2, arp, NO_ARP);
        }
        match other {
            Verdict::Allow => rest(3, other, NOT_IP),
            Verdict::Deny => {
                rest(3, other, VLAN_TAGGED);
                rest(4, other, NOT_IP);
            }
        }
        if v6.is_none() {
            rest(1, other, NO_RULES6);
        }
        if let Some(v6) = v6 {
            v6.write_host(t, cx);
        }
        if arp == Verdict::Allow {
            self.write_own_arp(t);
        }
    }

    /// ARP of the host goes to the port whose network its target is in.
    fn write_own_arp(&self, t: &mut ClickText) {
        let (mut patterns, mut ports) = (Vec::new(), Vec::new());
        for (port, a, len) in self.networks(false) {
            let IpAddr::V4(a) = a else { continue };
            let hosts = u32::MAX.checked_shr(len.into()).unwrap_or(0);
            let net = u32::from(a) & !hosts;
            patterns.push(format!("38/{net:08x}%{:08x}", !hosts));
            ports.push(port);
        }
        patterns.push("-".into());
        ports.push(1);
        t.line(format!(
            "host[2] -> host_arp :: Classifier({});",
            patterns.join(", ")
        ));
        for (k, port) in ports.iter().enumerate() {
            t.line(format!("host_arp[{k}] -> {};", out(*port == 0)));
        }
    }
}

/// The element at port 0 (`down`) or port 1.
fn out(down: bool) -> &'static str {
    if down { "down_out" } else { "up_out" }
}

/// The way to the host that begins as another one.
fn input(way: &Passage<'_>) -> Passage<'static> {
    Passage {
        name: if way.down { "down_input" } else { "up_input" },
        down: way.down,
        only: None,
        out: "local_out",
    }
}

/// The host's ways, by the port that they lead to.
const WAYS: [Passage<'static>; 2] = [
    Passage {
        name: "host_down",
        down: true,
        only: None,
        out: "down_out",
    },
    Passage {
        name: "host_up",
        down: false,
        only: None,
        out: "up_out",
    },
];

/// The way to the host itself, and back.
const ITSELF: Passage<'static> = Passage {
    name: "host_self",
    down: false,
    only: None,
    out: "",
};
const AGAIN: Passage<'static> = Passage {
    name: "self_input",
    down: false,
    only: None,
    out: "local_out",
};

impl HostLists {
    pub fn new(lines: [Lines; 4], six: bool, host: &Host) -> HostLists {
        let [input, output, loop_out, loop_in] = lines;
        // what leaves is of the connections that come in, whichever of both asks about them
        let (input, output) = (Lists::of(input, six, false), Lists::of(output, six, false));
        let tracked = !input.groups.is_empty() || !output.groups.is_empty();
        let networks = host.networks(six).into_iter();
        HostLists {
            input: Box::new(Lists::of(input.lines, six, tracked)),
            output: Box::new(Lists::of(output.lines, six, tracked)),
            loop_out: Box::new(Lists::of(loop_out, six, tracked)),
            loop_in: Box::new(Lists::again(loop_in, six)),
            own: host.own(six),
            loops: host.loops(six),
            networks: networks
                .map(|(port, a, len)| (port, format!("dst net {a}/{len}")))
                .collect(),
        }
    }

    /// Of what comes to the host, and of what leaves it.
    pub fn lines(&self) -> [&Lines; 4] {
        [&self.input, &self.output, &self.loop_out, &self.loop_in].map(|l| &l.lines)
    }

    pub fn tracks(&self) -> bool {
        !self.input.groups.is_empty()
    }

    /// Tests for packets to the host.
    pub fn own(&self) -> &Vec<String> {
        &self.own
    }

    /// Takes the host's packets out of a way, to chains INPUT; gives back where the others leave.
    pub fn write_own(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        from: String,
    ) -> String {
        if self.own.is_empty() {
            return from;
        }
        let (class, six) = match self.input.six {
            false => ("IPClassifier", ""),
            true => ("IP6Classifier", "6"),
        };
        let own = format!("{}_own{six}", way.name);
        t.line(format!(
            "{from} -> {own} :: {class}({}, -);",
            self.own.join(" or ")
        ));
        self.input
            .write_from(t, cx, &input(way), format!("{own}[0]"));
        format!("{own}[1]")
    }

    /// The same where destinations have been translated.
    pub fn write_translated(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        from: &[String],
    ) {
        if let Some(nat) = &self.input.lines.nat {
            (self.input).write_behind(t, cx, &input(way), (from, nat), &Apart::default());
        }
    }

    /// Looks the port up that the host's packets leave by: outputs are ports; the third one is that of packets to the
    /// host itself.
    fn write_route(&self, t: &mut ClickText, from: &str, name: &str) {
        let (filter, _) = self.output.filter();
        let mut rules = vec![format!("2 {}", self.loops)];
        let networks = self.networks.iter();
        rules.extend(networks.map(|(port, net)| format!("{port} {net}")));
        rules.push("1 all".into());
        t.line(format!(
            "{from} -> {name} :: {filter}({});",
            rules.join(", ")
        ));
    }

    /// What the host has sent to itself comes in again, where connections have been tracked as it left.
    fn write_again(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        (name, way): (&str, &Passage<'_>),
    ) {
        let lists = &self.loop_in;
        let (_, six) = lists.filter();
        let all = universe(true);
        let outputs: Vec<String> = (lists.groups.iter())
            .map(|g| classes_text(&g.classes, &all))
            .collect();
        let from = (format!("{name} :: Strip(14)"), &[Hook::Raw][..]);
        let from = lists.write_stages(t, cx, way, from, None);
        let status = format!("{}_status{six}", way.name);
        t.line(format!(
            "{from} -> {status} :: ConnStatus(connections, {});",
            outputs.join(", ")
        ));
        let passed = format!("{}_passed{six}", way.name);
        t.line(format!("{passed} :: Unstrip(14) -> {};", way.out));
        for i in 0..lists.groups.len() {
            let from = (format!("{status}[{i}]"), &[Hook::Before][..]);
            let from = lists.write_group(t, cx, way, from, i);
            t.line(format!("{from} -> {passed};"));
        }
    }
}

impl Lists {
    /// The host's own packets, from the classifier of what enters at its port on.
    fn write_host(&self, t: &mut ClickText, cx: &mut KindCx<'_>) {
        let Some(host) = &self.host else { return };
        let (_, six) = self.filter();
        let (check, input) = self.check();
        let route = format!("host_route{six}");
        let first = self.lines.marks.first();
        let from = format!("host[{input}] -> Strip(14) -> {check}{first}");
        host.write_route(t, &from, &route);
        let Some(nat) = &host.output.lines.nat else {
            for (port, way) in WAYS.iter().enumerate() {
                host.output
                    .write_from(t, cx, way, format!("{route}[{port}]"));
            }
            // nobody has sent it back: it would not have left the host
            t.line(format!("{route}[2] -> {};", discard(LOOPBACK)));
            return;
        };
        let back = format!("self_in{six}");
        host.write_again(t, cx, (&back, &AGAIN));
        let itself = Passage {
            out: &back,
            ..ITSELF
        };
        let [down, up] = &WAYS;
        let output = (&host.output, nat);
        let looped = (
            &host.loop_out,
            host.loop_out.lines.nat.as_ref().unwrap_or(nat),
        );
        let ways = [(down, output), (up, output), (&itself, looped)];
        let mut again = Vec::new();
        for (port, (way, (lists, nat))) in ways.iter().enumerate() {
            let from = (format!("{route}[{port}]"), &[Hook::Raw][..]);
            let from = lists.write_stages(t, cx, way, from, None);
            let from = lists
                .write_front(t, cx, way, (from, nat), &Apart::default())
                .all;
            let name = format!("{}_route{six}", way.name);
            host.write_route(t, &from, &name);
            again.push(name);
        }
        for (port, (way, (lists, nat))) in ways.iter().enumerate() {
            let from: Vec<String> = again.iter().map(|n| format!("{n}[{port}]")).collect();
            lists.write_behind(t, cx, way, (&from, nat), &Apart::default());
        }
    }
}
