//! Elements, arguments and compounds know where they were written.

use onefold_click::source::Location;
use onefold_click::{FileLibraries, FlatGraph, LoadOptions, ParseOptions, diag, load};

fn read(text: &str) -> FlatGraph {
    load(text.as_bytes(), "main.click", &[], &LoadOptions::default())
        .unwrap_or_else(|errors| panic!("{}", diag::render_all(&errors, false)))
}

fn places(graph: &FlatGraph, element: &str) -> Vec<String> {
    let element = &graph.elements[graph.find(element).unwrap()];
    element
        .args()
        .iter()
        .map(|a| format!("{a} {}", graph.sources.locate(a.span().unwrap())))
        .collect()
}

/// Generated filters say which line of the rule file each argument is.
const FILTER: &str = "fw :: IPFilter(
# 3 \"rules.txt\"
allow tcp,
# 8
deny udp, /* two on a line */ deny icmp,
# 1 \"more \\\"rules\\\"\"
allow all
# 7 \"\"
); x :: X(1);";

#[test]
fn arguments_are_where_line_directives_say() {
    let graph = read(FILTER);
    let expected = [
        "allow tcp rules.txt:3:1",
        "deny udp rules.txt:8:1",
        "deny icmp rules.txt:8:31",
        "allow all more \"rules\":1:1",
    ];
    assert_eq!(places(&graph, "fw"), expected);
    assert_eq!(places(&graph, "x"), ["1 main.click:7:11"]);
    assert!(!graph.elements[0].config.contains('#'));
}

#[test]
fn line_directives_can_be_ignored() {
    let parse = ParseOptions {
        ignore_line_directives: true,
        ..ParseOptions::default()
    };
    let options = LoadOptions {
        parse,
        ..LoadOptions::default()
    };
    let graph = load(FILTER.as_bytes(), "main.click", &[], &options).unwrap();
    assert_eq!(places(&graph, "fw")[1], "deny udp main.click:5:1");
}

#[test]
fn arguments_of_compounds_are_where_they_were_given() {
    let graph = read(
        "elementclass Fw { $first, RULES $rules, __REST__ $rest |\n  -> f :: IPFilter($first, $rules, \"<$first>\", x $first y, $rest) -> }\n\
         s -> fw :: Fw(deny src,\n   RULES allow dst,\n one, two) -> t;",
    );
    let expected = [
        "deny src main.click:3:15",
        "allow dst main.click:4:10",
        "\"<deny src>\" main.click:2:36",
        "x deny src y main.click:2:48",
        "one main.click:5:2",
        "two main.click:5:7",
    ];
    assert_eq!(places(&graph, "fw/f"), expected);
    let quoted = &graph.elements[graph.find("fw/f").unwrap()].args()[2];
    let inner = graph.sources.locate(quoted.span_of(2..3).unwrap());
    assert_eq!(inner.to_string(), "main.click:3:15");
}

#[test]
fn compounds_around_an_element() {
    let graph = read(
        "elementclass In { -> x :: X -> } elementclass Out { -> in :: In -> }\ns -> o :: Out -> { -> In -> } -> t",
    );
    let path = |name: &str| -> Vec<String> {
        let show = |c: &&onefold_click::FlatCompound| {
            format!("{}: {} {}", c.name, c.class, graph.sources.locate(c.span))
        };
        graph
            .compound_path(graph.find(name).unwrap())
            .iter()
            .map(show)
            .collect()
    };
    assert_eq!(
        path("o/in/x"),
        ["o: Out main.click:2:6", "o/in: In main.click:1:56"]
    );
    assert_eq!(path("@3/In@1/x").len(), 2);
    assert!(path("s@1").is_empty());
    assert!(graph.elements[graph.find("s@1").unwrap()].anonymous);
    assert!(!graph.elements[graph.find("o/in/x").unwrap()].anonymous);
}

#[test]
fn ports_in_use_are_counted() {
    let graph = read("a :: A; b :: B; a [2] -> b; a -> [1] b; C;");
    assert_eq!(graph.port_counts(), [(0, 3), (2, 0), (0, 0)]);
}

#[test]
fn parameters_come_from_the_command_line() {
    let params = [("size".to_owned(), "64, 128".to_owned())];
    let graph = load(
        b"define($size 1); A($size)",
        "main.click",
        &params,
        &LoadOptions::default(),
    )
    .unwrap();
    assert_eq!(
        places(&graph, "A@1"),
        ["64 command line:1:6", "128 command line:1:10"]
    );
}

#[test]
fn unknown_classes_are_reported_all_at_once() {
    let graph = read(
        "elementclass Fast { -> Qeue(1) -> Fast -> }\nqueue :: Queue; src :: Source -> Fast -> queu -> Fast -> Discrad;",
    );
    let errors = graph.unknown_classes(["Queue", "Discard", "Source"]);
    let lines: Vec<String> = errors.iter().map(|e| e.to_string()).collect();
    assert_eq!(
        lines,
        [
            "main.click:1:24: error: unknown element class 'Qeue' (did you mean 'Queue'?)",
            "main.click:1:35: error: unknown element class 'Fast'",
            "main.click:2:42: error: unknown element class 'queu' (did you mean 'queue' or 'Queue'?)",
            "main.click:2:58: error: unknown element class 'Discrad' (did you mean 'Discard'?)",
        ]
    );
    assert!(errors[1].notes[0].message.contains("not recursive"));
}

#[test]
fn libraries_are_read_once_from_beside_the_file_or_the_path() {
    let root = std::env::temp_dir().join(format!("onefold-click-libraries-{}", std::process::id()));
    std::fs::create_dir_all(root.join("path/conf")).unwrap();
    std::fs::write(
        root.join("beside.click"),
        "elementclass B { -> X -> }\nrequire(library far.click);",
    )
    .unwrap();
    std::fs::write(
        root.join("path/conf/far.click"),
        "far :: F(2);\nrequire(library beside.click) a !",
    )
    .unwrap();
    let libraries = FileLibraries::new(root.join("path").to_str());
    let parse = ParseOptions {
        libraries: Some(&libraries),
        ..ParseOptions::default()
    };
    let options = LoadOptions {
        parse,
        ..LoadOptions::default()
    };
    let main = root.join("main.click").to_str().unwrap().to_owned();
    let text = b"require(library beside.click, library beside.click); s -> B -> far; require(library none.click)";
    let errors = load(text, &main, &[], &options).unwrap_err();
    std::fs::write(root.join("path/conf/far.click"), "far :: F(2);").unwrap();
    let graph = load(&text[..67], &main, &[], &options);
    std::fs::remove_dir_all(&root).unwrap();

    let place = |l: &Location| (l.file.rsplit('/').next().unwrap().to_owned(), l.line);
    let found: Vec<_> = errors
        .iter()
        .map(|e| place(e.location.as_ref().unwrap()))
        .collect();
    assert!(
        found.contains(&("far.click".to_owned(), 2))
            && found.contains(&("main.click".to_owned(), 1)),
        "{found:?}"
    );
    let graph = graph.unwrap();
    let names: Vec<&str> = graph.elements.iter().map(|e| e.name.as_str()).collect();
    assert_eq!(names, ["far", "s@2", "B@3/X@1"]);
}
