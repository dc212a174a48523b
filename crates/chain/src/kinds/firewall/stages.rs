//! Chains beside FORWARD that forwarded packets pass, as lists one behind the other; each is told by class as the main
//! one is.

use super::lists::{Lists, Passage};
use super::{Line, LineList};
use crate::import::Hook;
use crate::kinds::connections::{Answered, Group};
use crate::kinds::{ClickText, KindCx};

/// A chain beside the one that forwarded packets are filtered by.
pub(super) struct StageLines {
    pub hook: Hook,
    pub up: LineList,
    /// The same if `None`.
    pub down: Option<LineList>,
}

impl StageLines {
    /// The lists of both ways.
    pub fn both(&self) -> impl Iterator<Item = &LineList> {
        [&self.up].into_iter().chain(&self.down)
    }
    fn of(&self, down: bool) -> &LineList {
        match (&self.down, down) {
            (Some(d), true) => d,
            _ => &self.up,
        }
    }
}

impl Lists {
    /// The lists of some hooks, one behind the other; gives back where packets leave that all let pass. Of one of some
    /// groups of connections, with questions about them answered.
    pub(super) fn write_stages(
        &self,
        t: &mut ClickText,
        cx: &mut KindCx<'_>,
        way: &Passage<'_>,
        (mut from, hooks): (String, &[Hook]),
        group: Option<(&[Group], usize)>,
    ) -> String {
        let (_, six) = self.filter();
        let here = self.lines.stages.iter().zip(1..);
        for (s, n) in here.filter(|(s, _)| way.only.is_none() && hooks.contains(&s.hook)) {
            let mut element = format!("{}_{}{n}{six}", way.name, s.hook.name());
            if let Some((groups, i)) = group {
                let name = groups.get(i).map_or("", |g| g.name.as_str());
                element = format!("{element}_{name}");
            }
            from = self.write_list(t, cx, way, (from, element), s.of(way.down), group);
        }
        from
    }
}

/// Lines for each group, with questions about connections answered. A rule that takes no packet of a group is not in
/// its list; one that takes none of any is in the last one, so that it is shown. What stands behind a rule that takes
/// everything is left out but where lists are to be `whole`.
pub(super) fn for_groups(
    lines: &[Line],
    groups: &[Group],
    (six, whole): (bool, bool),
) -> Vec<Vec<Line>> {
    let mut listed = vec![false; lines.len()];
    let mut out = Vec::new();
    for (number, g) in groups.iter().enumerate() {
        let last = number + 1 == groups.len();
        let (mut list, mut closed) = (Vec::new(), false);
        for (l, listed) in lines.iter().zip(&mut listed) {
            let answered = match g.classes.first() {
                _ if closed => Answered::Always(false),
                Some(class) => l.asking().answered(*class, six),
                None => Answered::Always(false),
            };
            let filter = match answered {
                Answered::Left(text) => text,
                Answered::Always(true) => "all".to_string(),
                Answered::Always(false) if l.policy => "all".to_string(),
                Answered::Always(false) if last && !*listed => "false".to_string(),
                Answered::Always(false) => continue,
            };
            closed |= filter == "all" && !whole;
            *listed = true;
            list.push(Line {
                text: format!("{} {filter}", l.verdict()),
                ..l.clone()
            });
        }
        out.push(list);
    }
    out
}
