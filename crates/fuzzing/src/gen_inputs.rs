//! Any text as the files that `onefold gen` reads (rule sets, address lists, size models, rule parameters): no panic,
//! bounded time, and accepted rules print and read back the same.

use onefold_bench::{
    Addresses, Ports, ProtocolMix, Rng, RuleParams, SizeModel, exercise, generate_rules,
    parse_rules, write_rules,
};

/// One input.
pub fn run(bytes: &[u8]) {
    let text = crate::text(bytes);
    match parse_rules(text) {
        Ok(rules) => {
            let mut out = Vec::new();
            write_rules(&mut out, &rules).expect("memory");
            let again = String::from_utf8(out).expect("text");
            assert_eq!(parse_rules(&again).as_ref(), Ok(&rules));
            if rules.len() < 50 {
                for (header, rule) in exercise(&rules, 100, 1, true).headers {
                    assert_eq!(onefold_bench::first_match(&rules, &header), Some(rule));
                }
            }
        }
        Err(errors) => {
            assert!(!errors.is_empty() && errors.iter().all(|e| e.line > 0 && e.column > 0))
        }
    }
    let mut rng = Rng::new(1);
    if let Ok(list) = Addresses::parse(text) {
        list.draw(&mut rng);
        assert!(list.count() > 0);
    }
    if let Ok(ports) = text.parse::<Ports>() {
        ports.draw(&mut rng);
    }
    if let Ok(mix) = text.parse::<ProtocolMix>() {
        mix.draw(&mut rng);
    }
    let _ = SizeModel::parse(text, None);
    if let Ok(model) = SizeModel::parse("m", Some(text)) {
        assert!(model.draw(&mut rng) <= onefold_bench::MAX_SIZE);
        assert!(model.mean().is_finite());
    }
    if let Ok(params) = RuleParams::from_json(text) {
        let _ = generate_rules(&params, 20, 1);
    }
}
