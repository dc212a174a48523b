//! The lists of rules of a chain as filters: what IPFilter, IPClassifier, their IPv6 kin and Classifier ask, line by
//! line.
//!
//! What a list asks comes from its model, so that it is what proofs and programs speak of. Two things are different
//! here: rules behind one that takes everything are looked at, too (a model ends there), and so are later fragments,
//! which a model hands over. There are no ports in them, so that every test of the transport header fails: the list
//! with all such tests made false is a list of its own, with a model of its own.
//!
//! Positions are those of an Ethernet frame with an IP packet; where the list stands in the graph does not matter.

use super::align::{Lists, WORK, align};
use super::filters::FilterList;
use super::terms::{Place, terms};
use onefold_element::args::ArgScope;
use onefold_element::model::{Case, Cond, Exit, Model, ValueSet, field, max_of};
use onefold_element::{ConnectionSpec, ElementSpec, GraphSpec, NameDb};
use onefold_elements::filter::{self, Action, Check, Expr};
use onefold_engine::{BuildOptions, Graph};
use onefold_synth::program::{Dim, Filter};
use std::cell::Cell;

/// Most rules that take everything, behind each of which the list is looked at anew.
const MAX_ALWAYS: usize = 64;

/// What happens to a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ListOutcome {
    /// It leaves at this output.
    Output(usize),
    /// It is dropped.
    Drop,
    /// The element has to be asked.
    Unknown,
}

/// A line: one alternative of a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListLine {
    /// The argument; `None` for what happens to packets that no rule fits.
    pub argument: Option<usize>,
    /// What happens.
    pub fate: ListOutcome,
    /// The filter is exactly what the rule takes; else it is more than that.
    pub exact: bool,
}

/// Which packets a list is looked at for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum World {
    /// Packets with their transport header: whole ones, and first fragments.
    Whole,
    /// Later fragments.
    Fragments,
    /// Any frames: the list asks about bytes.
    Frames,
}

/// A list in one world.
#[derive(Debug, Clone)]
pub struct List {
    /// Which packets.
    pub world: World,
    /// Their filters.
    pub filters: FilterList,
    /// What the lines are.
    pub lines: Vec<ListLine>,
    /// The packets are IPv6's.
    pub six: bool,
}

/// Classes whose arguments are rules that can be looked at.
pub const CLASSES: &[&str] = &[
    "Classifier",
    "IP6Classifier",
    "IP6Filter",
    "IPClassifier",
    "IPFilter",
];

/// Why a list cannot be looked at.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListError {
    /// The element's class is not one of [`CLASSES`].
    #[error("{0} is no list of rules that can be looked at")]
    Class(String),
    /// Its rules are not understood.
    #[error("{0}")]
    Rules(String),
}

/// The worlds of a list of a graph, from its element's class and arguments.
///
/// # Errors
/// It is no list, or its rules are not understood.
pub fn of_element(spec: &GraphSpec, element: usize) -> Result<Vec<List>, ListError> {
    let e = spec.elements.get(element);
    let e = e.ok_or_else(|| ListError::Class("nothing".into()))?;
    if !CLASSES.contains(&e.class.as_str()) {
        return Err(ListError::Class(e.class.clone()));
    }
    let about = Names::of(spec);
    if e.class == "Classifier" {
        return Ok(vec![about.list(&e.class, &e.args, World::Frames)?]);
    }
    let mut all = vec![about.list(&e.class, &e.args, World::Whole)?];
    if !six(&e.class) {
        let args = about.blinded(&e.class, &e.args, None)?;
        all.push(about.list(&e.class, &args, World::Fragments)?);
    }
    Ok(all)
}

/// Bytes of a transport header that are there in packets which are cut off, as far as lists are compared about those.
const CUTS: [u16; 3] = [0, 2, 4];

/// Do two lists do the same with every packet? "No" may mean that it could not be told. Packets that end in the middle
/// of a port number are not looked at.
pub fn same_meaning(old: (&GraphSpec, usize), new: (&GraphSpec, usize)) -> bool {
    let (Some(a), Some(b)) = (old.0.elements.get(old.1), new.0.elements.get(new.1)) else {
        return false;
    };
    if a.class != b.class {
        return false;
    }
    if a.args == b.args {
        return true;
    }
    let (Ok(x), Ok(y)) = (of_element(old.0, old.1), of_element(new.0, new.1)) else {
        return false;
    };
    let pairs = x.iter().zip(&y);
    if !pairs
        .into_iter()
        .all(|(x, y)| same_in_world(x, &a.args, y, &b.args))
    {
        return false;
    }
    let cuts = match a.class.as_str() {
        "Classifier" => &[][..],
        _ => &CUTS[..],
    };
    let (one, two) = (Names::of(old.0), Names::of(new.0));
    cuts.iter().all(|n| {
        let cut = |names: &Names, e: &ElementSpec| -> Result<_, ListError> {
            let args = names.blinded(&e.class, &e.args, Some(*n))?;
            Ok((names.list(&e.class, &args, World::Whole)?, args))
        };
        match (cut(&one, a), cut(&two, b)) {
            (Ok((x, p)), Ok((y, q))) => same_in_world(&x, &p, &y, &q),
            _ => false,
        }
    })
}

/// Do both do the same in one world?
fn same_in_world(x: &List, a: &[String], y: &List, b: &[String]) -> bool {
    let mut like = |i: usize, j: usize| match (x.lines.get(i), y.lines.get(j)) {
        (Some(l), Some(m)) if l.exact && m.exact => l.fate == m.fate,
        // the element is asked the same
        (Some(l), Some(m)) => {
            let text =
                |args: &'_ [String], l: &ListLine| l.argument.and_then(|n| args.get(n).cloned());
            l.exact == m.exact && text(a, l).is_some() && text(a, l) == text(b, m)
        }
        _ => false,
    };
    let aligned = align(&x.filters, &y.filters, &mut like);
    let (base, program) = (Filter::default(), onefold_synth::Program::default());
    let exact = |l: &'_ List, i: usize| l.lines.get(i).is_some_and(|l| l.exact);
    let lists = Lists {
        program: &program,
        base: &base,
        old: &x.filters,
        new: &y.filters,
        exact: [&|i| exact(x, i), &|i| exact(y, i)],
        work: &Cell::new(WORK),
    };
    lists.differing(&aligned, &mut like, &mut |_| false)
}

fn six(class: &str) -> bool {
    class.starts_with("IP6")
}

/// Elements that others refer to by name, as those of addresses: the rest of a graph is not needed to understand rules.
struct Names {
    elements: Vec<ElementSpec>,
}

impl Names {
    fn of(spec: &GraphSpec) -> Names {
        let mut connected = vec![false; spec.elements.len()];
        for c in &spec.connections {
            for i in [c.from.0, c.to.0] {
                if let Some(c) = connected.get_mut(i) {
                    *c = true;
                }
            }
        }
        let free = spec.elements.iter().zip(connected).filter(|(_, c)| !c);
        let named = free.filter(|(e, _)| e.class == "AddressInfo" || e.class == "PortInfo");
        Names {
            elements: named.map(|(e, _)| e.clone()).collect(),
        }
    }

    /// The model of a list with these arguments.
    fn model(&self, class: &str, args: &[String]) -> Result<Model, ListError> {
        let outputs = match class {
            "IPFilter" | "IP6Filter" => {
                1 + args.iter().filter_map(|a| output(a)).max().unwrap_or(0)
            }
            _ => args.len(),
        };
        let element = |name: &str, class: &str, args: &[String]| ElementSpec {
            name: name.into(),
            class: class.into(),
            args: args.to_vec(),
            ..ElementSpec::default()
        };
        let mut g = GraphSpec {
            elements: vec![
                element("from", "FromDevice", &["0".into()]),
                element("list", class, args),
                element("to", "Discard", &[]),
            ],
            connections: vec![wire((0, 0), (1, 0))],
        };
        g.connections
            .extend((0..outputs).map(|o| wire((1, o), (2, 0))));
        g.elements.extend(self.elements.iter().cloned());
        let options = BuildOptions {
            log: onefold_engine::Log::Discard,
            ..BuildOptions::default()
        };
        let graph = Graph::build(g, &options).map_err(|e| {
            let first =
                e.0.first()
                    .map_or("not understood".to_string(), |d| d.message.clone());
            ListError::Rules(first)
        })?;
        let mut models = graph.models_of(onefold_element::ElemId(1));
        match models.is_empty() {
            true => Err(ListError::Rules("it has no model".into())),
            false => Ok(models.swap_remove(0)),
        }
    }

    /// The list, rules behind one that takes everything included.
    fn list(&self, class: &str, args: &[String], world: World) -> Result<List, ListError> {
        let place = match (world, six(class)) {
            (World::Frames, _) => Place {
                data: 0,
                net: 14,
                transport: 34,
            },
            (_, v6) => Place {
                data: 14,
                net: 14,
                transport: if v6 { 54 } else { 34 },
            },
        };
        let (mut filters, mut lines) = (Vec::new(), Vec::new());
        let mut from = 0;
        // Bound: the number of rounds
        for round in 0..MAX_ALWAYS {
            let rest = args.get(from..).unwrap_or(&[]);
            let Model::Cases(cases) = self.model(class, rest)? else {
                return Err(ListError::Rules("it has no model".into()));
            };
            let mut next = None;
            for c in &cases {
                let Some(mut line) = line(c, from) else {
                    continue;
                };
                if c.when == Cond::Always && line.argument.is_some() {
                    next = line.argument;
                }
                let said = terms(&c.when, place);
                line.exact &= said.is_some();
                for t in said.unwrap_or_else(|| vec![Filter::default()]) {
                    if let Some(t) = in_world(t, world, six(class)) {
                        filters.push(t);
                        lines.push(line.clone());
                    }
                }
            }
            match next {
                Some(n) if n + 1 < args.len() && round + 1 < MAX_ALWAYS => from = n + 1,
                // too many of them: nothing is said of the rules behind
                Some(n) if n + 1 < args.len() => {
                    for argument in n + 1..args.len() {
                        filters.extend(in_world(Filter::default(), world, six(class)));
                        lines.push(ListLine {
                            argument: Some(argument),
                            fate: ListOutcome::Unknown,
                            exact: false,
                        });
                    }
                    break;
                }
                // what a model leaves out behind a last rule that takes everything: no rule fits
                Some(_) => {
                    filters.extend(in_world(Filter::default(), world, six(class)));
                    lines.push(ListLine {
                        argument: None,
                        fate: ListOutcome::Drop,
                        exact: true,
                    });
                    break;
                }
                None => break,
            }
        }
        Ok(List {
            world,
            filters: FilterList::new(filters),
            lines,
            six: six(class),
        })
    }

    /// The rules with every test of the transport header false, as in later fragments, or of what of it is not among
    /// so many first bytes.
    fn blinded(
        &self,
        class: &str,
        args: &[String],
        there: Option<u16>,
    ) -> Result<Vec<String>, ListError> {
        let names = NameDb::builtin();
        let scope = ArgScope {
            names,
            element: "",
            elements: &[],
        };
        let mut cut = false;
        let mut one = |text: &String| -> Option<String> {
            let (action, parsed) = match class {
                "IPFilter" => {
                    let (action, p) = filter::parse_rule(text, usize::MAX, &scope).ok()?;
                    (acts(action), p)
                }
                "IP6Filter" => {
                    let (action, p) = filter::parse_rule6(text, usize::MAX, &scope).ok()?;
                    (acts(action), p)
                }
                "IPClassifier" => (String::new(), filter::parse_pattern(text, &scope).ok()?),
                _ => (String::new(), filter::parse_pattern6(text, &scope).ok()?),
            };
            let e = blind(&parsed.expr, there, &mut cut);
            Some(format!("{action}{e}"))
        };
        let all: Option<Vec<String>> = args.iter().map(&mut one).collect();
        match all {
            Some(all) if !cut => Ok(all),
            Some(_) => Err(ListError::Rules(
                "a rule reads what may be cut in the middle".into(),
            )),
            None => Err(ListError::Rules(
                "a rule refers to names of the configuration".into(),
            )),
        }
    }
}

fn wire(from: (usize, usize), to: (usize, usize)) -> ConnectionSpec {
    ConnectionSpec {
        from,
        to,
        ..ConnectionSpec::default()
    }
}

/// The output that a rule of IPFilter names.
fn output(rule: &str) -> Option<usize> {
    rule.split_whitespace().next()?.parse().ok()
}

/// How a rule begins.
fn acts(a: Action) -> String {
    match a {
        Action::Drop => "drop ".to_string(),
        Action::Output(n) => format!("{n} "),
    }
}

/// What is left of an expression in later fragments, or where the first so many bytes of a transport header are there;
/// `cut` is set where that is the middle of a field.
fn blind(e: &Expr, there: Option<u16>, cut: &mut bool) -> Expr {
    match e {
        Expr::Const(b) => Expr::Const(*b),
        Expr::Test(t) => {
            let (first, last) = match &t.check {
                Check::Port { which, compare } if compare.mask != 0 => {
                    let first = if which.src() { 0 } else { 2 };
                    (first, if which.dst() { 4 } else { 2 })
                }
                Check::TcpFlags(f) if *f != 0 => (13, 14),
                Check::Field { field, compare } if compare.mask != 0 => {
                    let end = u32::from(field.bit) + u32::from(field.bits);
                    (field.bit / 8, end.div_ceil(8) as u16)
                }
                // it holds for first fragments only, even where it looks at nothing
                _ => (0, 0),
            };
            // addresses of both sides are looked at one by one: half of them may be there
            *cut |= there.is_some_and(|n| first < n && n < last);
            match t.check.first_fragment_only() && there.is_none_or(|n| n < last) {
                true => Expr::Const(false),
                false => Expr::Test(t.clone()),
            }
        }
        Expr::Not(e) => Expr::Not(Box::new(blind(e, there, cut))),
        Expr::All(l) => Expr::All(l.iter().map(|e| blind(e, there, cut)).collect()),
        Expr::Any(l) => Expr::Any(l.iter().map(|e| blind(e, there, cut)).collect()),
        Expr::Choose { cases, otherwise } => {
            let mut one = |(c, v): &(Expr, Expr)| (blind(c, there, cut), blind(v, there, cut));
            let cases = cases.iter().map(&mut one).collect();
            Expr::Choose {
                cases,
                otherwise: Box::new(blind(otherwise, there, cut)),
            }
        }
    }
}

/// What a case is in the list; nothing for the guards that stand before rules.
fn line(c: &Case, from: usize) -> Option<ListLine> {
    if c.origin.is_none() && !c.policy {
        return None;
    }
    let (fate, exact) = match &c.exit {
        Exit::Port(n) | Exit::PortOrDrop(n, _) => (ListOutcome::Output(*n), true),
        Exit::Drop(_) => (ListOutcome::Drop, true),
        _ => (ListOutcome::Unknown, false),
    };
    Some(ListLine {
        argument: c.origin.map(|o| o + from),
        fate,
        exact,
    })
}

/// Fragments are later ones or not. IPv6's header says nothing of fragments: its lists are in one world.
fn in_world(mut f: Filter, world: World, six: bool) -> Option<Filter> {
    let offset = Dim::Bits {
        bit: 14 * 8 + i32::from(field::IP_FRAGOFF.bit),
        bits: field::IP_FRAGOFF.bits,
    };
    let fits = match world {
        World::Frames => true,
        World::Whole if six => true,
        World::Whole => f.narrow(offset, &ValueSet::one(0), 13),
        World::Fragments => f.narrow(offset, &ValueSet::range(1, max_of(13)), 13),
    };
    fits.then_some(f)
}
