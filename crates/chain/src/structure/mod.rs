//! All that is wrong with a chain file's structure, at once.
//!
//! The library that reads YAML stops at the first value that is not what it should be. Where it does, the document is
//! read again as a tree with places, and the tree is held against the chain file's JSON Schema: every unknown key, every
//! key that is missing, every value of the wrong kind. What is right is read nevertheless, without the functions and
//! other parts that are wrong, so that the values in it can be looked at, too.

mod node;
mod partial;
mod walk;

use crate::error::Reader;
use crate::file::ChainFile;
use crate::yaml;
use onefold_click::diag::Diagnostic;
use onefold_click::source::FileId;
pub(crate) use partial::LeftOut;

/// Most errors that are told of a file's structure one by one.
const MOST_ERRORS: usize = 20;

/// Reads a chain file, whose parameters have been replaced. What is wrong with it is recorded; where something is, what
/// is left of it is given back, and what was left out.
pub(crate) fn read(
    text: &str,
    file: FileId,
    reader: &mut Reader,
) -> Option<(ChainFile, Option<LeftOut>)> {
    let before = reader.diagnostics.len();
    if let Some(doc) = yaml::read(text, file, reader) {
        return Some((doc, None));
    }
    let (tree, wrong) = look(text, false, file, before, reader)?;
    let (rest, left_out) = partial::without(text, &tree, &wrong)?;
    let doc = yaml::read_quietly(&rest)?;
    Some((doc, Some(left_out)))
}

/// Tells what is wrong with the structure of a text whose parameters have not been replaced, beside what has been told
/// since there were `before` diagnostics.
pub(crate) fn tell(text: &str, file: FileId, before: usize, reader: &mut Reader) {
    look(text, true, file, before, reader);
}

/// Holds the document against the schema. `None`: it is not even YAML, or nothing is wrong that a schema says.
fn look(
    text: &str,
    raw: bool,
    file: FileId,
    before: usize,
    reader: &mut Reader,
) -> Option<(node::Node, Vec<walk::Wrong>)> {
    let tree = node::read(text)?;
    let wrong = walk::walk(text, raw, &tree);
    if wrong.is_empty() {
        return None;
    }
    // the first of them has been told, in the library's words
    reader.diagnostics.truncate(before);
    for w in wrong.iter().take(MOST_ERRORS) {
        let d = Diagnostic::error(&w.message).at(&reader.sources, w.span(file));
        reader.diagnostics.push(d.maybe_hint(w.hint.clone()));
    }
    if let Some(more) = wrong.len().checked_sub(MOST_ERRORS).filter(|n| *n > 0) {
        let d = Diagnostic::error(format!("and {more} more errors of this kind"));
        let d = d.at(&reader.sources, wrong[MOST_ERRORS].span(file));
        reader.diagnostics.push(d);
    }
    Some((tree, wrong))
}

#[cfg(test)]
mod tests;
