//! Texts that are made to hurt: refused or handled, in bounded time and memory, with an error that says which bound.

use onefold_click::limits::*;
use onefold_click::{FlatGraph, Globals, LoadOptions, diag::Diagnostic, load};
use std::fmt::Write;
use std::time::{Duration, Instant};

fn read(text: impl AsRef<[u8]>) -> Result<FlatGraph, Vec<Diagnostic>> {
    let start = Instant::now();
    let result = load(text.as_ref(), "hostile", &[], &LoadOptions::default());
    // Far more than it takes, far less than without bounds.
    assert!(
        start.elapsed() < Duration::from_secs(60),
        "took {:?}",
        start.elapsed()
    );
    result
}

#[track_caller]
fn refused(text: impl AsRef<[u8]>, why: &str) {
    let Err(errors) = read(text) else {
        panic!("accepted, expected {why:?}")
    };
    let found = errors.iter().any(|e| e.message.contains(why));
    assert!(
        found,
        "expected {why:?}, got {}",
        errors.first().map(|e| e.to_string()).unwrap_or_default()
    );
    assert!(errors.len() <= 2 * (MAX_ERRORS + 2));
    for error in &errors {
        assert!(error.render(false).len() < 20_000);
    }
}

/// `count` classes, each of which uses the one before `width` times.
fn tower(count: usize, width: usize, inner: &str) -> String {
    let mut text = format!("elementclass C0 {{ {inner} }}\n");
    for i in 1..count {
        writeln!(
            text,
            "elementclass C{i} {{ {} }}",
            format!("C{}; ", i - 1).repeat(width)
        )
        .unwrap();
    }
    writeln!(text, "C{};", count - 1).unwrap();
    text
}

#[test]
fn deep_nesting() {
    let braces = |n: usize| "{".repeat(n) + &"}".repeat(n);
    let groups = |n: usize| {
        let (open, close) = ("(input -> ".repeat(n), ") -> output".repeat(n - 1));
        format!("x :: X -> {open} output {close}) -> y :: Y")
    };
    read(braces(MAX_NESTING)).unwrap();
    assert_eq!(read(groups(MAX_NESTING)).unwrap().connections.len(), 1);
    for n in [MAX_NESTING + 1, 100_000] {
        refused(braces(n), "inside one another");
        refused(groups(n), "inside one another");
        refused("{".repeat(n), "inside one another");
        refused("x -> (".repeat(n), "inside one another");
    }
    refused("a :: {".repeat(1_000_000), "inside one another");
    // Parentheses in configuration strings are not nested by the parser.
    let text = format!("A({}{});", "(".repeat(1_000_000), ")".repeat(1_000_000));
    assert_eq!(read(text).unwrap().elements[0].config.len(), 2_000_000);
}

#[test]
fn exponential_expansion() {
    refused(tower(64, 2, "A"), "once its compound elements are expanded");
    refused(
        tower(10, 1000, ""),
        "once its compound elements are expanded",
    );
    let graph = read(tower(10, 2, "A")).unwrap();
    assert_eq!((graph.elements.len(), graph.compounds.len()), (512, 1023));
}

#[test]
fn deep_expansion() {
    refused(tower(MAX_EXPANSION_DEPTH + 1, 1, "A"), "inside one another");
    assert_eq!(
        read(tower(MAX_EXPANSION_DEPTH, 1, "A"))
            .unwrap()
            .elements
            .len(),
        1
    );
    refused(tower(20_000, 1, "A"), "inside one another");
    // A class inside itself is another class of the same name, so definitions cannot be cyclic.
    let graph = read("elementclass A { B } elementclass B { A } A; B;").unwrap();
    let names: Vec<&str> = graph.elements.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["A@1/B@1", "B@2/A@1/B@1"]);
    let synonyms: String = (1..20_000).fold(String::new(), |mut text, i| {
        writeln!(text, "elementclass S{i} S{};", i - 1).unwrap();
        text
    });
    assert_eq!(read(synonyms + "S19999").unwrap().elements[0].class, "S0");
}

#[test]
fn explosive_parameters() {
    // Each value is ten of the one before.
    let mut text = String::from("define($a0 x");
    for i in 1..40 {
        write!(text, ", $a{i} {}", format!("$a{}", i - 1).repeat(10)).unwrap();
    }
    refused(text + "); A($a39)", "substituted");
    refused(
        format!("define($a {}); A($a)", "$a".repeat(1000)),
        "substituted",
    );
    let mut text = String::from("elementclass C0 { $a | A($a) }\n");
    for i in 1..50 {
        writeln!(text, "elementclass C{i} {{ $a | C{}($a$a) }}", i - 1).unwrap();
    }
    refused(text + "C49(x)", "substituted");
    // References that refer to each other end by themselves.
    let graph = read("define($a $b, $b $a); A($a)").unwrap();
    assert!(graph.elements[0].config.starts_with('$'));
}

#[test]
fn many_of_everything() {
    refused("A;".repeat(MAX_NODES), "more than");
    refused("a::A;".repeat(1_000_000), "stopped after");
    refused("[".repeat(1_000_000), "stopped after");
    refused("x [0-65535] => y;".repeat(100), "ports in port lists");
    refused("x [0-99999999999999999999] => y;", "port numbers go up to");
    refused(
        format!("x [{}0] => y;", "0,".repeat(2_000_000)),
        "ports in port lists",
    );
    refused(format!("A({})", ",".repeat(MAX_ARGUMENTS + 1)), "arguments");
    let formals: Vec<String> = (0..100_000).map(|i| format!("$a{i}")).collect();
    refused(
        format!("elementclass C {{ {} | }}", formals.join(",")),
        "parameters",
    );
    let variants: Vec<String> = (0..5000).map(|i| format!("$a{i} | ")).collect();
    refused(
        format!("elementclass C {{ {} }}", variants.join("||")),
        "variants",
    );
    refused("elementclass C { $a | || ... } ".repeat(5000), "variants");
    refused("#!\n".repeat(1_000_000), "stopped after");
    refused("require(a b)".repeat(100_000), "stopped after");
    assert_eq!(
        read("# 1 \"x\"\n".repeat(1_000_000) + "a :: A")
            .unwrap()
            .elements
            .len(),
        1
    );
    let name = "a/".repeat(5_000_000) + "a";
    assert_eq!(
        read(format!("{name} :: A;")).unwrap().elements[0]
            .name
            .len(),
        name.len()
    );
}

#[test]
fn names_that_collide() {
    // Each element without a name finds its first choices taken.
    let taken: Vec<String> = (0..40_000).map(|i| format!("A@{i}")).collect();
    let text = format!("{} :: B; {}", taken.join(","), "A;".repeat(40_000));
    assert_eq!(read(text).unwrap().elements.len(), 80_000);
}

#[test]
fn many_connections() {
    // A thousand outputs of a compound element lead to a thousand inputs each.
    let many = |what: &str| what.repeat(1100);
    let text = format!(
        "elementclass C {{ {} }} c :: C; {}",
        many("X -> output; "),
        many("c -> Y; ")
    );
    refused(text, "connections");
    // Each group doubles the ways.
    let chain = "=> ([0] -> [0]; [0] -> [1]; [1] -> [0]; [1] -> [1]) ".repeat(90);
    let graph = read(format!("x :: X [0, 1] {chain} => [0, 1] y :: Y;")).unwrap();
    assert_eq!((graph.elements.len(), graph.connections.len()), (2, 4));
}

#[test]
fn long_chains_of_tunnels() {
    let graph = read(format!(
        "elementclass N {{ -> }} a :: A {} -> b :: B",
        "-> N ".repeat(50_000)
    ))
    .unwrap();
    assert_eq!((graph.elements.len(), graph.connections.len()), (2, 1));
    // A ring of them.
    let text = format!(
        "elementclass N {{ -> }} n :: N {} -> n",
        "-> N ".repeat(50_000)
    );
    assert_eq!(read(text).unwrap().connections.len(), 0);
}

#[test]
fn enormous_literals() {
    let text = format!(
        "A(\"{}\", '{}', \\<{}>)",
        "x".repeat(3 << 20),
        "y".repeat(3 << 20),
        "0 ".repeat(3 << 20)
    );
    assert_eq!(read(text).unwrap().elements[0].args().len(), 3);
    refused(format!("A(\"{}", "(".repeat(10 << 20)), "end of the text");
    assert!(
        read(format!("/* {}", "*".repeat(10 << 20)))
            .unwrap()
            .elements
            .is_empty()
    );
}

#[test]
fn bytes_that_are_no_text() {
    refused(b"a :: A(\xff\xfe);", "not UTF-8");
    refused(b"\xff\xfe\x00a", "unexpected");
    refused(b"a :: A; \0 garbage", "zero byte");
    refused(b"\xe2\x82 -> b", "unexpected");
    // Comments may contain anything, also in configuration strings if they are UTF-8.
    let graph = read(b"a :: A; // caf\xe9\n/* \xff\0 */ b :: B(\xc3\xa9 // \xc3\xa9\n)").unwrap();
    assert_eq!(graph.elements[1].args()[0], "\u{e9}");
    let quoted = onefold_click::conf::unquote(r#""\xff\<00 fe>\303\251""#);
    assert_eq!(quoted, b"\xff\x00\xfe\xc3\xa9");
}

#[test]
fn archives_of_parameters() {
    let params: Vec<(String, String)> = (0..50_000)
        .map(|i| (format!("p{i}"), "$p0".repeat(10)))
        .collect();
    let options = LoadOptions {
        globals: Globals::Keep,
        ..LoadOptions::default()
    };
    let graph = load(b"A($p1, $p2)", "hostile", &params, &options).unwrap();
    assert_eq!(graph.defines.len(), 50_000);
}
