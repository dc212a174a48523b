//! Changes of a running chain's rules, routes and servers, made without its file: what is added, removed or drained is
//! put into the chain file's functions when it is read again, so that nothing else knows of it.

use crate::error::Reader;
use crate::file::{ChainFile, Function, Loc};
use crate::import::{Route, click_list, parse_route};
use crate::kinds::load_balancer::{Server, end_of};
use onefold_click::source::{FileId, Span};

/// What a change is about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EditKind {
    /// A rule for IPv4 of a firewall.
    Rule,
    /// A route of a router.
    Route,
    /// A server of a load balancer.
    Backend,
}

/// What is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// It is added.
    Add,
    /// It is removed.
    Remove,
    /// A server gets no new flows.
    Drain,
    /// A server that was drained gets new flows again.
    Resume,
}

/// One change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Edit {
    /// What it is about.
    pub kind: EditKind,
    /// The function; the only one of its kind if not given.
    pub function: Option<String>,
    /// What is done with it.
    pub change: Change,
    /// As in the chain file. Of rules to be removed also the rule's number, from 1.
    pub text: String,
    /// Rules are added in front of the one with this number, from 1; in front of all if not given.
    pub at: Option<usize>,
}

/// A change of a list of rules or routes, as the function has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListEdit {
    pub add: bool,
    pub text: String,
    pub at: Option<usize>,
}

/// White space does not tell texts apart.
pub(crate) fn plain(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

impl ListEdit {
    /// Rules and routes are not drained.
    fn of(e: &Edit) -> Result<ListEdit, String> {
        let add = match e.change {
            Change::Add => true,
            Change::Remove => false,
            Change::Drain | Change::Resume => {
                return Err(
                    "servers of load balancers are drained and resumed, nothing else".into(),
                );
            }
        };
        Ok(ListEdit {
            add,
            text: e.text.clone(),
            at: e.at,
        })
    }

    /// Which of the rules with these texts is removed: that with the number, or the first with the text. A rule has
    /// several texts: as written, as read.
    pub fn finds<'a>(&self, rules: impl Iterator<Item = [&'a str; 2]>) -> Option<usize> {
        let wanted = plain(&self.text);
        let number = wanted.parse::<usize>().ok();
        for (i, texts) in rules.enumerate() {
            if number == Some(i + 1) || texts.iter().any(|t| plain(t) == wanted) {
                return Some(i);
            }
        }
        None
    }
}

/// What a rule says, checked: verdict and filter as [`click_list`] has them.
pub(crate) fn rule(text: &str) -> Result<(crate::import::Verdict, String), String> {
    click_list::parse_rule(text.trim())
}

/// Puts the changes into a chain file that has been read.
pub(crate) fn apply(doc: &mut ChainFile, edits: &[Edit], file: FileId, reader: &mut Reader) {
    for e in edits {
        let whole = Span::new(file, 0, 1);
        if let Err(why) = apply_one(doc, e) {
            reader.error(whole, why);
        }
    }
}

fn is_of(kind: EditKind, f: &Function) -> bool {
    match kind {
        EditKind::Rule => f.firewall.is_some(),
        EditKind::Route => f.router.is_some(),
        EditKind::Backend => f.load_balancer.is_some(),
    }
}

fn apply_one(doc: &mut ChainFile, e: &Edit) -> Result<(), String> {
    let (what, whose) = match e.kind {
        EditKind::Rule => ("rules", "firewall"),
        EditKind::Route => ("routes", "router"),
        EditKind::Backend => ("servers", "load balancer"),
    };
    let having: Vec<String> = (doc.functions.iter())
        .filter(|(_, f)| is_of(e.kind, &f.value) && f.value.repeat.is_none())
        .map(|(n, _)| n.clone())
        .collect();
    let list = having.join(", ");
    let name = match (&e.function, having.as_slice()) {
        (Some(name), all) if all.contains(name) => name.clone(),
        (Some(name), _) => {
            return Err(format!(
                "'{name}' is no {whose} whose {what} can be changed; there are: {list}"
            ));
        }
        (None, [only]) => only.clone(),
        (None, []) => {
            return Err(format!(
                "the chain has no {whose} whose {what} could be changed"
            ));
        }
        (None, _) => {
            return Err(format!(
                "several functions have {what}, say which one: {list}"
            ));
        }
    };
    let Some(f) = doc.functions.get_mut(&name) else {
        return Err(format!("'{name}' is no function"));
    };
    let (start, len) = (f.start, f.len);
    match (
        &mut f.value.firewall,
        &mut f.value.router,
        &mut f.value.load_balancer,
    ) {
        (Some(fw), ..) => {
            if e.change == Change::Add {
                rule(&e.text)?;
            }
            fw.edits.push(ListEdit::of(e)?);
        }
        (_, Some(router), _) => {
            parse_route(&e.text)?;
            router.edits.push(ListEdit::of(e)?);
        }
        (.., Some(lb)) => backend(&mut lb.servers, e, start, len)?,
        _ => {}
    }
    Ok(())
}

/// `ADDRESS`, `ADDRESS:PORT weight N`.
fn backend(servers: &mut Vec<Server>, e: &Edit, start: usize, len: usize) -> Result<(), String> {
    let mut words = e.text.split_whitespace();
    let form = || {
        format!(
            "expected ADDRESS[:PORT] or ADDRESS[:PORT] weight N (of IPv6 [ADDRESS]:PORT), found '{}'",
            e.text
        )
    };
    let named = words.next().ok_or_else(form)?;
    let (address, port) = end_of(named).ok_or_else(form)?;
    let weight = match (words.next(), words.next(), words.next()) {
        (None, ..) => None,
        (Some("weight"), Some(n), None) => Some(n.parse::<u32>().map_err(|_| form())?),
        _ => return Err(form()),
    };
    let same = |s: &Server| {
        s.address.value.parse() == Ok(address) && s.port.as_ref().map(|p| p.value) == port
    };
    let at = servers.iter().position(same);
    let found = at.and_then(|i| servers.get_mut(i));
    match (e.change, found) {
        (Change::Add, Some(_)) => return Err(format!("{named} is a server already")),
        (Change::Add, None) => servers.push(Server {
            address: Loc {
                value: address.to_string(),
                start,
                len,
            },
            port: port.map(|value| Loc { value, start, len }),
            weight: weight.map(|value| Loc { value, start, len }),
            drained: false,
        }),
        (_, None) => return Err(format!("{named} is no server")),
        (Change::Drain | Change::Resume, _) if weight.is_some() => {
            return Err(
                "a server that is drained or resumed keeps its weight: leave it out".into(),
            );
        }
        (Change::Drain, Some(s)) if s.weight() == 0 => {
            return Err(format!("{named} is drained already"));
        }
        (Change::Drain, Some(s)) => s.drained = true,
        (Change::Resume, Some(s)) if !s.drained => {
            return Err(match s.weight() {
                0 => format!("{named} has weight 0 in the chain's file: change it there"),
                _ => format!("{named} is not drained"),
            });
        }
        (Change::Resume, Some(s)) => s.drained = false,
        (Change::Remove, Some(_)) => drop(at.map(|i| servers.remove(i))),
    }
    Ok(())
}

/// Routes with the changes: one that is added takes the place of another to the same network.
pub(crate) fn routes(
    mut all: Vec<(Route, String, u32)>,
    edits: &[ListEdit],
    at: &(String, u32),
) -> Result<Vec<(Route, String, u32)>, String> {
    for e in edits {
        let r = parse_route(&e.text)?;
        let same_network = |q: &Route| (q.net, q.len) == (r.net, r.len);
        let found = all.iter().position(|(q, ..)| match e.add || r.is_bare() {
            true => same_network(q),
            false => *q == r,
        });
        match (e.add, found) {
            (true, found) => {
                let new = (r, at.0.clone(), at.1);
                match found.and_then(|i| all.get_mut(i)) {
                    Some(old) => *old = new,
                    None => all.push(new),
                }
            }
            (false, Some(i)) => drop(all.remove(i)),
            (false, None) => return Err(format!("there is no route '{}'", plain(&e.text))),
        }
    }
    Ok(all)
}
