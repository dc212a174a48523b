//! Lists of rules as elements: one for each chain and, where rules ask about connections, for each group of these.

use super::local::{Host, HostLists};
use super::sections::{Begin, Exits, LineList};
use super::{Line, Lines};
use crate::import::Hook;
use crate::kinds::connections::{Asking, Group, asks, groups, universe};
use crate::kinds::{ClickText, KindCx};
use crate::rules::ListedRule;
use onefold_elements::connection::classes_text;

/// A way through the function: the prefix of its elements' names, whether it is the one from port 1, and what is done
/// there in the place of rules.
pub(super) struct Passage<'a> {
    pub name: &'a str,
    pub down: bool,
    pub only: Option<&'a str>,
    /// The element that packets leave by.
    pub out: &'a str,
}

/// The lists of rules of a family.
pub(super) struct Lists {
    pub lines: Lines,
    pub six: bool,
    /// Which connections they tell apart; nothing if they do not ask about any.
    pub groups: Vec<Group>,
    /// Those of the host's packets.
    pub host: Option<HostLists>,
}

impl Lists {
    pub(super) fn new(mut lines: Lines, six: bool, host: Option<&Host>) -> Lists {
        let own = lines.host.take();
        let mut lists = Lists::of(lines, six, false);
        lists.host = own.zip(host).map(|(own, h)| HostLists::new(*own, six, h));
        lists
    }

    /// `tracked`: connections are tracked, whether these lists ask about them or not.
    pub(super) fn of(lines: Lines, six: bool, tracked: bool) -> Lists {
        // what is asked before destinations are translated is told apart there
        let translated = lines.nat.is_some();
        let here = lines.stages.iter().filter(|s| match s.hook {
            Hook::Raw => false,
            Hook::Prerouting => !translated,
            Hook::Before | Hook::Behind => true,
        });
        let here = here.flat_map(|s| s.both());
        let all = [&lines.up].into_iter().chain(&lines.down).chain(here);
        let all = all.flat_map(LineList::all);
        let tracked = tracked || lines.all().any(LineList::marks_connections);
        let asking: Vec<Asking> = all.filter(|l| asks(&l.text)).map(Line::asking).collect();
        let of: Vec<&Asking> = asking.iter().collect();
        Lists {
            groups: match of.is_empty() && !translated && !tracked {
                true => Vec::new(),
                false => groups(&of, translated),
            },
            lines,
            six,
            host: None,
        }
    }

    /// Of packets that have been tracked, and translated, before: all that is asked is asked by their class then.
    pub(super) fn again(mut lines: Lines, six: bool) -> Lists {
        for s in &mut lines.stages {
            if s.hook == Hook::Prerouting {
                s.hook = Hook::Before;
            }
        }
        let translates = lines.nat.is_some();
        Lists::of(lines, six, translates)
    }

    /// Do they, or those of the host, ask about connections?
    pub(super) fn tracks(&self) -> bool {
        !self.groups.is_empty() || self.host.as_ref().is_some_and(HostLists::tracks)
    }

    /// What packets of this family go through, from the classifier to the device.
    pub(super) fn write(&self, t: &mut ClickText, cx: &mut KindCx<'_>, way: &Passage<'_>) {
        let (check, input) = self.check();
        let first = self.lines.marks.first();
        let from = format!("{}[{input}] -> Strip(14) -> {check}{first}", way.name);
        let from = match &self.host {
            // where destinations are translated, it is known behind that who is for the host
            Some(host) if self.lines.nat.is_none() => host.write_own(t, cx, way, from),
            _ => from,
        };
        self.write_from(t, cx, way, from);
    }

    /// The same from the header check on.
    pub(super) fn write_from(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        from: String,
    ) {
        let (_, six) = self.filter();
        let (name, out) = (way.name, way.out);
        let from = self.write_stages(t, cx, way, (from, &[Hook::Raw]), None);
        if self.groups.is_empty() {
            let hooks = [Hook::Prerouting, Hook::Before];
            let from = self.write_stages(t, cx, way, (from, &hooks), None);
            let element = format!("{name}_rules{six}");
            let lines = self.lines.of(way.down);
            let from = self.write_list(t, cx, way, (from, element), lines, None);
            let from = self.write_stages(t, cx, way, (from, &[Hook::Behind]), None);
            t.line(format!("{from} -> Unstrip(14) -> {out};"));
            return;
        }
        if let Some(nat) = &self.lines.nat {
            self.write_translated(t, cx, way, (from, nat));
            return;
        }
        let outputs: Vec<String> = (self.groups.iter())
            .map(|g| classes_text(&g.classes, &universe(false)))
            .collect();
        let state = format!("{name}_state{six}");
        self.write_tracker(t, way, (from, &state), &outputs);
        t.line(format!("{name}_passed{six} :: Unstrip(14) -> {out};"));
        for i in 0..self.groups.len() {
            let from = format!("{state}[{i}]");
            let hooks = [Hook::Prerouting, Hook::Before];
            let from = self.write_group(t, cx, way, (from, &hooks), i);
            let confirm = match self.groups.get(i) {
                Some(g) if g.begins => "ConnConfirm(connections) -> ",
                _ => "",
            };
            t.line(format!("{from} -> {confirm}{name}_passed{six};"));
        }
    }

    /// The lists that packets of a group pass, with `before` in front of the chain that they are filtered by; gives
    /// back where they leave.
    pub(super) fn write_group(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        (from, before): (String, &[Hook]),
        number: usize,
    ) -> String {
        let (_, six) = self.filter();
        let groups = Some((self.groups.as_slice(), number));
        let from = self.write_stages(t, cx, way, (from, before), groups);
        let name = self.groups.get(number).map_or("", |g| g.name.as_str());
        let element = format!("{}_rules{six}_{name}", way.name);
        let lines = self.lines.of(way.down);
        let from = self.write_list(t, cx, way, (from, element), lines, groups);
        self.write_stages(t, cx, way, (from, &[Hook::Behind]), groups)
    }

    /// Writes a list, for a group or for all packets; gives back where those leave that it lets pass.
    pub(super) fn write_list(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        (from, element): (String, String),
        lines: &LineList,
        group: Option<(&[Group], usize)>,
    ) -> String {
        let (filter, _) = self.filter();
        let told;
        let lines = match group {
            None => lines,
            Some((groups, i)) => {
                told = lines.for_group(groups, i, (self.six, cx.reader.whole));
                &told
            }
        };
        if lines.is_plain() || way.only.is_some() {
            t.line(format!("{from} -> {element} :: {filter}("));
            list(t, cx, element.clone(), &lines.lines, way.only);
            t.line(");");
            return element;
        }
        let passed = format!("{element}_passed");
        t.line(format!("{passed} :: Null;"));
        let begin = Begin {
            from: &[from],
            element: &element,
            filter,
        };
        lines.write(t, cx, begin, Exits::One(&passed));
        passed
    }

    /// The element that checks headers, and the output of the classifier that packets come from.
    pub(super) fn check(&self) -> (&'static str, usize) {
        match self.six {
            false => ("CheckIPHeader", 0),
            true => ("CheckIP6Header", 1),
        }
    }

    /// The element that asks rules, and what names of elements end in.
    pub(super) fn filter(&self) -> (&'static str, &'static str) {
        match self.six {
            false => ("IPFilter", ""),
            true => ("IP6Filter", "6"),
        }
    }
}

/// Writes a list's arguments, and says which rules became them.
pub(super) fn list(
    t: &mut ClickText,
    cx: &mut KindCx<'_>,
    element: String,
    lines: &[Line],
    only: Option<&str>,
) {
    if let Some(all) = only {
        t.line(all);
        let back = match all.starts_with("deny") {
            true => "back: deny",
            false => "back: allow",
        };
        cx.rules.push(ListedRule {
            element,
            argument: 0,
            text: back.into(),
            policy: true,
            place: None,
        });
        return;
    }
    for (i, l) in lines.iter().enumerate() {
        let comma = if i + 1 < lines.len() { "," } else { "" };
        t.line_from(&l.file, l.line, format!("{}{comma}", l.text));
    }
    let rule = |(argument, l): (usize, &Line)| ListedRule {
        element: element.clone(),
        argument,
        text: l.written.clone(),
        policy: l.policy,
        place: l.place.clone(),
    };
    cx.rules.extend(lines.iter().enumerate().map(rule));
}
