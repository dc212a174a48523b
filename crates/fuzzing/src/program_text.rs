//! Any text as a program: no panic, bounded time and memory; errors have places; what is accepted prints and reads back
//! as the same program, and the verifier pass judges it.

use onefold_synth::{check, text};

/// One input.
pub fn run(bytes: &[u8]) {
    let Ok(given) = std::str::from_utf8(bytes) else {
        return;
    };
    match text::parse(given) {
        Err(errors) => {
            assert!(!errors.is_empty() && errors.len() <= text::MAX_ERRORS);
            assert!(errors.iter().all(|e| e.line >= 1 && e.column >= 1));
        }
        Ok(program) => {
            let report = check::check(&program);
            assert!(report.violations.len() <= check::MAX_VIOLATIONS);
            let printed = text::print(&program);
            match text::parse(&printed) {
                Ok(again) => {
                    assert_eq!(again, program, "{printed}");
                    assert_eq!(text::print(&again), printed);
                }
                Err(errors) => panic!("{errors:?}\n{printed}"),
            }
        }
    }
}
