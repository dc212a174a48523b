//! From a chain file's name to a [`Chain`].

use crate::cores::Cores;
use crate::edit::{self, Edit};
use crate::error::{ChainError, Reader};
use crate::file::{ChainFile, ClickSpec, Function, Loc};
use crate::find::find;
use crate::kernel::{self, KernelFunction, KernelPlan};
use crate::kinds::KindCx;
use crate::links::PortRef;
use crate::live::{Attached, Live, LivePort, attach, edges, wired};
use crate::params;
use crate::placement::{self, Placement, Run};
use crate::places;
use crate::stitch::{Chain, FunctionInfo, Part, Wiring, stitch};
use crate::structure;
use crate::values;
use crate::wiring::{self, read_wiring};
use crate::workers::Share;
use crate::yaml;
use onefold_click::diag::Diagnostic;
use onefold_click::source::{FileId, Span};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most functions of a chain, repeated ones counted one by one.
pub const MAX_FUNCTIONS: usize = 1024;

/// How to load a chain.
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Parameters: `--set NAME=VALUE`.
    pub set: Vec<(String, String)>,
    /// Folders with examples, searched for names that are not files.
    pub examples: Vec<PathBuf>,
}

/// Loads a chain by file or example name.
pub fn load(name: &str, options: &Options) -> Result<Chain, ChainError> {
    Ok(load_live(name, options, &[])?.0)
}

/// Loads a chain, some of whose ports are network interfaces: also gives back what became of these, in their order.
/// Those that the chain does not have are left out.
pub fn load_live(
    name: &str,
    options: &Options,
    live: &[LivePort],
) -> Result<(Chain, Vec<Attached>), ChainError> {
    load_edited(name, options, live, &[])
}

/// As [`load_live`], with changes that are not in the chain's file.
pub fn load_edited(
    name: &str,
    options: &Options,
    live: &[LivePort],
    edits: &[Edit],
) -> Result<(Chain, Vec<Attached>), ChainError> {
    let how = (Live::new(live), Share::default(), edits);
    let (chain, reader) = load_as(name, options, how, None, false)?;
    let attached = reader.live.attached_in(&chain);
    Ok((chain, attached))
}

/// Loads a chain with rules that no packet comes to: behind one that takes everything, behind a jump that is never
/// taken, about connections or interfaces that are not there. Where a chain is executed, they are left out; who looks
/// for rules that are not meant wants to see them.
///
/// # Errors
/// As [`load`]; and jumps may lead to too many rules with these.
pub fn load_whole(name: &str, options: &Options) -> Result<Chain, ChainError> {
    let how = (Live::default(), Share::default(), &[][..]);
    Ok(load_as(name, options, how, None, true)?.0)
}

/// Loads a chain as it is for one of several workers, on network interfaces, with changes, or for a comparison with the
/// kernel.
pub(crate) fn load_as(
    name: &str,
    options: &Options,
    (live, share, edits): (Live, Share, &[Edit]),
    kernel: Option<KernelPlan>,
    whole: bool,
) -> Result<(Chain, Reader), ChainError> {
    let (path, implied) = find(name, options)?;
    let dir = path.parent().unwrap_or(Path::new(".")).to_path_buf();
    let mut reader = Reader::new(&dir);
    reader.live = live;
    reader.share = share;
    reader.kernel = kernel;
    reader.whole = whole;
    reader.edits = edits.to_vec();
    let shown = path.display().to_string();
    let text = match std::fs::read_to_string(&path) {
        Ok(t) if t.len() as u64 <= crate::error::MAX_FILE_BYTES => t,
        Ok(_) => {
            return Err(ChainError::Invalid(vec![Diagnostic::error(format!(
                "'{shown}' is too long"
            ))]));
        }
        Err(e) => {
            return Err(ChainError::Invalid(vec![Diagnostic::error(format!(
                "cannot read '{shown}': {e}"
            ))]));
        }
    };
    if path.extension().is_some_and(|e| e == "click") {
        if reader.kernel.is_some() {
            let why = "a Click configuration has no equivalent in the kernel: compared are firewalls and routers of \
                       a chain file";
            return Err(ChainError::Invalid(vec![Diagnostic::error(why)]));
        }
        if !edits.is_empty() {
            let why = "a Click configuration has no rules, routes or servers to be changed: change its file, \
                       and reload";
            return Err(ChainError::Invalid(vec![Diagnostic::error(why)]));
        }
        let chain = load_click(&text, &shown, &options.set, &mut reader)?;
        return Ok((chain, reader));
    }
    let mut set = options.set.clone();
    let numbered = implied.is_some();
    set.extend(implied);
    let mut chain = load_text(&text, &shown, &set, &mut reader)?;
    if numbered {
        chain.name = name.to_string();
    }
    Ok((chain, reader))
}

/// A Click configuration as a chain of one function: every device is a port of the chain, named as the device.
fn load_click(
    text: &str,
    shown: &str,
    set: &[(String, String)],
    reader: &mut Reader,
) -> Result<Chain, ChainError> {
    let stem = Path::new(shown)
        .file_stem()
        .map_or("click".to_string(), |n| n.to_string_lossy().into_owned());
    let file = reader.sources.add(shown, text);
    let span = Span::new(file, 0, 1);
    let libraries = onefold_click::FileLibraries::new(reader.dir.to_str());
    let mut options = onefold_click::LoadOptions::default();
    options.parse.libraries = Some(&libraries);
    let graph =
        onefold_click::load(text.as_bytes(), shown, set, &options).map_err(ChainError::Invalid)?;
    reader.diagnostics.extend(graph.warnings.iter().cloned());
    let info = FunctionInfo {
        name: "click".to_string(),
        kind: "click",
        click: text.to_string(),
        ports: Vec::new(),
        rules: Vec::new(),
        health: None,
        balanced: None,
        placement: Placement::default(),
        native: None,
        external: None,
    };
    let part = Part::new(reader, info, graph, None, Vec::new(), span);
    let ports = part.info.ports.iter().enumerate().map(|(n, device)| {
        let at = PortRef {
            function: "click".to_string(),
            port: n,
        };
        (
            device.clone(),
            part.reads(n).then(|| at.clone()),
            part.writes(n).then_some(at),
            span,
        )
    });
    let wiring = Wiring {
        links: Vec::new(),
        ports: ports.collect(),
        unused: Vec::new(),
        failed: Vec::new(),
        addresses: Vec::new(),
        whole: span,
    };
    let description = format!("the Click configuration {shown}");
    let chain = stitch(reader, stem, description, vec![part], wiring);
    let diagnostics = std::mem::take(&mut reader.diagnostics);
    if diagnostics.iter().any(Diagnostic::is_error) {
        return Err(ChainError::Invalid(diagnostics));
    }
    Ok(Chain {
        warnings: diagnostics,
        ..chain
    })
}

/// Loads a chain from its text; `shown` is its file name in messages.
pub fn load_text(
    text: &str,
    shown: &str,
    set: &[(String, String)],
    reader: &mut Reader,
) -> Result<Chain, ChainError> {
    let chain = load_inner(text, shown, set, reader);
    let diagnostics = std::mem::take(&mut reader.diagnostics);
    match chain {
        Some(mut c) if !diagnostics.iter().any(Diagnostic::is_error) => {
            c.warnings = diagnostics;
            Ok(c)
        }
        _ => Err(ChainError::Invalid(diagnostics)),
    }
}

/// The part of a chain file that must be known before parameters are substituted.
#[derive(serde::Deserialize)]
struct Header {
    #[serde(default)]
    parameters: indexmap::IndexMap<String, crate::file::Parameter>,
}

fn load_inner(
    text: &str,
    shown: &str,
    set: &[(String, String)],
    reader: &mut Reader,
) -> Option<Chain> {
    let raw = reader.sources.add(shown, text);
    let before = reader.diagnostics.len();
    let Some(header) = yaml::read::<Header>(text, raw, reader) else {
        structure::tell(text, raw, before, reader);
        return None;
    };
    let whole = Span::new(raw, 0, 1);
    let values = values::of_parameters(&header.parameters, set, whole, reader);
    if !reader.ok() {
        let before = reader.diagnostics.len();
        structure::tell(text, raw, before, reader);
        return None;
    }
    let lookup = |n: &str| values.iter().find(|(k, _)| k == n).map(|(_, v)| v.clone());
    let text = match params::substitute(text, lookup) {
        Ok(t) => t,
        Err(why) => {
            reader.error(whole, why);
            return None;
        }
    };
    // `$(i)` is the number of a repeated function; for everything else it does not matter what it is
    let first = params::substitute(&text, number(1)).unwrap_or_default();
    let file = reader.sources.add(shown, first.clone());
    let (doc, left_out) = match structure::read(&first, file, reader) {
        Some((doc, left_out)) => (Some(doc), left_out),
        None => (None, None),
    };
    // Scripts of Click configurations may use $(handler) themselves; elsewhere an unknown name is a mistake.
    let in_click = (doc.as_ref()).is_some_and(|d| {
        d.functions
            .values()
            .any(|f| f.value.click.is_some() || f.value.external.is_some())
    });
    if !in_click {
        values::tell_unresolved(&first, file, &header.parameters, reader);
    }
    let mut doc = doc?;
    let edits = std::mem::take(&mut reader.edits);
    if left_out.is_none() {
        edit::apply(&mut doc, &edits, file, reader);
    }
    let doc = doc;
    attach(&doc, reader);
    reader.wired = wired(&doc);
    if let Some(k) = &mut reader.kernel {
        k.find_edges(edges(&doc));
    }
    let interconnect = placement::interconnect(&doc, file, reader);
    let cores = Cores::read(doc.cores.as_ref(), file, reader);
    let path = Path::new(shown);
    let folder = path
        .parent()
        .and_then(Path::file_name)
        .filter(|_| path.file_stem().is_some_and(|s| s == "chain"));
    let default_name = folder
        .or(path.file_stem())
        .map_or("chain".to_string(), |n| n.to_string_lossy().into_owned());

    let Functions {
        parts,
        failed,
        links,
    } = build_functions(&text, shown, &doc, file, reader);
    if let Some(left_out) = left_out {
        wiring::tell(&doc, left_out, (parts, failed, links), file, reader);
        return None;
    }
    if parts.len() > MAX_FUNCTIONS {
        reader.error(whole, format!("more than {MAX_FUNCTIONS} functions"));
    }
    let mut wiring = read_wiring(&doc, links, file, reader);
    wiring.failed = failed;
    if let Some(k) = &mut reader.kernel {
        k.wire(&wiring);
    }
    let name = doc.name.clone().unwrap_or(default_name);
    let description = doc.description.clone().unwrap_or_default();
    let processes = parts.iter().any(|p| p.info.placement.run != Run::Inline);
    let schedule = placement::schedule(&doc, processes, file, reader);
    let chain = stitch(reader, name, description, parts, wiring);
    placement::check(&chain, interconnect, &doc, file, reader);
    Some(Chain {
        interconnect,
        cores,
        schedule,
        ..chain
    })
}

/// The functions of a chain file.
#[derive(Default)]
struct Functions {
    parts: Vec<Part>,
    /// Those that could not be built.
    failed: Vec<String>,
    /// Links between repeated ones.
    links: Vec<(String, Span)>,
}

impl Functions {
    /// Builds one.
    fn build(&mut self, name: &str, f: &Function, span: Span, file: FileId, reader: &mut Reader) {
        match build_function(name, f, span, file, reader) {
            Some(p) => self.parts.push(p),
            None => self.failed.push(name.to_string()),
        }
    }

    /// Notes the link of the `i`-th of a repeated function to the next one.
    fn link(&mut self, name: &str, i: u32, link: &Loc<String>, file: FileId, reader: &mut Reader) {
        let span = Span::new(file, link.start, link.start + link.len);
        let both = link.value.split_once("<->").map(|x| (x, "<->"));
        match both.or(link.value.split_once("->").map(|x| (x, "->"))) {
            Some(((a, b), arrow)) => {
                let (a, b) = (a.trim(), b.trim());
                let text = format!("{name}{i}{a} {arrow} {b}{name}{}", i + 1);
                self.links.push((text, span));
            }
            None => reader.error(span, "expected something like \"[1] <-> [0]\""),
        }
    }
}

/// Builds the functions of a chain file, repeated ones one by one. `text`: the file's, with all parameters but `i`
/// replaced.
fn build_functions(
    text: &str,
    shown: &str,
    doc: &ChainFile,
    file: FileId,
    reader: &mut Reader,
) -> Functions {
    let mut all = Functions::default();
    for (name, f) in &doc.functions {
        let span = Span::new(file, f.start, f.start + f.len.max(1));
        let ok = params::is_name(name) && name != "addresses";
        if !ok {
            let rule = "letters, digits, '_' and '-', a letter first";
            reader.error(
                span,
                format!("'{name}' cannot be a function's name: {rule}"),
            );
            continue;
        }
        let Some(n) = f.value.repeat else {
            all.build(name, &f.value, span, file, reader);
            continue;
        };
        if n == 0 || n as usize > MAX_FUNCTIONS {
            let text = format!("{name}: repeat must be from 1 to {MAX_FUNCTIONS}");
            reader.error(span, text);
            continue;
        }
        for i in 1..=n {
            // Substituting `i` in the whole text keeps every place right.
            let Ok(numbered) = params::substitute(text, number(i)) else {
                break;
            };
            let nfile = reader.sources.add(shown, numbered.clone());
            // what is wrong elsewhere has been told
            let told = reader.diagnostics.len();
            let Some((ndoc, left_out)) = structure::read(&numbered, nfile, reader) else {
                break;
            };
            if left_out.is_some() {
                reader.diagnostics.truncate(told);
            }
            let Some(nf) = ndoc.functions.get(name) else {
                break;
            };
            let nspan = Span::new(nfile, nf.start, nf.start + nf.len.max(1));
            all.build(&format!("{name}{i}"), &nf.value, nspan, nfile, reader);
            if let (Some(l), true) = (&nf.value.link, i < n) {
                all.link(name, i, l, nfile, reader);
            }
        }
    }
    all
}

/// `$(i)`, `$(i+1)` and `$(i-1)` of the i-th of a repeated function.
fn number(i: u32) -> impl Fn(&str) -> Option<String> {
    move |k| match k {
        "i" => Some(i.to_string()),
        "i+1" => Some((i + 1).to_string()),
        "i-1" => Some((i - 1).to_string()),
        _ => None,
    }
}

/// The kinds that a function is given, each with its graph as Click text: one, if it is right.
fn kinds_of(f: &Function, cx: &mut KindCx<'_>) -> Vec<(&'static str, String)> {
    let mut made: Vec<(&'static str, String)> = Vec::new();
    if let Some(k) = &f.firewall {
        made.push(("firewall", k.click(cx)));
    }
    if let Some(k) = &f.router {
        made.push(("router", k.click(cx)));
    }
    if let Some(k) = &f.nat {
        made.push(("nat", k.click(cx)));
    }
    if let Some(k) = &f.load_balancer {
        made.push(("load-balancer", k.click(cx)));
    }
    if let Some(k) = &f.dpi {
        made.push(("dpi", k.click(cx)));
    }
    if let Some(k) = &f.monitor {
        made.push(("monitor", k.click(cx)));
    }
    if let Some(k) = &f.vlan {
        made.push(("vlan", k.click(cx)));
    }
    if let Some(k) = &f.native {
        made.push(("native", k.click(cx)));
    }
    if let Some(k) = &f.external {
        made.push(("external", k.click()));
    }
    made
}

/// One function's graph.
fn build_function(
    name: &str,
    f: &Function,
    span: Span,
    file: FileId,
    reader: &mut Reader,
) -> Option<Part> {
    let prepared = reader.kernel.as_ref().map(|k| k.prepared(name, f));
    let f = prepared.as_ref().unwrap_or(f);
    let mut macs: Vec<String> = f.macs.iter().flatten().map(|m| m.value.clone()).collect();
    if let (Some(r), true) = (&f.router, macs.is_empty()) {
        macs = r.macs();
        for (n, m) in macs.iter_mut().enumerate() {
            if let Some(mac) = reader.live.at(name, n).and_then(|l| l.mac) {
                *m = mac.to_string();
            }
        }
    }
    let names = f.ports.as_ref().map(|v| {
        v.iter()
            .map(|p| {
                (
                    p.value.clone(),
                    Span::new(file, p.start, p.start + p.len.max(1)),
                )
            })
            .collect::<Vec<_>>()
    });
    let before = reader.diagnostics.iter().filter(|d| d.is_error()).count();
    let placement = Placement::of(f, file, reader);
    let mut cx = KindCx::new(name, reader, file, span);
    let mut made = kinds_of(f, &mut cx);
    let native = f.native.as_ref().and_then(|k| k.program(&cx));
    let external = (f.external.as_ref()).and_then(|k| k.black_box(&mut cx).map(Arc::new));
    let (rules, health) = (std::mem::take(&mut cx.rules), cx.health.take());
    let balanced = cx.balanced.take();
    let kinds_given = made.len() + usize::from(f.click.is_some());
    if kinds_given != 1 {
        let message = match kinds_given {
            0 => "has no kind",
            _ => "has more than one kind",
        };
        reader.error_hint(
            span,
            format!("function '{name}' {message}"),
            "give exactly one of click, firewall, router, nat, load-balancer, dpi, monitor, vlan, native, external",
        );
        return None;
    }
    let (kind, text, shown, params) = match made.pop() {
        Some((kind, text)) => (kind, text, places::text_name(name, kind), Vec::new()),
        None => click_text(name, f.click.as_ref()?, span, reader)?,
    };
    if reader.diagnostics.iter().filter(|d| d.is_error()).count() > before {
        return None;
    }
    if reader.kernel.is_some() {
        let mut cx = KindCx::new(name, reader, file, span);
        let form = kernel::form(f, &mut cx)?;
        let name = name.to_string();
        if let Some(k) = &mut reader.kernel {
            k.functions.push(KernelFunction { name, form });
        }
    }
    let dir = reader.dir.clone();
    let libraries = onefold_click::FileLibraries::new(dir.to_str());
    let mut options = onefold_click::LoadOptions::default();
    options.parse.libraries = Some(&libraries);
    match onefold_click::load(text.as_bytes(), &shown, &params, &options) {
        Ok(graph) => {
            reader.diagnostics.extend(graph.warnings.iter().cloned());
            let info = FunctionInfo {
                name: name.to_string(),
                kind,
                click: text,
                ports: Vec::new(),
                rules,
                health,
                balanced,
                placement,
                native,
                external,
            };
            Some(Part::new(reader, info, graph, names, macs, span))
        }
        Err(ds) => {
            reader.diagnostics.extend(ds);
            None
        }
    }
}

/// A Click configuration's text, its name in messages, and its parameters.
#[allow(clippy::type_complexity)]
fn click_text(
    name: &str,
    spec: &ClickSpec,
    span: Span,
    reader: &mut Reader,
) -> Option<(&'static str, String, String, Vec<(String, String)>)> {
    let (file, config, parameters) = match spec {
        ClickSpec::File(f) => (Some(f), None, Vec::new()),
        ClickSpec::Full(full) => {
            let p = full
                .parameters
                .iter()
                .map(|(k, v)| (k.clone(), v.to_string()))
                .collect();
            (full.file.as_ref(), full.config.as_ref(), p)
        }
    };
    match (file, config) {
        (Some(f), None) => {
            let (id, text) = reader.read(f, span)?;
            Some((
                "click",
                text,
                reader.sources.name(id).to_string(),
                parameters,
            ))
        }
        (None, Some(c)) => Some((
            "click",
            c.clone(),
            places::text_name(name, "config"),
            parameters,
        )),
        _ => {
            reader.error(
                span,
                format!("function '{name}': click wants either 'file' or 'config'"),
            );
            None
        }
    }
}
