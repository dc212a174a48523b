use crate::{ChainError, Reader, load_text};

/// What is said of a text, a line each.
fn said(text: &str, set: &[(&str, &str)]) -> Vec<String> {
    let set: Vec<_> = set
        .iter()
        .map(|(k, v)| (k.to_string(), v.to_string()))
        .collect();
    match load_text(text, "chain.yaml", &set, &mut Reader::without_files()) {
        Ok(_) => Vec::new(),
        Err(ChainError::Invalid(all)) => all.iter().map(|d| d.to_string()).collect(),
        Err(e) => vec![e.to_string()],
    }
}

/// Each line that is said begins with the place and has the words, and there is no other.
#[track_caller]
fn expect(text: &str, wanted: &[(&str, &str)]) {
    let said = said(text, &[]);
    assert_eq!(said.len(), wanted.len(), "{said:#?}");
    for (line, (place, words)) in said.iter().zip(wanted) {
        let at = format!("chain.yaml:{place}: error: ");
        assert!(
            line.starts_with(&at) && line.contains(words),
            "{line}\nnot {place} {words}"
        );
    }
}

const RIGHT: &str = "\
functions:
  fw: { firewall: { rules: [ allow all ] } }
links: []
ports:
  lan: fw[0]
  wan: fw[1]
";

#[test]
fn what_is_right_is_read() {
    assert_eq!(said(RIGHT, &[]), Vec::<String>::new());
}

#[test]
fn all_errors_at_once() {
    let text = "\
descripton: a chain
functions:
  fw:
    firewal:
      rules: [ allow all ]
  edge:
    router:
      interfaces:
        - { mac: 02:00:00:00:00:01, mtu: 70000 }
        - { address: 10.0.0.1/8, gatewaymac: 02:00:00:00:00:02 }
      redirects: perhaps
  tag:
    vlan: { id: 5000 }
  up:
    firewall:
      rules: [ allow al ]
      back: alow
links: fw[1]
ports:
  lan: { in: '[0]fw', uot: 'fw[0]' }
";
    expect(
        text,
        &[
            (
                "1:1",
                "unknown key `descripton` (did you mean 'description'?)",
            ),
            ("4:5", "unknown key `firewal` (did you mean 'firewall'?)"),
            ("9:42", "`70000`: expected a number from 0 to 65535"),
            (
                "10:11",
                "key `mac` is missing (mac: The interface's own MAC address)",
            ),
            (
                "10:34",
                "unknown key `gatewaymac` (did you mean 'gateway-mac'?)",
            ),
            ("11:18", "`perhaps`: expected true or false"),
            (
                "17:13",
                "`alow`: expected `same`, `allow` or `deny` (did you mean 'allow'?)",
            ),
            ("18:8", "`fw[1]`: expected a list"),
            ("20:23", "unknown key `uot` (did you mean 'out'?)"),
            ("13:17", "tag: VLAN id 5000 out of range"),
        ],
    );
}

#[test]
fn what_is_right_elsewhere_is_looked_at() {
    let text = "\
functions:
  fw:
    firewall: { rulez: [ allow all ] }
  # a function that is wrong in another way
  up: { vlan: { id: 5000 } }
links: [ 'fw[1] -> [0]nowhere' ]
ports: { lan: 'fw[0]', wan: 'up[1]' }
";
    expect(
        text,
        &[
            ("3:17", "unknown key `rulez` (did you mean 'rules'"),
            ("5:21", "up: VLAN id 5000 out of range"),
            ("6:10", "no function named 'nowhere'"),
        ],
    );
}

#[test]
fn keys_that_are_there_twice() {
    let text = RIGHT.replace("links: []", "name: a\nname: b\nlinks: [1: 2]");
    let all = said(&text, &[]);
    assert!(
        all.iter()
            .any(|l| l.contains("4:1") && l.contains("`name` is here for the second"))
    );
    assert!(
        all.iter()
            .any(|l| l.contains("5:9") && l.contains("expected a text, found a map")),
        "{all:#?}"
    );
}

#[test]
fn values_of_parameters_are_not_guessed() {
    let text = "\
parameters:
  n: { description: how many, min: one }
functions:
  tag: { vlan: { id: $(n) } }
  fw: { firewall: { rulez: [] } }
ports: {}
";
    expect(
        text,
        &[
            ("2:36", "`one`: expected a whole number"),
            ("5:21", "unknown key `rulez`"),
        ],
    );
    // the value is missing; what else is wrong is told
    let all = said(&text.replace("min: one", "min: 1"), &[]);
    assert!(
        all.len() == 2 && all[0].contains("'n' has no value") && all[1].contains("rulez"),
        "{all:#?}"
    );
    let all = said(&text.replace("min: one", "min: 1"), &[("n", "x1")]);
    assert!(
        all.len() == 2 && all[0].contains("'x1'") && all[1].contains("rulez"),
        "{all:#?}"
    );
}

#[test]
fn many_errors_are_counted() {
    let mut text = RIGHT.to_string();
    for i in 0..30 {
        text += &format!("key{i}: 1\n");
    }
    let all = said(&text, &[]);
    assert_eq!(all.len(), 21, "{all:#?}");
    assert!(all[20].starts_with("chain.yaml:27:1") && all[20].contains("and 10 more errors"));
}

#[test]
fn repeated_functions_are_told_once() {
    let text = "\
functions:
  r: { repeat: 3, link: '[1] <-> [0]', firewall: { rulez: [] } }
  s: { repeat: 2, link: '[1] <-> [0]', vlan: { id: 500$(i) } }
links: [ 'r3[1] <-> [0]s1' ]
ports: { lan: 'r1[0]', wan: 's2[1]' }
";
    let all = said(text, &[]);
    assert_eq!(
        all.iter().filter(|l| l.contains("rulez")).count(),
        1,
        "{all:#?}"
    );
    assert_eq!(
        all.iter().filter(|l| l.contains("VLAN id 500")).count(),
        2,
        "{all:#?}"
    );
    assert_eq!(all.len(), 3, "{all:#?}");
}

/// Whatever is taken out of a chain file, the reader ends, and says something or makes a chain.
#[test]
fn cut_files() {
    let text = "functions:\n  fw:\n    firewall:\n      rules: [ allow all ]\nports: {a: fw, b: 'fw[1]'}\n";
    for i in 0..text.len() {
        for j in i..text.len().min(i + 12) {
            let cut = format!("{}{}", &text[..i], &text[j..]);
            let file = said(&cut, &[]);
            let told = file.iter().any(|l| l.contains("error: "));
            assert!(file.is_empty() || told, "{cut}{file:#?}");
        }
    }
}
