//! Prints a Click configuration with its compound elements expanded.
//!
//! `flatten [--expand-vars] [-e TEXT | FILE] [NAME=VALUE]...`

use onefold_click::{FileLibraries, Globals, LoadOptions, ParseOptions, diag, load};
use std::process::ExitCode;

fn main() -> ExitCode {
    let mut params = Vec::new();
    let mut input = None;
    let mut globals = Globals::Keep;
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let parameter = arg.split_once('=').filter(|(name, _)| {
            !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
        });
        match (arg.as_str(), parameter) {
            ("--expand-vars", _) => globals = Globals::Substitute,
            ("-e", _) => {
                input = args
                    .next()
                    .map(|text| ("config".to_owned(), text.into_bytes()))
            }
            (_, Some((name, value))) => params.push((name.to_owned(), value.to_owned())),
            (file, None) => match std::fs::read(file) {
                Ok(text) => input = Some((file.to_owned(), text)),
                Err(error) => {
                    eprintln!("{file}: {error}");
                    return ExitCode::from(2);
                }
            },
        }
    }
    let Some((name, text)) = input else {
        eprintln!("usage: flatten [--expand-vars] [-e TEXT | FILE] [NAME=VALUE]...");
        return ExitCode::from(2);
    };
    let path = std::env::var("CLICKPATH").ok();
    let libraries = FileLibraries::new(path.as_deref());
    let parse = ParseOptions {
        libraries: Some(&libraries),
        ..ParseOptions::default()
    };
    match load(&text, &name, &params, &LoadOptions { parse, globals }) {
        Ok(graph) => {
            eprint!("{}", diag::render_all(&graph.warnings, false));
            print!("{}", graph.to_click_text());
            ExitCode::SUCCESS
        }
        Err(diagnostics) => {
            eprint!("{}", diag::render_all(&diagnostics, false));
            ExitCode::FAILURE
        }
    }
}
