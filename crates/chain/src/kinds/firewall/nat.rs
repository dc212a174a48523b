//! Rulesets that translate addresses: the elements of one way, in the order of netfilter's hooks.
//!
//! Packets are tracked; first packets are asked about by the rules of nat PREROUTING, and all get the destination that
//! their connection says (ConnDstNat), but first packets that keep theirs where there are no such rules. Who is then
//! for the host itself leaves the way ([`super::local`]). Then come the rules of filter FORWARD, a list for each group
//! of connections as without translation; then those of nat POSTROUTING for first packets, the source (ConnSrcNat), and
//! ConnConfirm (of first packets that have a way of their own, ConnSrcNat with `CONFIRM`).

use super::lists::{Lists, Passage};
use super::sections::{Begin, Exits, LineList};
use super::{Asking, Firewall, Line};
use crate::import::nat::{self, NatRule, NatRules};
use crate::import::{Hook, Way};
use crate::kinds::connections::{Group, asks, groups, universe};
use crate::kinds::{ClickText, KindCx, discard};
use crate::rules;
use onefold_click::source::Span;
use onefold_elements::connection::{ConnClass, ConnState, classes_text};
use std::net::IpAddr;

/// Of packets that no rule of a chain INPUT is asked about.
const LOCAL: &str = "for the router itself: chain INPUT is not run";
/// Of packets that come in and would go out at the same port.
const TURNS: &str = "its new destination is where it came from";

/// The router's own addresses at both ports, with the lengths of their prefixes.
pub(crate) struct OwnAddresses([Vec<(IpAddr, u8)>; 2]);

impl OwnAddresses {
    /// All addresses.
    pub fn all(&self) -> Vec<IpAddr> {
        self.0.iter().flatten().map(|(a, _)| *a).collect()
    }
    /// All, by port, without the lengths of prefixes.
    pub fn at(&self) -> [Vec<IpAddr>; 2] {
        [0, 1].map(|p| self.0[p].iter().map(|(a, _)| *a).collect())
    }
    /// All, by port.
    pub fn by_port(self) -> [Vec<(IpAddr, u8)>; 2] {
        self.0
    }
    /// The main one of a port.
    fn main(&self, port: usize, six: bool) -> Option<IpAddr> {
        let mut of = self.0[port].iter().map(|(a, _)| *a);
        of.find(|a| a.is_ipv6() == six)
    }
}

/// The rules of one hook and way: a line for each, and the ranges that they name, by number from 1.
#[derive(Debug, Clone, Default)]
struct NatList {
    lines: LineList,
    ranges: Vec<String>,
}

/// What becomes of addresses, for both ways.
#[derive(Debug, Clone)]
pub(super) struct Translation {
    /// By way: of destinations, of sources.
    hooks: [[NatList; 2]; 2],
    /// Tests for the router's own addresses, nothing if they are not known; for the networks of each port.
    local: Vec<String>,
    networks: [Vec<String>; 2],
}

impl Firewall {
    /// The addresses of both ports; what is wrong with them is said.
    pub(crate) fn own(&self, cx: &mut KindCx<'_>) -> OwnAddresses {
        let mut read = |list: &[crate::file::Loc<String>]| {
            let mut out = Vec::new();
            for l in list {
                let (a, n) = l.value.split_once('/').unwrap_or((&l.value, ""));
                let address = a.trim().parse::<IpAddr>().ok();
                let most = if address.is_some_and(|a| a.is_ipv6()) {
                    128
                } else {
                    32
                };
                let len = match n.is_empty() {
                    true => Some(most),
                    false => n.trim().parse::<u8>().ok().filter(|n| *n <= most),
                };
                match address.zip(len) {
                    Some(found) => out.push(found),
                    None => cx.error(
                        l,
                        format!(
                            "expected an address such as 192.168.1.1/24, found '{}'",
                            l.value
                        ),
                    ),
                }
            }
            out
        };
        OwnAddresses([read(&self.addresses.inside), read(&self.addresses.outside)])
    }
}

impl Translation {
    /// The lists of rules.
    pub fn lists(&self) -> impl Iterator<Item = &LineList> {
        self.hooks.iter().flatten().map(|l| &l.lines)
    }

    /// Of the rules of a file, which are about IPv6 if `six`; what is wrong with them is said.
    pub fn of(
        own: &OwnAddresses,
        cx: &mut KindCx<'_>,
        (rules, six): (&NatRules, bool),
        (file, written, span): (&str, &rules::Lines<'_>, Span),
    ) -> Option<Translation> {
        if cx.reader.share.workers > 1 {
            let text = format!(
                "{}: rules that translate addresses run on one worker",
                cx.name
            );
            cx.reader.error_hint(span, text, "give one worker");
            return None;
        }
        let hooks = [Way::Up, Way::Down].map(|way| {
            let out = usize::from(way == Way::Up);
            let ends = (own.main(1 - out, six), own.main(out, six));
            let place = (file, written, span);
            rules.of(way).map(|list| hook(cx, list, ends, place))
        });
        let of_family =
            |list: &[(IpAddr, u8)], text: &dyn Fn(&(IpAddr, u8)) -> String| -> Vec<String> {
                let same = list.iter().filter(|(a, _)| a.is_ipv6() == six);
                same.map(text).collect()
            };
        let both = own.0.concat();
        Some(Translation {
            hooks,
            local: of_family(&both, &|(a, _)| format!("dst host {a}")),
            networks: [0, 1].map(|p| of_family(&own.0[p], &|(a, n)| format!("dst net {a}/{n}"))),
        })
    }
}

fn hook(
    cx: &mut KindCx<'_>,
    (rules, sections): nat::NatList<'_>,
    own: (Option<IpAddr>, Option<IpAddr>),
    (file, written, span): (&str, &rules::Lines<'_>, Span),
) -> NatList {
    let mut ranges: Vec<String> = Vec::new();
    let mut errors: Vec<String> = Vec::new();
    // a rule stands in several sections
    let often = !sections.more.is_empty();
    let mut output = |r: &NatRule| match r.target.range(own) {
        Ok(None) => 0,
        Ok(Some(range)) => {
            let found = ranges.iter().position(|r| often && *r == range);
            found.unwrap_or_else(|| {
                ranges.push(range);
                ranges.len() - 1
            }) + 1
        }
        Err(why) => {
            errors.push(format!("{}: {file}:{}: {why}", cx.name, r.line));
            0
        }
    };
    let mut line = |r: &NatRule| Line {
        text: format!("{} {}", output(r), r.filter),
        file: file.to_string(),
        line: r.line,
        written: written
            .text(r.line)
            .unwrap_or_else(|| rules::shown(&r.filter)),
        policy: false,
        place: r.place.clone(),
        onward: r.onward.clone(),
    };
    let l = cx.reader.sources.locate(span);
    let last = Line {
        text: "0 all".into(),
        file: l.file,
        line: l.line,
        written: "policy: addresses stay".into(),
        policy: true,
        place: None,
        onward: None,
    };
    let some = !rules.is_empty() || often;
    let lines = LineList::of(rules, sections, &mut line, some.then_some(&last));
    for e in errors {
        cx.reader.error(span, e);
    }
    NatList { lines, ranges }
}

impl NatList {
    /// Writes the rules and the element that translates, with `more` arguments; first packets come from `first`, all
    /// others from `others`.
    fn write(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        (class, six, more): (&str, bool, &str),
        name: &str,
        (first, others): (&[String], &[String]),
    ) {
        let filter = if six { "IP6Filter" } else { "IPFilter" };
        let ranges: String = self.ranges.iter().map(|r| format!(", {r}")).collect();
        t.line(format!("{name} :: {class}(connections{ranges}{more});"));
        for from in others {
            t.line(format!("{from} -> [0]{name};"));
        }
        if self.lines.lines.is_empty() {
            for from in first {
                t.line(format!("{from} -> [0]{name};"));
            }
            return;
        }
        let element = format!("{name}_rules");
        // what is done on the way back in the place of rules is no translation
        let begin = Begin {
            from: first,
            element: &element,
            filter,
        };
        let exits = Exits::Inputs(name, self.ranges.len() + 1);
        self.lines.write(t, cx, begin, exits);
    }
}

/// Groups whose packets have a way of their own, by number.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Apart {
    /// Of established connections.
    pub known: Option<usize>,
    /// Of first packets.
    pub first: Option<usize>,
}

/// Where packets leave that have their new destination.
pub(super) struct Front {
    /// First packets; all that are not `known` where they have no way of their own.
    pub all: String,
    /// Those of established connections.
    pub known: Option<String>,
    /// All others, where first packets have a way of their own.
    pub others: Option<String>,
}

impl Lists {
    /// What packets of this family go through where addresses are translated.
    pub(super) fn write_translated(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        (from, nat): (String, &Translation),
    ) {
        let apart = Apart {
            known: self.known(),
            first: self.first(),
        };
        let front = self.write_front(t, cx, way, (from, nat), &apart);
        let route = format!("{}_route", way.name);
        let (routed, own) = self.write_route(t, &front.all, &route, (way, nat));
        let mut all_own: Vec<String> = own.into_iter().collect();
        match apart.first {
            None => self.write_behind(t, cx, way, (&[routed], nat), &apart),
            Some(i) => self.write_first(t, cx, way, (routed, nat), i),
        }
        if let Some(from) = front.others {
            let route = format!("{}_other_route", way.name);
            let (routed, own) = self.write_route(t, &from, &route, (way, nat));
            all_own.extend(own);
            self.write_others(t, cx, way, routed, &apart);
        }
        if let (Some(i), Some(from)) = (apart.known, front.known) {
            let route = format!("{}_known_route", way.name);
            let (routed, own) = self.write_route(t, &from, &route, (way, nat));
            all_own.extend(own);
            self.write_known(t, cx, way, (routed, i));
        }
        if let Some(host) = self.host.as_ref().filter(|_| !all_own.is_empty()) {
            host.write_translated(t, cx, way, &all_own);
        }
    }

    /// The group of first packets, by number, if they have a way of their own: as [`Lists::known`], and no rule asks
    /// whether their destination is translated. What they are to their connection is known at the tracker then.
    fn first(&self) -> Option<usize> {
        self.known()?;
        let begin = self.groups.iter().enumerate().filter(|(_, g)| g.begins);
        match begin.map(|(i, _)| i).collect::<Vec<_>>()[..] {
            [one] => Some(one),
            _ => None,
        }
    }

    /// The group of established connections, by number, if its packets have a way of their own: no rule is asked about
    /// them in front of the new destination, and that does not change what rules know of them. Only the tracker is
    /// asked on that way, once, so that a flow's packets can be translated without asking anybody.
    fn known(&self) -> Option<usize> {
        let asked_before = (self.lines.stages.iter()).any(|s| s.hook == Hook::Prerouting);
        let first = self.groups.first().filter(|g| !g.begins && !asked_before)?;
        let established = |c: &ConnClass| c.state == ConnState::Established;
        first.classes.iter().any(established).then_some(0)
    }

    /// From tracking to the new destination; gives back where packets leave.
    pub(super) fn write_front(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        (from, nat): (String, &Translation),
        apart: &Apart,
    ) -> Front {
        let (_, six) = self.filter();
        let name = way.name;
        let [dst, _] = &nat.hooks[usize::from(way.down)];
        let all = universe(true);
        let known = apart.known.and_then(|i| self.groups.get(i));
        let is_known = |c: &ConnClass| known.is_some_and(|g| g.classes.contains(c));
        let mut early = self.early();
        for g in &mut early {
            g.classes.retain(|c| !is_known(c));
        }
        early.retain(|g| !g.classes.is_empty());
        let outputs: Vec<String> = known
            .into_iter()
            .chain(&early)
            .map(|g| classes_text(&g.classes, &all))
            .collect();
        let state = format!("{name}_state{six}");
        self.write_tracker(t, way, (from, &state), &outputs);
        let (mut first, mut others) = (Vec::new(), Vec::new());
        let behind = usize::from(known.is_some());
        for (i, g) in early.iter().enumerate() {
            let from = (format!("{state}[{}]", i + behind), &[Hook::Prerouting][..]);
            let from = self.write_stages(t, cx, way, from, Some((&early, i)));
            match g.begins {
                true => first.push(from),
                false => others.push(from),
            }
        }
        let mut from_others = None;
        if apart.first.is_some() {
            let dnat = format!("{name}_other_dnat{six}");
            for from in std::mem::take(&mut others) {
                if from_others.is_none() {
                    t.line(format!("{dnat} :: ConnDstNat(connections);"));
                    from_others = Some(dnat.clone());
                }
                t.line(format!("{from} -> {dnat};"));
            }
        }
        let dnat = format!("{name}_dnat{six}");
        let kept = match apart.first {
            Some(_) => self.write_kept(t, name, dst, &mut first),
            None => None,
        };
        dst.write(
            t,
            cx,
            ("ConnDstNat", self.six, ""),
            &dnat,
            (&first, &others),
        );
        let all = match kept {
            None => dnat,
            Some(kept) => {
                t.line(format!("{dnat} -> {kept};"));
                kept
            }
        };
        let from_known = known.map(|_| {
            let dnat = format!("{name}_known_dnat{six}");
            t.line(format!("{state}[0] -> {dnat} :: ConnDstNat(connections);"));
            dnat
        });
        Front {
            all,
            known: from_known,
            others: from_others,
        }
    }

    /// Where no rule is asked about destinations, first packets of TCP and UDP keep theirs, whatever other connections
    /// have (as ConnDstNat does it: who sends to a port means that port), and go past it, so that what follows goes by
    /// fields as they have come. Those that do not stay in `first`; gives back where all go on.
    fn write_kept(
        &self,
        t: &mut ClickText,
        name: &str,
        dst: &NatList,
        first: &mut [String],
    ) -> Option<String> {
        if self.six || !dst.lines.lines.is_empty() || first.is_empty() {
            return None;
        }
        let kept = format!("{name}_kept");
        t.line(format!("{kept} :: Null;"));
        for (i, from) in first.iter_mut().enumerate() {
            let whole = format!("{name}_whole{i}");
            t.line(format!(
                "{from} -> {whole} :: IPClassifier((tcp or udp) and ip unfrag, -);"
            ));
            t.line(format!("{whole}[0] -> {kept};"));
            *from = format!("{whole}[1]");
        }
        Some(kept)
    }

    /// What first packets go through behind their new destination, where they are alone.
    fn write_first(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        (from, nat): (String, &Translation),
        number: usize,
    ) {
        let (_, six) = self.filter();
        let [_, src] = &nat.hooks[usize::from(way.down)];
        let from = self.write_group(t, cx, way, (from, &[Hook::Before]), number);
        let snat = format!("{}_snat{six}", way.name);
        let class = ("ConnSrcNat", self.six, ", CONFIRM true");
        src.write(t, cx, class, &snat, (&[from], &[]));
        t.line(format!("{snat} -> Unstrip(14) -> {};", way.out));
    }

    /// What packets go through behind their destination that neither begin a connection nor are of an established one.
    fn write_others(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        from: String,
        apart: &Apart,
    ) {
        let (_, six) = self.filter();
        let snat = format!("{}_other_snat{six}", way.name);
        t.line(format!("{snat} :: ConnSrcNat(connections);"));
        for (from, _) in self.write_status(t, cx, way, &[from], apart) {
            t.line(format!("{from} -> {snat};"));
        }
        t.line(format!("{snat} -> Unstrip(14) -> {};", way.out));
    }

    /// What packets of established connections go through behind their new destination.
    fn write_known(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        (from, number): (String, usize),
    ) {
        let (_, six) = self.filter();
        let from = self.write_group(t, cx, way, (from, &[Hook::Before]), number);
        t.line(format!(
            "{from} -> {}_known_snat{six} :: ConnSrcNat(connections) -> Unstrip(14) -> {};",
            way.name, way.out
        ));
    }

    /// From where it is known where packets go to the new source, and out; those that are `apart` have ways of their
    /// own.
    pub(super) fn write_behind(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        (from, nat): (&[String], &Translation),
        apart: &Apart,
    ) {
        let (_, six) = self.filter();
        let [_, src] = &nat.hooks[usize::from(way.down)];
        let groups = self.write_status(t, cx, way, from, apart);
        let of = |begins: bool| -> Vec<String> {
            let of = groups.iter().filter(|g| g.1 == begins);
            of.map(|g| g.0.clone()).collect()
        };
        let snat = format!("{}_snat{six}", way.name);
        let from = (&of(true)[..], &of(false)[..]);
        src.write(t, cx, ("ConnSrcNat", self.six, ""), &snat, from);
        t.line(format!(
            "{snat} -> ConnConfirm(connections) -> Unstrip(14) -> {};",
            way.out
        ));
    }

    /// Tells packets by what they are to their connections, and asks each group's rules, but those `apart`; gives back
    /// where the groups leave, and whether they begin connections.
    fn write_status(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        from: &[String],
        apart: &Apart,
    ) -> Vec<(String, bool)> {
        let (_, six) = self.filter();
        let all = universe(true);
        let status = format!("{}_status{six}", way.name);
        let here = self.groups.iter().enumerate();
        let is_apart = |i: usize| apart.known == Some(i) || apart.first == Some(i);
        let here: Vec<_> = here.filter(|(i, _)| !is_apart(*i)).collect();
        let outputs: Vec<String> = (here.iter())
            .map(|(_, g)| classes_text(&g.classes, &all))
            .collect();
        t.line(format!(
            "{status} :: ConnStatus(connections, {});",
            outputs.join(", ")
        ));
        for from in from {
            t.line(format!("{from} -> {status};"));
        }
        let mut out = Vec::new();
        for (output, (i, g)) in here.into_iter().enumerate() {
            let from = (format!("{status}[{output}]"), &[Hook::Before][..]);
            out.push((self.write_group(t, cx, way, from, i), g.begins));
        }
        out
    }

    /// What is told apart before destinations are translated: first packets from others, and what rules of tables
    /// mangle ask about.
    fn early(&self) -> Vec<Group> {
        let stages = self.lines.stages.iter();
        let here = stages.filter(|s| s.hook == Hook::Prerouting);
        let lines = here.flat_map(|s| s.up.all().chain(s.down.iter().flat_map(LineList::all)));
        let asking: Vec<Asking> = lines.filter(|l| asks(&l.text)).map(Line::asking).collect();
        groups(&asking.iter().collect::<Vec<_>>(), true)
    }

    /// What a router's routes would do with packets that are for itself or for where they came from; gives back where
    /// the others leave, and where those for itself do, if there is a host.
    fn write_route(
        &self,
        t: &mut ClickText,
        from: &str,
        route: &str,
        (way, nat): (&Passage<'_>, &Translation),
    ) -> (String, Option<String>) {
        let back = &nat.networks[usize::from(way.down)];
        if nat.local.is_empty() {
            return (from.to_string(), None);
        }
        let (class, six) = match self.six {
            false => ("IPClassifier", ""),
            true => ("IP6Classifier", "6"),
        };
        let route = format!("{route}{six}");
        let local = match &self.host {
            Some(host) => host.own(),
            None => &nat.local,
        };
        let local = local.join(" or ");
        // where no address of the port is known, nothing turns back
        let turns = match back.is_empty() {
            true => String::new(),
            false => format!("{}, ", back.join(" or ")),
        };
        t.line(format!("{from} -> {route} :: {class}({local}, {turns}-);"));
        if self.host.is_none() {
            t.line(format!("{route}[0] -> {};", discard(LOCAL)));
        }
        if !back.is_empty() {
            t.line(format!("{route}[1] -> {};", discard(TURNS)));
        }
        let own = self.host.as_ref().map(|_| format!("{route}[0]"));
        let output = 1 + usize::from(!back.is_empty());
        (format!("{route}[{output}]"), own)
    }
}
