//! NPTv6: prefixes of IPv6 addresses, translated without state (RFC 6296).

use super::Nat;
use crate::file::Loc;
use crate::kinds::address::network;
use crate::kinds::side6::Side6;
use crate::kinds::{ClickText, KindCx, NOT_IP6, VLAN_TAGGED, discard};
use schemars::JsonSchema;
use serde::Deserialize;
use std::net::Ipv6Addr;

/// Longest prefix: what is behind is the interface identifier.
const LONGEST: u8 = 64;
/// Most pairs.
const MAX_PAIRS: usize = 256;

/// A prefix inside, and the one that stands for it outside.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct PrefixPair {
    /// The prefix inside: `fd00:1::/48`.
    pub inside: Loc<String>,
    /// The prefix outside, of the same length: `2001:db8:1::/48`.
    pub outside: Loc<String>,
}

/// A prefix.
type Prefix = (Ipv6Addr, u8);

/// A pair that has been checked.
struct Checked<'a> {
    pair: &'a PrefixPair,
    inside: Prefix,
    outside: Prefix,
}

impl Nat {
    /// IPv6 at the inside and the outside, and what stands in front of what leaves.
    pub(super) fn sides6(&self) -> (Side6<'_>, Side6<'_>, &'static str) {
        let side = |port, encap| Side6 {
            port,
            encap,
            own: Vec::new(),
        };
        let hops = match self.decrement_ttl {
            true => "DecIP6HLIM -> ",
            false => "",
        };
        let inside = side(0, self.encap_inside.as_ref());
        (inside, side(1, self.encap_outside.as_ref()), hops)
    }

    /// A function that translates nothing else.
    pub(super) fn prefixes_alone(&self, cx: &mut KindCx<'_>) -> String {
        for what in self.given_of_pools() {
            cx.error_whole(format!("'{what}' goes with 'pool', not with 'prefixes'"));
        }
        if let Some(c) = &self.capacity {
            cx.error(
                c,
                "'capacity' is of flows, and prefixes are translated without any",
            );
        }
        cx.translates(crate::workers::Kind::Pairs);
        if let Some(t) = cx.reader.translators.last_mut() {
            t.six = true;
        }
        let mut t = ClickText::new();
        for n in 0..2 {
            t.line(format!(
                "FromDevice({n}) -> e{n} :: Classifier(12/86dd, 12/8100, -);"
            ));
            t.line(format!(
                "e{n}[1] -> {}; e{n}[2] -> {};",
                discard(VLAN_TAGGED),
                discard(NOT_IP6)
            ));
        }
        self.prefix_ways(cx, &mut t, 0, true);
        t.finish()
    }

    /// The way of IPv6 frames, which come from output `output` of `e0` and `e1`; `declare`: the devices are not
    /// declared elsewhere.
    pub(super) fn prefix_ways(
        &self,
        cx: &mut KindCx<'_>,
        t: &mut ClickText,
        output: usize,
        declare: bool,
    ) {
        let Some(list) = &self.prefixes else { return };
        let pairs = checked(cx, list);
        if pairs.is_empty() {
            return;
        }
        let (inside, outside, hops) = self.sides6();
        outside.leave(cx, t, &format!("to_out6 :: Null -> {hops}"), declare);
        inside.leave(cx, t, &format!("to_in6 :: Null -> {hops}"), declare);
        translator(cx, t, "out6 :: IP6PrefixTranslate(SOURCE", &pairs, true);
        translator(
            cx,
            t,
            "in6 :: IP6PrefixTranslate(DESTINATION",
            &pairs,
            false,
        );
        let from = |n: usize| format!("e{n}[{output}]");
        let first = match self.nat64 {
            Some(_) => "in64",
            None => "out6",
        };
        inside.arrive(cx, t, &outside, (&from(0), first));
        outside.arrive(cx, t, &inside, (&from(1), "in6"));
        if self.hairpin {
            let own: Vec<String> = (pairs.iter())
                .map(|p| format!("dst net {}", shown(p.outside)))
                .collect();
            t.line(format!(
                "out6[0] -> hair6 :: IP6Classifier({}, -) -> LoopGuard -> in6; hair6[1] -> to_out6;",
                own.join(" or ")
            ));
        } else {
            t.line("out6[0] -> to_out6;");
        }
        t.line(format!(
            "in6[0] -> to_in6; out6[1] -> {}; in6[1] -> {};",
            discard("source address is in no prefix that is translated"),
            discard("destination address is in no prefix that is translated")
        ));
    }
}

fn shown((a, len): Prefix) -> String {
    format!("{a}/{len}")
}

/// The element that translates addresses, from inside prefixes to outside ones or back.
fn translator(
    cx: &KindCx<'_>,
    t: &mut ClickText,
    head: &str,
    pairs: &[Checked<'_>],
    outwards: bool,
) {
    t.line(format!("{head},"));
    for (i, p) in pairs.iter().enumerate() {
        let (from, to) = match outwards {
            true => (p.inside, p.outside),
            false => (p.outside, p.inside),
        };
        let comma = if i + 1 < pairs.len() { "," } else { "" };
        let text = format!("{} {}{comma}", shown(from), shown(to));
        t.line_at(cx.reader, cx.at(&p.pair.inside), text);
    }
    t.line(");");
}

/// Pairs without those that something is wrong with, which is told.
fn checked<'a>(cx: &mut KindCx<'_>, list: &'a [PrefixPair]) -> Vec<Checked<'a>> {
    if list.is_empty() || list.len() > MAX_PAIRS {
        cx.error_whole(format!("'prefixes' has 1 to {MAX_PAIRS} pairs"));
        return Vec::new();
    }
    let mut all: Vec<Checked<'a>> = Vec::new();
    for pair in list {
        let ends = (prefix(cx, &pair.inside), prefix(cx, &pair.outside));
        let (Some(inside), Some(outside)) = ends else {
            continue;
        };
        if inside.1 != outside.1 {
            cx.error(
                &pair.outside,
                "both prefixes of a pair have the same length: each address has one on the other side",
            );
            continue;
        }
        let taken = |l: &Loc<String>, p: Prefix, of: &dyn Fn(&Checked<'a>) -> Prefix| {
            let other = all.iter().map(of).find(|o| overlap(*o, p))?;
            Some((
                l.clone(),
                format!("{} is in another pair already", shown(other)),
            ))
        };
        let wrong = taken(&pair.inside, inside, &|c| c.inside)
            .or_else(|| taken(&pair.outside, outside, &|c| c.outside));
        match wrong {
            Some((at, why)) => cx.error(&at, why),
            None => all.push(Checked {
                pair,
                inside,
                outside,
            }),
        }
    }
    all
}

/// Do two prefixes have addresses in common?
fn overlap(a: Prefix, b: Prefix) -> bool {
    let len = u32::from(a.1.min(b.1));
    (u128::from(a.0) ^ u128::from(b.0)).leading_zeros() >= len
}

/// Reads a prefix; an error is recorded.
fn prefix(cx: &mut KindCx<'_>, l: &Loc<String>) -> Option<Prefix> {
    let (a, len) = match network::<Ipv6Addr>(l.value.trim(), 128, "2001:db8:1::/48") {
        Ok(found) => found,
        Err(why) => {
            cx.error(l, why);
            return None;
        }
    };
    if !(1..=LONGEST).contains(&len) {
        let text = format!(
            "`{}`: a prefix that is translated is from 1 to {LONGEST} bits long",
            l.value
        );
        cx.error(l, text);
        return None;
    }
    if u128::from(a) << len != 0 {
        let text = format!("`{}`: bits behind the prefix are set", l.value);
        cx.error(l, text);
        return None;
    }
    Some((a, len))
}
