//! Script's own read handlers: arithmetic, comparison, logic, text.

use super::expand::quote;
use super::format::{int64, integer, real, real_text, sprintf};
use super::text::shift_word;
use onefold_element::Cx;
use onefold_element::args::unquote;
use onefold_element::handler::{HandlerError, HandlerResult, parse_bool};

/// Largest file that `cat` reads.
const MAX_FILE: u64 = 16 << 20;

fn bad(text: &str) -> HandlerError {
    HandlerError::BadValue(text.to_string())
}

fn syntax() -> HandlerError {
    bad("syntax error")
}

fn unquoted(s: &str) -> String {
    String::from_utf8_lossy(&unquote(s)).into_owned()
}

fn boolean(word: &str) -> Result<bool, HandlerError> {
    parse_bool(word).map_err(|_| syntax())
}

fn two_words(params: &str) -> Result<(&str, &str), HandlerError> {
    let (a, rest) = shift_word(params);
    let (b, rest) = shift_word(rest);
    match a.is_empty() || b.is_empty() || !rest.is_empty() {
        true => Err(bad("expected two numbers")),
        false => Ok((a, b)),
    }
}

/// `add`, `sub`, `min`, `max`, `mul`, `div`, `idiv`: integers as long as all are, and for all but the divisions.
fn fold(name: &str, params: &str) -> HandlerResult {
    let mut ints: i64 = if matches!(name, "add" | "sub") { 0 } else { 1 };
    let mut reals = ints as f64;
    let mut use_reals = matches!(name, "div" | "idiv");
    let mut first = true;
    let mut rest = params;
    while !rest.trim().is_empty() {
        let (word, r) = shift_word(rest);
        rest = r;
        let int = int64(word);
        if !use_reals && int.is_none() {
            use_reals = true;
            reals = ints as f64;
        }
        if use_reals {
            let v = real(word).ok_or_else(|| bad("expected list of numbers"))?;
            reals = match name {
                _ if first => v,
                "add" => reals + v,
                "sub" => reals - v,
                "min" => reals.min(v),
                "max" => reals.max(v),
                "mul" => reals * v,
                _ => reals / v,
            };
        } else {
            let v = int.ok_or_else(|| bad("expected list of numbers"))?;
            ints = match name {
                _ if first => v,
                "add" => ints.wrapping_add(v),
                "sub" => ints.wrapping_sub(v),
                "min" => ints.min(v),
                "max" => ints.max(v),
                _ => ints.wrapping_mul(v),
            };
        }
        first = false;
    }
    Ok(match (name, use_reals) {
        ("idiv", _) => (reals as i64).to_string(),
        (_, true) => real_text(reals),
        _ => ints.to_string(),
    })
}

fn remainder(name: &str, params: &str) -> HandlerResult {
    let (a, b) = two_words(params)?;
    match (int64(a), int64(b)) {
        (Some(_), Some(0)) => Err(bad("division by zero")),
        (Some(a), Some(b)) => Ok(a.wrapping_rem(b).to_string()),
        _ if name == "mod" => Err(bad("expected two numbers")),
        _ => match (real(a), real(b)) {
            (Some(a), Some(b)) => Ok(real_text(a % b)),
            _ => Err(bad("expected two numbers")),
        },
    }
}

fn compare(name: &str, params: &str) -> HandlerResult {
    let (a, b) = two_words(params)?;
    let order = match (int64(a), int64(b)) {
        (Some(a), Some(b)) => a.cmp(&b),
        _ => match (real(a), real(b)) {
            (Some(a), Some(b)) => a.partial_cmp(&b).unwrap_or(std::cmp::Ordering::Greater),
            _ => unquote(a).cmp(&unquote(b)),
        },
    };
    let yes = match name {
        "eq" => order.is_eq(),
        "ne" => order.is_ne(),
        "gt" => order.is_gt(),
        "ge" => order.is_ge(),
        "lt" => order.is_lt(),
        _ => order.is_le(),
    };
    Ok(yes.to_string())
}

fn logic(name: &str, params: &str) -> HandlerResult {
    let start = matches!(name, "and" | "nand");
    let mut value = start;
    let mut rest = params;
    while value == start && !rest.is_empty() {
        let (word, r) = shift_word(rest);
        rest = r;
        let x = boolean(word)?;
        value = if name == "and" {
            value && x
        } else {
            value || x
        };
    }
    Ok((value != matches!(name, "nand" | "nor")).to_string())
}

fn random(params: &str, cx: &mut Cx<'_>) -> HandlerResult {
    let draw = u64::from(cx.random() >> 1);
    if params.is_empty() {
        return Ok(draw.to_string());
    }
    let (a, rest) = shift_word(params);
    let (b, rest) = shift_word(rest);
    let number = |s: &str| {
        let v = integer(s).and_then(|v| u32::try_from(v).ok());
        v.ok_or_else(|| bad("N1: expected an unsigned number"))
    };
    if !rest.is_empty() {
        return Err(bad("too many arguments"));
    }
    let n1 = u64::from(number(a)?);
    let (low, high) = match b.is_empty() {
        true if n1 == 0 => return Err(bad("bad N")),
        true => (0, n1 - 1),
        false => (n1, u64::from(number(b)?)),
    };
    if high < low {
        return Err(bad("bad N"));
    }
    Ok((low + draw % (high - low + 1)).to_string())
}

fn file(name: &str, params: &str) -> HandlerResult {
    let path = unquoted(params.trim());
    if path.is_empty() {
        return Err(bad("bad FILE"));
    }
    let failed = |e: std::io::Error| HandlerError::BadValue(format!("{path}: {e}"));
    let size = std::fs::metadata(&path).map_err(failed)?.len();
    if size > MAX_FILE {
        return Err(HandlerError::BadValue(format!("{path}: too large")));
    }
    let bytes = std::fs::read(&path).map_err(failed)?;
    let text = String::from_utf8_lossy(&bytes).into_owned();
    Ok(match name {
        "catq" => quote(&text),
        _ => text,
    })
}

/// Handlers that take parameters and need nothing of the script itself.
pub(super) const NAMES: &[&str] = &[
    "add", "sub", "min", "max", "mul", "div", "idiv", "mod", "rem", "neg", "abs", "eq", "ne", "gt",
    "ge", "lt", "le", "not", "sprintf", "first", "random", "and", "or", "nand", "nor", "if", "in",
    "now", "readable", "writable", "length", "unquote", "htons", "htonl", "ntohs", "ntohl", "cat",
    "catq", "kill",
];

/// Calls one of [`NAMES`]; `None` if it is none of them.
pub(super) fn call(name: &str, params: &str, cx: &mut Cx<'_>) -> Option<HandlerResult> {
    Some(match name {
        "add" | "sub" | "min" | "max" | "mul" | "div" | "idiv" => fold(name, params),
        "mod" | "rem" => remainder(name, params),
        "neg" | "abs" => match (int64(params.trim()), real(params.trim())) {
            (Some(v), _) if name == "neg" || v < 0 => Ok(v.wrapping_neg().to_string()),
            (Some(v), _) => Ok(v.to_string()),
            (_, Some(v)) if name == "neg" => Ok(real_text(-v)),
            (_, Some(v)) => Ok(real_text(v.abs())),
            _ => Err(bad("expected one number")),
        },
        "eq" | "ne" | "gt" | "ge" | "lt" | "le" => compare(name, params),
        "not" => boolean(params.trim()).map(|x| (!x).to_string()),
        "and" | "or" | "nand" | "nor" => logic(name, params),
        "sprintf" => sprintf(params).ok_or_else(syntax),
        "first" => Ok(shift_word(params).0.to_string()),
        "random" => random(params, cx),
        "if" => {
            let (condition, rest) = shift_word(params);
            boolean(condition).map(|yes| {
                let (a, rest) = shift_word(rest);
                let word = if yes { a } else { shift_word(rest).0 };
                word.to_string()
            })
        }
        "in" => {
            let (word, mut rest) = shift_word(params);
            let word = unquoted(word);
            let mut found = false;
            while !word.is_empty() && !rest.is_empty() && !found {
                let (w, r) = shift_word(rest);
                rest = r;
                found = unquoted(w) == word;
            }
            Ok(found.to_string())
        }
        "now" => Ok(cx.now.to_string()),
        "readable" | "writable" => {
            let mut rest = params;
            let mut all = true;
            while !rest.is_empty() && all {
                let (w, r) = shift_word(rest);
                rest = r;
                let own = cx
                    .host
                    .find_element(cx.elem, w.split('.').next().unwrap_or(""));
                all = match own == Some(cx.elem) {
                    // its own handlers: the engine does not see into a script at work
                    true => own_handler(w, name == "writable"),
                    false => cx.host.has_handler(cx.elem, w, name == "writable"),
                };
            }
            Ok(all.to_string())
        }
        "length" => Ok(params.len().to_string()),
        "unquote" => Ok(unquoted(params)),
        "htons" | "ntohs" => match integer(params.trim()).and_then(|v| i32::try_from(v).ok()) {
            Some(v) => Ok((v as u16).to_be().to_string()),
            None => Err(syntax()),
        },
        "htonl" | "ntohl" => match integer(params.trim()).and_then(|v| i32::try_from(v).ok()) {
            Some(v) => Ok((v as u32).to_be().to_string()),
            None => Err(syntax()),
        },
        "cat" | "catq" => file(name, params),
        "kill" => Err(bad("kill: sending signals is not available")),
        _ => return None,
    })
}

fn own_handler(call: &str, writable: bool) -> bool {
    let name = call.split_once('.').map_or(call, |(_, h)| h);
    match writable {
        true => matches!(name, "step" | "goto" | "run" | "set"),
        false => matches!(name, "run" | "get" | "shift") || NAMES.contains(&name),
    }
}
