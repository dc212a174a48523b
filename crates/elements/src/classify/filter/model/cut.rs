//! What a list of rules does with packets that end within their transport header, which its model hands over.
//!
//! For every number of bytes that are there the rules are other ones: a test of what is not there fails, whatever it
//! asks for. That is many rules for few packets; nobody wants them in a program, but a proof may ask.

use super::*;

/// Longer lists are left as they are: there would be a copy for each length.
const MAX_RULES: usize = 2_000;

/// Cases for IPv4 packets whose transport header is cut off; all others are handed over.
pub fn finer(rules: &[Rule], reasons: &Reasons) -> Option<Vec<Case>> {
    let whole = Places {
        six: false,
        loose: false,
        cut: None,
    };
    let mut needs = Needs::default();
    rules.iter().for_each(|r| needs.expr(&r.expr, whole));
    if rules.len() > MAX_RULES {
        return None;
    }
    let handed = |when: Cond, cause| Case::new(when, Exit::Punt(cause));
    let later = ValueSet::one(0).complement(13);
    let mut out = vec![
        handed(onefold_element::model::build::no_net(), "no network header"),
        handed(
            Cond::less(Read::NetLen, needs.net.max(20).into()),
            "network header cut off",
        ),
        handed(Cond::In(Read::Field(field::IP_FRAGOFF), later), FRAGMENT),
    ];
    let most = needs.transport.values().copied().max().unwrap_or(0);
    let mut last: Option<(ValueSet, Vec<Case>)> = None;
    let mut from = 0;
    // Bound: bytes of a header
    for n in 0..most.max(needs.any) {
        let short = |p: &u128| {
            let of = needs.transport.get(&(*p as u8)).copied();
            of.unwrap_or(0).max(needs.any) > n
        };
        let protocols = ValueSet::from_intervals((0..=255).filter(short).map(|p| (p, p)));
        let at = Places {
            cut: Some(n),
            ..whole
        };
        let cases = cases(rules, at, reasons);
        if let Some((p, c)) = &last {
            if *p == protocols && *c == cases {
                continue;
            }
            guarded(&mut out, p, (from, n - 1), c);
        }
        from = n;
        last = Some((protocols, cases));
    }
    if let Some((p, c)) = &last {
        let to = most.max(needs.any).saturating_sub(1);
        guarded(&mut out, p, (from, to), c);
    }
    out.push(handed(Cond::Always, "not cut off"));
    Some(out)
}

/// The rules, where so much is there.
fn cases(rules: &[Rule], at: Places, reasons: &Reasons) -> Vec<Case> {
    let mut out = Vec::new();
    for r in rules {
        // where it only may match: from here on nothing can be said of what it may take
        let (when, exit) = rule_case(r, at, reasons, Exit::Punt);
        let always = when == Cond::Always;
        if when != Cond::Never {
            out.push(Case::new(when, exit).from_arg(r.argument as usize));
        }
        if always {
            return out;
        }
    }
    out.push(Case::new(Cond::Always, Exit::Drop(reasons.no_match)).policy());
    out
}

/// These cases for packets of these protocols with so many bytes.
fn guarded(out: &mut Vec<Case>, protocols: &ValueSet, (from, to): (u16, u16), cases: &[Case]) {
    let mut guard = vec![Cond::In(
        Read::TransportLen,
        ValueSet::range(from.into(), to.into()),
    )];
    if !protocols.is_full(8) {
        guard.push(Cond::In(Read::Field(field::IP_PROTO), protocols.clone()));
    }
    for c in cases {
        let mut all = guard.clone();
        match &c.when {
            Cond::Always => {}
            Cond::All(list) => all.extend(list.iter().cloned()),
            c => all.push(c.clone()),
        }
        out.push(Case {
            when: Cond::All(all),
            ..c.clone()
        });
    }
}
