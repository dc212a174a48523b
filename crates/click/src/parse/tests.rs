use super::*;

fn ast(text: &str) -> Ast {
    let (ast, diagnostics) = parse(text.as_bytes(), "t", &ParseOptions::default());
    assert!(diagnostics.is_empty(), "{diagnostics:?}");
    ast
}

fn source(ast: &Ast, span: Span) -> &str {
    std::str::from_utf8(&ast.sources.bytes(span.file)[span.start as usize..span.end as usize])
        .unwrap()
}

fn only_chain(ast: &Ast) -> &Chain {
    match ast.statements.as_slice() {
        [Statement::Chain(chain)] => chain,
        other => panic!("{other:?}"),
    }
}

#[test]
fn chains_have_all_their_parts() {
    let ast = ast("a [1] -> [0, 2-4, 7-] b :: B(x, /* y */ z), C [] => { -> };");
    let chain = only_chain(&ast);
    let arrows: Vec<_> = chain
        .links
        .iter()
        .map(|l| l.arrow.map(|a| a.double))
        .collect();
    assert_eq!(arrows, [None, Some(false), Some(true)]);
    let [b, c] = chain.links[1].elements.as_slice() else {
        panic!()
    };
    let inputs = b.inputs.as_ref().unwrap();
    assert_eq!(
        (inputs.ports.as_slice(), inputs.open),
        (&[0, 2, 3, 4, 7][..], true)
    );
    assert_eq!(source(&ast, inputs.span), "[0, 2-4, 7-]");
    assert_eq!(source(&ast, b.span), "b");
    assert!(
        matches!(&b.class, Some(ClassRef::Name(n)) if n.text == "B" && source(&ast, n.span) == "B")
    );
    let config = b.config.as_ref().unwrap();
    assert_eq!(
        (config.as_str(), source(&ast, config.span().unwrap())),
        ("x, /* y */ z", "x, /* y */ z")
    );
    assert!(c.config.is_none() && c.outputs.as_ref().is_some_and(|p| p.open && p.ports == [0]));
    let What::Compound(compound) = &chain.links[2].elements[0].what else {
        panic!()
    };
    assert_eq!(source(&ast, compound.span), "{ -> }");
    let inner = &compound.variants[0].statements;
    let [Statement::Chain(through)] = inner.as_slice() else {
        panic!("{inner:?}")
    };
    let ends: Vec<_> = through
        .links
        .iter()
        .map(|l| l.elements[0].what.clone())
        .collect();
    assert!(matches!(
        ends.as_slice(),
        [
            What::Implicit(Pseudo::Input),
            What::Implicit(Pseudo::Output)
        ]
    ));
}

#[test]
fn ports_before_an_understood_input_are_its_outputs() {
    let ast = ast("x -> ([2] -> [3]) -> y");
    let What::Group(group) = &only_chain(&ast).links[1].elements[0].what else {
        panic!()
    };
    let [Statement::Chain(inner)] = group.statements.as_slice() else {
        panic!()
    };
    let [input, output] = [0, 1].map(|i| &inner.links[i].elements[0]);
    assert_eq!(
        input.outputs.as_ref().map(|p| p.ports.clone()),
        Some(vec![2])
    );
    assert_eq!(
        output.inputs.as_ref().map(|p| p.ports.clone()),
        Some(vec![3])
    );
    assert!(input.inputs.is_none() && output.outputs.is_none());
}

#[test]
fn classes_have_variants_parameters_and_extensions() {
    let ast = ast("elementclass A { $a, K $b, __REST__ $c | x -> y || z || ... } elementclass B A");
    let [Statement::ElementClass(a), Statement::ElementClass(b)] = ast.statements.as_slice() else {
        panic!()
    };
    let ClassRef::Compound(compound) = &a.class else {
        panic!()
    };
    let formals: Vec<_> = compound.variants[0]
        .formals
        .iter()
        .map(|f| (f.keyword.as_deref(), f.name.as_str()))
        .collect();
    assert_eq!(
        formals,
        [(None, "a"), (Some("K"), "b"), (Some("__REST__"), "c")]
    );
    assert_eq!(source(&ast, compound.variants[0].formals[1].span), "K $b");
    assert_eq!(compound.variants.len(), 2);
    assert_eq!(source(&ast, compound.extends.unwrap()), "...");
    assert!(matches!(&b.class, ClassRef::Name(n) if n.text == "A") && b.name.text == "B");
}

#[test]
fn definitions_and_requirements() {
    let ast = ast("define($a 1, $b_2  x, $c) require(foo, package \"b r\", compact_config)");
    let [Statement::Define(defines), Statement::Require(requires)] = ast.statements.as_slice()
    else {
        panic!()
    };
    let defines: Vec<_> = defines
        .iter()
        .map(|d| (d.name.text.as_str(), d.value.as_str()))
        .collect();
    assert_eq!(defines, [("a", "1"), ("b_2", "x"), ("c", "")]);
    let [
        Require::Package(foo),
        Require::Package(bar),
        Require::CompactConfig(_),
    ] = requires.as_slice()
    else {
        panic!()
    };
    assert_eq!((foo.text.as_str(), bar.text.as_str()), ("foo", "b r"));
}

#[test]
fn what_was_understood_is_there_beside_the_errors() {
    let (ast, diagnostics) = parse(b"a :: A; b :: ; c -> d", "t", &ParseOptions::default());
    assert_eq!((diagnostics.len(), ast.statements.len()), (1, 3));
    let location = diagnostics[0].location.as_ref().unwrap();
    assert_eq!(
        (location.line, location.column, location.length),
        (1, 14, 1)
    );
}
