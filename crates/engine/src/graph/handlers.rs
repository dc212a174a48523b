//! Handlers: finding them by name, the ones that every element has, the global ones.

use crate::graph::core::{Core, LateCall};
use crate::graph::limits;
use crate::graph::unparse;
use onefold_element::args::split_words;
use onefold_element::{
    ElemId, Element, HandlerError, HandlerFlags, HandlerResult, Host, LogStream, Outbox,
    Processing, StateStore, Touches, find_element,
};
use std::fmt::Write;

/// Version text of the global `version` handler.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Global handlers: name, flags as Click shows them.
const GLOBAL: &[(&str, &str)] = &[
    ("version", "r"),
    ("driver", "r"),
    ("config", "r"),
    ("flatconfig", "r"),
    ("requirements", "r"),
    ("handlers", "r"),
    ("list", "r"),
    ("stop", "w"),
    ("classes", "r"),
];

/// Handlers of every element, in the order in which `handlers` lists them.
const COMMON: &[&str] = &["handlers", "ports", "config", "class", "name"];

/// Handlers of every element that has a task, in the order in which `handlers` lists them.
const TASK: &[(&str, HandlerFlags)] = &[
    ("tickets", HandlerFlags::ReadWrite),
    ("scheduled", HandlerFlags::Read),
];

/// Whose handler a call means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Target {
    Global(String),
    Element(u32, String),
}

/// Is this argument a keyword with a value behind it?
fn is_keyword(argument: &str) -> bool {
    let mut words = split_words(argument).into_iter();
    let first = words.next().unwrap_or("");
    let capitals = first
        .bytes()
        .all(|b| b.is_ascii_uppercase() || b.is_ascii_digit() || b == b'_');
    words.next().is_some() && capitals && first.starts_with(|c: char| c.is_ascii_uppercase())
}

impl Core {
    /// Does an element have this handler, and in which direction?
    pub fn element_handler(&self, node: u32, name: &str) -> Option<HandlerFlags> {
        if let Some(e) = self.nodes.get(node as usize).and_then(|n| n.elem.as_ref()) {
            if name == "config" && e.can_live_reconfigure() {
                return Some(HandlerFlags::ReadWrite);
            }
            if let Some(h) = e.handlers().iter().find(|h| h.name == name) {
                return Some(h.flags);
            }
            let dynamic = e.dynamic_handlers();
            if let Some((_, f)) = dynamic.iter().find(|(n, _)| n == name || n == "*") {
                return Some(*f);
            }
        }
        if let Some(f) = self.task_handler(node, name) {
            return Some(f);
        }
        COMMON.contains(&name).then_some(HandlerFlags::Read)
    }

    /// Is this one of the handlers that come with a task?
    fn task_handler(&self, node: u32, name: &str) -> Option<HandlerFlags> {
        let has_task = self.nodes.get(node as usize).is_some_and(|n| n.has_task);
        let found = TASK.iter().find(|(n, _)| *n == name);
        found.filter(|_| has_task).map(|(_, f)| *f)
    }

    /// Finds out whose handler `name` is, as seen from element `from`: `element.handler`, `handler` (of `from` itself, else
    /// global), `.handler` (global).
    pub fn target(&self, from: ElemId, name: &str) -> Result<Target, HandlerError> {
        if name.is_empty() || (name.ends_with('.') && name.len() > 1) {
            return Err(HandlerError::BadValue("syntax error".into()));
        }
        if let Some(h) = name.strip_prefix('.') {
            return Ok(Target::Global(h.to_string()));
        }
        let context = self.topo.names.get(from.0 as usize);
        if let Some((element, handler)) = name.split_once('.') {
            let scope = context.map_or("", |n| n.as_str());
            if let Some(e) = find_element(&self.topo.names, scope, element) {
                return Ok(Target::Element(e.0, handler.to_string()));
            }
        }
        if context.is_some() && self.element_handler(from.0, name).is_some() {
            return Ok(Target::Element(from.0, name.to_string()));
        }
        match name.split_once('.') {
            Some((element, _)) if !self.is_global(name) => {
                Err(HandlerError::NoSuchElement(element.to_string()))
            }
            _ => Ok(Target::Global(name.to_string())),
        }
    }

    /// `element.handler` as messages show it.
    pub fn target_name(&self, t: &Target) -> String {
        match t {
            Target::Global(h) => h.clone(),
            Target::Element(e, h) => {
                let name = self.topo.names.get(*e as usize);
                format!("{}.{h}", name.map_or("?", |n| n.as_str()))
            }
        }
    }

    pub fn handler_exists(&self, from: ElemId, call: &str, writable: bool) -> bool {
        let flags = match self.target(from, call.trim()) {
            Ok(Target::Global(h)) => {
                let flag = if writable { "w" } else { "r" };
                let always = GLOBAL.iter().any(|g| g.0 == h && g.1.contains(flag));
                return always || (!writable && self.told.contains_key(h.as_str()));
            }
            Ok(Target::Element(e, h)) => self.element_handler(e, &h),
            Err(_) => None,
        };
        match flags {
            None => false,
            Some(HandlerFlags::ReadWrite) => true,
            Some(HandlerFlags::Read | HandlerFlags::ReadParam) => !writable,
            Some(HandlerFlags::Write | HandlerFlags::Button) => writable,
        }
    }

    fn is_global(&self, name: &str) -> bool {
        GLOBAL.iter().any(|g| g.0 == name) || self.told.contains_key(name)
    }

    fn enter(&mut self) -> Result<(), HandlerError> {
        if self.handler_depth >= limits::HANDLER_DEPTH {
            return Err(HandlerError::BadValue(
                "handlers call each other too deeply".into(),
            ));
        }
        self.handler_depth += 1;
        Ok(())
    }

    /// Calls a read handler: `"element.handler parameters"`.
    pub fn read_call(
        &mut self,
        from: ElemId,
        call: &str,
        out: &mut Outbox,
        store: &mut StateStore,
    ) -> HandlerResult {
        let call = call.trim();
        let split = call.find(|c: char| c.is_ascii_whitespace());
        let (name, param) = call.split_at(split.unwrap_or(call.len()));
        let target = self.target(from, name)?;
        self.read_target(&target, param.trim(), out, store)
    }

    pub fn read_target(
        &mut self,
        target: &Target,
        param: &str,
        out: &mut Outbox,
        store: &mut StateStore,
    ) -> HandlerResult {
        match target {
            Target::Global(h) => self.read_global(h),
            Target::Element(node, h) => self.read_element(*node, h, param, out, store),
        }
    }

    fn read_element(
        &mut self,
        node: u32,
        name: &str,
        param: &str,
        out: &mut Outbox,
        store: &mut StateStore,
    ) -> HandlerResult {
        let full = || self.target_name(&Target::Element(node, name.to_string()));
        let busy = self
            .nodes
            .get(node as usize)
            .is_none_or(|n| n.elem.is_none());
        if busy && !COMMON.contains(&name) {
            return Err(HandlerError::Busy(self.element_name(ElemId(node))));
        }
        let own = match self.nodes.get(node as usize).and_then(|n| n.elem.as_ref()) {
            Some(e) => {
                e.handlers().iter().any(|h| h.name == name)
                    || e.dynamic_handlers()
                        .iter()
                        .any(|(n, _)| n == name || n == "*")
            }
            None => false,
        };
        if !own && COMMON.contains(&name) {
            return Ok(self.read_common(node, name));
        }
        if !own && self.task_handler(node, name).is_some() {
            return Ok(match name {
                "tickets" => self.run_list.tickets(node).to_string(),
                _ => self.run_list.is_scheduled(node).to_string(),
            });
        }
        match self.element_handler(node, name) {
            None => return Err(HandlerError::NoSuchHandler(full())),
            Some(HandlerFlags::Write | HandlerFlags::Button) => {
                return Err(HandlerError::WrongDirection(full(), "read"));
            }
            Some(HandlerFlags::Read) if !param.is_empty() => {
                let m = format!("read handler '{}' does not take parameters", full());
                return Err(HandlerError::BadValue(m));
            }
            Some(_) => {}
        }
        self.enter()?;
        if self.counts_rules(node) {
            self.tell_rules();
        }
        let mark = out.effects.len();
        let r = self.with(node, out, store, |e, cx| e.read(name, param, cx));
        self.settle(node, mark, out, store);
        self.handler_depth -= 1;
        r.unwrap_or_else(|| Err(HandlerError::Busy(self.element_name(ElemId(node)))))
    }

    /// Calls a write handler. The call may carry the value's first part: `"element.handler text"`.
    pub fn write_call(
        &mut self,
        from: ElemId,
        call: &str,
        value: &str,
        out: &mut Outbox,
        store: &mut StateStore,
    ) -> Result<(), HandlerError> {
        let call = call.trim();
        let split = call.find(|c: char| c.is_ascii_whitespace());
        let (name, rest) = call.split_at(split.unwrap_or(call.len()));
        let rest = rest.trim_start();
        let value = match (rest.is_empty(), value.is_empty()) {
            (true, _) => value.to_string(),
            (false, true) => rest.to_string(),
            (false, false) => format!("{rest} {value}"),
        };
        match self.target(from, name)? {
            Target::Global(h) => self.write_global(&h, &value),
            Target::Element(node, h) => self.write_element(node, &h, &value, out, store),
        }
    }

    pub fn write_element(
        &mut self,
        node: u32,
        name: &str,
        value: &str,
        out: &mut Outbox,
        store: &mut StateStore,
    ) -> Result<(), HandlerError> {
        let full = |c: &Core| c.target_name(&Target::Element(node, name.to_string()));
        if self
            .nodes
            .get(node as usize)
            .is_some_and(|n| n.elem.is_none())
        {
            // it is at work: carried out as soon as it is not
            self.late_calls.push_back(LateCall {
                element: node,
                handler: name.to_string(),
                value: value.to_string(),
            });
            return Ok(());
        }
        match self.element_handler(node, name) {
            None => return Err(HandlerError::NoSuchHandler(full(self))),
            Some(HandlerFlags::Read | HandlerFlags::ReadParam) => {
                return Err(HandlerError::WrongDirection(full(self), "written"));
            }
            Some(_) => {}
        }
        self.enter()?;
        // a reset, or other rules in the place of those that have been counted
        if self.counts_rules(node) {
            self.tell_rules();
        }
        self.activity += 1;
        // what is known of packets holds as long as nothing that they see has changed
        if self.touches(node, name) > Touches::NewFlows {
            self.changes += 1;
            self.changed.insert(node);
        }
        let mark = out.effects.len();
        let own = |e: &dyn Element| {
            e.handlers().iter().any(|h| h.name == name)
                || e.dynamic_handlers().iter().any(|(n, _)| n == name)
        };
        let owned = self.nodes[node as usize].elem.as_deref().is_some_and(own);
        let r = match name {
            "config" => self.reconfigure(node, value, store),
            "tickets" if !owned => match value.trim().parse::<u32>() {
                Ok(n) if n > 0 => {
                    self.run_list.set_tickets(node, n);
                    Ok(())
                }
                _ => Err(HandlerError::BadValue(
                    "tickets: expected a positive number".into(),
                )),
            },
            _ => self
                .with(node, out, store, |e, cx| e.write(name, value, cx))
                .unwrap_or(Ok(())),
        };
        if r.is_ok() {
            self.note_argument(node, name, value);
        }
        self.settle(node, mark, out, store);
        self.handler_depth -= 1;
        r
    }

    /// What writing a handler changes, at most.
    fn touches(&self, node: u32, name: &str) -> Touches {
        let elem = self.nodes.get(node as usize).and_then(|n| n.elem.as_ref());
        let own = elem.and_then(|e| e.handlers().iter().find(|h| h.name == name));
        own.map_or(Touches::Model, |h| h.touches)
    }

    /// Handler `name` has been written: where that is changing an argument, the `config` handler shows it.
    fn note_argument(&mut self, node: u32, name: &str, value: &str) {
        use onefold_element::args::{AnyArg, ArgScope, Args, split_args};
        let elem = self.nodes.get(node as usize).and_then(|n| n.elem.as_ref());
        let info = elem.and_then(|e| e.handlers().iter().find(|h| h.name == name));
        let Some((position, keyword)) = info.and_then(|h| h.argument) else {
            return;
        };
        let mut list = split_args(&self.config_text(node as usize));
        let scope = ArgScope {
            names: &self.names,
            element: "",
            elements: &[],
        };
        let given = |text: &str| {
            let mut one = Args::new(vec![text], scope);
            !keyword.is_empty() && one.keyword::<AnyArg>(keyword).is_some()
        };
        match list.iter().position(|a| given(a)) {
            Some(i) => list[i] = format!("{keyword} {value}"),
            None => match position.and_then(|p| list.get_mut(usize::from(p))) {
                Some(a) if !is_keyword(a) => *a = value.to_string(),
                _ => list.push(format!("{keyword} {value}").trim_start().to_string()),
            },
        }
        self.configs.insert(node, list.join(", "));
    }

    fn read_common(&self, node: u32, name: &str) -> String {
        let i = node as usize;
        match name {
            "name" => self.topo.names[i].clone(),
            "class" => self.topo.classes[i].clone(),
            "config" => self.config_text(i),
            "ports" => self.ports_text(i),
            _ => self.handlers_text(node),
        }
    }

    fn config_text(&self, i: usize) -> String {
        match self.configs.get(&(i as u32)) {
            Some(c) => c.clone(),
            None => self.topo.spec.elements[i].args.join(", "),
        }
    }

    /// The `handlers` text: those of the element last to first, then the common ones.
    fn handlers_text(&self, node: u32) -> String {
        let mut s = String::new();
        let elem = self.nodes[node as usize].elem.as_ref();
        let fixed = elem.map_or(&[][..], |e| e.handlers());
        let dynamic = elem.map_or(Vec::new(), |e| e.dynamic_handlers());
        let all = fixed
            .iter()
            .map(|h| (h.name, h.flags))
            .chain(dynamic.iter().map(|(n, f)| (n.as_str(), *f)));
        let mut listed: Vec<(&str, HandlerFlags)> = all.collect();
        listed.reverse();
        for (name, flags) in listed {
            let flags = match flags {
                HandlerFlags::Read => "r",
                HandlerFlags::ReadParam => "r+",
                HandlerFlags::Write => "w",
                HandlerFlags::Button => "wb",
                HandlerFlags::ReadWrite => "rw",
            };
            // writing to a String cannot fail
            let _ = writeln!(s, "{name}\t{flags}");
        }
        let live = elem.is_some_and(|e| e.can_live_reconfigure());
        if self.nodes[node as usize].has_task {
            let own = s.clone();
            s.clear();
            for (name, flags) in TASK {
                let flags = match flags {
                    HandlerFlags::ReadWrite => "rw",
                    _ => "r",
                };
                let _ = writeln!(s, "{name}\t{flags}");
            }
            s.push_str(&own);
        }
        for name in COMMON {
            if fixed.iter().any(|h| h.name == *name) {
                continue;
            }
            let flags = match live && *name == "config" {
                true => "rw.",
                false => "r.",
            };
            let _ = writeln!(s, "{name}\t{flags}");
        }
        s
    }

    fn ports_text(&self, i: usize) -> String {
        let topo = &self.topo;
        let p = topo.ports[i];
        let (ins, outs) = onefold_element::ElementClass::halves(topo.class[i].processing);
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let kind = |pull: bool, code: &str, k: usize| {
            let agnostic = Processing::of(code, k) == Processing::Agnostic;
            let word = if pull { "pull" } else { "push" };
            format!("{word}{}", if agnostic { "~" } else { "" })
        };
        let mut s = String::new();
        let _ = writeln!(s, "{} input{}", p.ninputs, plural(p.ninputs));
        for k in 0..p.ninputs {
            let from: Vec<String> = (topo.spec.connections.iter())
                .filter(|c| c.to == (i, k))
                .map(|c| format!("{} [{}]", topo.names[c.from.0], c.from.1))
                .collect();
            let kind = kind(topo.input_is_pull(i, k), ins, k);
            let _ = writeln!(s, "{kind}\t-\t{}", from.join(", "));
        }
        let _ = writeln!(s, "{} output{}", p.noutputs, plural(p.noutputs));
        for k in 0..p.noutputs {
            let to: Vec<String> = topo
                .downstream(i, k)
                .map(|(e, q)| format!("[{q}] {}", topo.names[e]))
                .collect();
            let kind = kind(topo.output_is_pull(i, k), outs, k);
            let _ = writeln!(s, "{kind}\t-\t{}", to.join(", "));
        }
        s
    }

    fn read_global(&self, name: &str) -> HandlerResult {
        let topo = &self.topo;
        Ok(match name {
            "version" => VERSION.to_string(),
            "driver" => "userlevel".to_string(),
            "config" => self.source_text.clone(),
            "flatconfig" => unparse::flat_config(&topo.spec, &self.requirements),
            "requirements" => (self.requirements.iter())
                .map(|(kind, value)| format!("{kind}\n{value}\n"))
                .collect(),
            "handlers" => {
                let told = self.told.keys().map(|n| format!("{n}\tr\n"));
                let all = GLOBAL.iter().map(|(n, f)| format!("{n}\t{f}\n"));
                all.chain(told).collect()
            }
            "list" => {
                let mut s = format!("{}\n", topo.names.len());
                for n in &topo.names {
                    s.push_str(n);
                    s.push('\n');
                }
                s
            }
            "classes" => onefold_elements::all_classes()
                .map(|c| format!("{}\n", c.name))
                .collect(),
            "stop" => {
                return Err(HandlerError::WrongDirection("stop".into(), "read"));
            }
            _ => match self.told.get(name) {
                Some(text) => text.clone(),
                None => return Err(HandlerError::NoSuchHandler(name.to_string())),
            },
        })
    }

    fn write_global(&mut self, name: &str, value: &str) -> Result<(), HandlerError> {
        match name {
            "stop" => {
                let n: i32 = value.trim().parse().unwrap_or(1);
                self.adjust_run_count(n.saturating_neg());
                Ok(())
            }
            _ if self.is_global(name) => {
                Err(HandlerError::WrongDirection(name.to_string(), "written"))
            }
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }

    /// Tells a running element its new configuration; it keeps the old one when that is wrong.
    fn reconfigure(
        &mut self,
        node: u32,
        config: &str,
        store: &mut StateStore,
    ) -> Result<(), HandlerError> {
        use onefold_element::args::{ArgScope, Args, split_args};
        let i = node as usize;
        let Some(old) = self.nodes.get(i).and_then(|n| n.elem.as_ref()) else {
            return Err(HandlerError::Busy(self.element_name(ElemId(node))));
        };
        let mut elem = old.clone();
        let topo = self.topo.clone();
        let split = split_args(config);
        let scope = ArgScope {
            names: &self.names,
            element: &topo.names[i],
            elements: &topo.names,
        };
        let mut args = Args::new(split.iter().map(String::as_str).collect(), scope);
        let mut cx = onefold_element::ConfigCx {
            elem: ElemId(node),
            name: &topo.names[i],
            ninputs: topo.ports[i].ninputs,
            noutputs: topo.ports[i].noutputs,
            names: &self.names,
            elements: &topo.names,
            classes: &topo.classes,
            store,
            seed: self.seed,
        };
        let mut errors = elem.configure(&mut args, &mut cx).err().unwrap_or_default();
        errors.extend(args.finish().err().unwrap_or_default());
        let (mut warnings, errors): (Vec<_>, Vec<_>) = errors.into_iter().partition(|e| e.warning);
        if !errors.is_empty() {
            let all: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
            return Err(HandlerError::BadValue(all.join("\n")));
        }
        // said by `configure` and by whoever asked whether something is left
        warnings.dedup();
        if !warnings.is_empty() {
            let mut text = format!(
                "While configuring '{} :: {}':\n",
                topo.names[i], topo.classes[i]
            );
            for w in &warnings {
                text += &format!("  {}{w}\n", if w.info { "" } else { "warning: " });
            }
            self.log(LogStream::Stderr, &text);
        }
        self.nodes[i].elem = Some(elem);
        self.configs.insert(node, split_words(config).join(" "));
        Ok(())
    }
}
