//! One-to-one translation.

use super::Nat;
use crate::file::Loc;
use crate::kinds::{ClickText, ICMP_ERRORS, KindCx, WRONG_SIDE, discard};
use crate::workers::Kind;
use std::collections::BTreeSet;
use std::net::Ipv4Addr;

impl Nat {
    pub(super) fn static_pairs(&self, cx: &mut KindCx<'_>, list: &[Loc<String>]) -> String {
        for what in self.given_of_pools() {
            cx.error_whole(format!("'{what}' goes with 'pool', not with 'one-to-one'"));
        }
        let pairs = pairs(cx, list);
        if list.is_empty() {
            cx.error_whole("'one-to-one' needs at least one pair");
        }
        if pairs.is_empty() {
            return String::new();
        }
        cx.translates(Kind::Pairs);
        if let Some(t) = cx.reader.translators.last_mut() {
            t.six = self.prefixes.is_some();
        }
        let mut t = ClickText::new();
        // Input i: from inside for pair i; input n+i: from outside for pair i.
        t.line("rw :: IPAddrPairRewriter(");
        for (l, (_, outside)) in &pairs {
            t.line_at(cx.reader, cx.at(l), format!("pattern {outside} - 0 1,"));
        }
        for (l, (inside, _)) in &pairs {
            // flows that start outside: to the outside address, rewritten to the inside one
            t.line_at(cx.reader, cx.at(l), format!("pattern - {inside} 1 0,"));
        }
        t.line(format!("TAKE_OVER false{});", self.capacity_option(cx)));
        self.frames(cx, &mut t, pairs.iter().map(|(_, p)| p.1).collect());
        // a type is asked of ICMP packets only: see the load balancer
        t.line(
            "from_in -> q_in :: IPClassifier(icmp, -); from_out -> q_out :: IPClassifier(icmp, -);",
        );
        t.line(format!(
            "q_in[0] -> k_in :: IPClassifier({ICMP_ERRORS}, -);"
        ));
        t.line(format!(
            "q_out[0] -> k_out :: IPClassifier({ICMP_ERRORS}, -);"
        ));
        let side = |f: &dyn Fn(&(Ipv4Addr, Ipv4Addr)) -> String| -> String {
            let mut v: Vec<String> = pairs.iter().map(|(_, p)| f(p)).collect();
            v.push("-".into());
            v.join(", ")
        };
        let n = pairs.len();
        t.line(format!(
            "q_in[1] -> c_in :: IPClassifier({});",
            side(&|p| format!("src host {}", p.0))
        ));
        t.line(format!(
            "q_out[1] -> c_out :: IPClassifier({});",
            side(&|p| format!("dst host {}", p.1))
        ));
        for i in 0..n {
            t.line(format!(
                "c_in[{i}] -> [{i}]rw; c_out[{i}] -> [{}]rw;",
                n + i
            ));
        }
        t.line(format!(
            "c_in[{n}] -> {}; c_out[{n}] -> {};",
            discard("source address is in no one-to-one pair"),
            discard("destination address is in no one-to-one pair")
        ));
        if self.hairpin {
            let own: Vec<String> =
                (pairs.iter().map(|(_, p)| format!("dst host {}", p.1))).collect();
            t.line(format!(
                "rw[0] -> hair :: IPClassifier(({}), -) -> LoopGuard -> from_out; hair[1] -> to_out;",
                own.join(" or ")
            ));
        } else {
            t.line("rw[0] -> to_out;");
        }
        t.line("rw[1] -> to_in; k_in[1] -> c_in; k_out[1] -> c_out;");
        static_errors(&mut t, &pairs);
        t.finish()
    }
}

/// A pair of addresses, inside and outside, with its place.
type Pair<'a> = (&'a Loc<String>, (Ipv4Addr, Ipv4Addr));

/// Reads one-to-one pairs: no address is in two of them.
fn pairs<'a>(cx: &mut KindCx<'_>, list: &'a [Loc<String>]) -> Vec<Pair<'a>> {
    let mut pairs = Vec::new();
    let (mut inside, mut outside) = (BTreeSet::new(), BTreeSet::new());
    for l in list {
        let p = l.value.split_once('=').and_then(|(a, b)| {
            Some((
                a.trim().parse::<Ipv4Addr>().ok()?,
                b.trim().parse::<Ipv4Addr>().ok()?,
            ))
        });
        match p {
            Some(p) if !inside.insert(p.0) => {
                cx.error(l, format!("inside address {} has a pair already", p.0));
            }
            Some(p) if !outside.insert(p.1) => {
                cx.error(l, format!("outside address {} has a pair already", p.1));
            }
            Some(p) => pairs.push((l, p)),
            None => cx.error(l, format!("expected INSIDE = OUTSIDE, found '{}'", l.value)),
        }
    }
    pairs
}

/// ICMP errors through one-to-one translation, from `k_in[0]` and `k_out[0]`. The packet that an error quotes
/// is translated first. An inside sender with a pair is then translated as in any packet of its own; one without gets
/// the outside address of who the quoted packet was for (RFC 5508 REQ-5).
fn static_errors(t: &mut ClickText, pairs: &[Pair<'_>]) {
    let own: Vec<String> = pairs
        .iter()
        .map(|(_, p)| format!("src host {}", p.0))
        .collect();
    let own = own.join(" or ");
    t.line(format!("k_in[0] -> who :: IPClassifier({own}, -);"));
    let wrong_side = discard(WRONG_SIDE);
    t.line("who[0] -> err_own :: ICMPRewriter(rw:0, STRICT true); err_own[0] -> c_in;");
    t.line("who[1] -> err_out :: ICMPRewriter(rw:0, SOURCE all, STRICT true);");
    t.line(format!(
        "err_own[1] -> {wrong_side}; err_out[0] -> to_out; err_out[1] -> {wrong_side};"
    ));
    t.line("k_out[0] -> err_in :: ICMPRewriter(rw:0, SOURCE own, STRICT true);");
    t.line(format!("err_in[1] -> to_in; err_in[0] -> {wrong_side};"));
}
