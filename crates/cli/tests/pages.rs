//! Pages of `show`, `explain` and `run`, as a browser shows them.

use crate::common;
use crate::results::alerting;

use common::browser::{asked, chromium};
use common::{json, root, run, temp};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A telephone's window, and a screen's.
const SIZES: [(u32, u32); 2] = [(400, 800), (1400, 900)];

/// A capture for `isp-edge` from inside, some packets of which are dropped: made once for all tests.
fn capture() -> &'static Path {
    static MADE: OnceLock<PathBuf> = OnceLock::new();
    MADE.get_or_init(|| {
        let file = temp("pages-capture").join("lan.pcap");
        let out = file.to_str().unwrap();
        let args = [
            "gen",
            "--for",
            "isp-edge",
            "--out",
            out,
            "--packets",
            "3000",
        ];
        run(&root(), 0, &args);
        file
    })
}

/// A run of `isp-edge` with [`capture`], and its page.
fn isp_edge(dir: &Path, more: &[&str]) -> (PathBuf, Value) {
    let page = dir.join(format!("run{}.html", more.join("")));
    let file = page.to_str().unwrap();
    let input = format!("lan={}", capture().display());
    let args = ["run", "isp-edge", "--in", &input, "--html", file, "-q"];
    let v = json(&root(), 0, &[&args[..], more].concat());
    (page.clone(), v)
}

/// The three pages.
fn pages(dir: &Path) -> [PathBuf; 3] {
    let (ran, _) = isp_edge(dir, &[]);
    let (shown, explained) = (dir.join("show.html"), dir.join("explain.html"));
    // seven functions in a row that branches, and the chain that ran
    let kitchen = ["show", "kitchen-sink", "--html", shown.to_str().unwrap()];
    run(&root(), 0, &kitchen);
    let html = explained.to_str().unwrap();
    run(&root(), 0, &["explain", "isp-edge", "--html", html]);
    [ran, shown, explained]
}

/// Everything drawn is in the window when a page opens, large enough to be read, and no page is wider than its window.
#[test]
fn graphs_open_fitted() {
    let Some(browser) = chromium() else { return };
    let dir = temp("pages-fitted");
    let script = "const r = d.getElementById('drawing').getBoundingClientRect();\
        const all = [...d.querySelectorAll('#functions > *')].map((x) => x.getBoundingClientRect());\
        return { over: d.documentElement.scrollWidth - d.documentElement.clientWidth,\
          view: d.getElementById('drawing').dataset.view,\
          left: r.left, right: r.right, width: w.innerWidth, boxes: d.querySelectorAll('.fn').length,\
          smallest: Math.min(...[...d.querySelectorAll('.fn rect')].map((x) => x.getBoundingClientRect().width)),\
          outside: all.filter((x) => x.left < r.left - 1 || x.right > r.right + 1\
            || x.top < r.top - 1 || x.bottom > r.bottom + 1).length };";
    let [a, b, c] = pages(&dir);
    let [small, large] = SIZES;
    let all = [
        (&*a, small),
        (&*a, large),
        (&*b, small),
        (&*b, large),
        (&*c, small),
        (&*c, large),
    ];
    for ((page, size), v) in all.iter().zip(asked(&browser, &dir, all, script)) {
        let at = format!("{} at {size:?}: {v}", page.display());
        assert!(v["over"].as_i64().unwrap() <= 0, "{at}");
        assert_eq!(v["outside"], 0, "{at}");
        assert_eq!(v["view"], "functions", "{at}");
        assert!(v["boxes"].as_u64().unwrap() >= 5, "{at}");
        assert!(v["smallest"].as_f64().unwrap() > 80.0, "{at}");
        assert!(v["left"].as_f64().unwrap() >= 0.0, "{at}");
        assert!(v["right"].as_f64() <= v["width"].as_f64(), "{at}");
    }
}

/// Functions are what is shown first; a click on one shows its elements, in the window; there is a way back.
#[test]
fn functions_open_to_their_elements() {
    let Some(browser) = chromium() else { return };
    let dir = temp("pages-functions");
    let (page, _) = isp_edge(&dir, &[]);
    let script = "const shown = (s) => w.getComputedStyle(d.querySelector(s)).display !== 'none';\
        const state = () => ({ functions: shown('#functions'), elements: shown('#elements') });\
        const before = state(); click('[data-n=router]'); const after = state();\
        const r = d.getElementById('drawing').getBoundingClientRect();\
        const f = d.querySelector('[data-nf=router] rect').getBoundingClientRect();\
        const fits = f.left >= r.left && f.right <= r.right && f.top >= r.top && f.bottom <= r.bottom;\
        const said = d.getElementById('details').textContent;\
        click('.boxes > g'); const element = d.querySelector('#details h3').textContent;\
        const find = d.getElementById('find'); find.value = 'up_rules'; find.dispatchEvent(new w.Event('input'));\
        const hits = d.querySelectorAll('.boxes .hit').length;\
        click('#by-function');\
        return { before, after, fits, said, element, hits, back: state(), wide: f.width / r.width };";
    let (functions, elements) = (
        serde_json::json!({ "functions": true, "elements": false }),
        serde_json::json!({ "functions": false, "elements": true }),
    );
    let said = asked(&browser, &dir, SIZES.map(|size| (&*page, size)), script);
    for (size, v) in SIZES.into_iter().zip(said) {
        assert_eq!(v["before"], functions, "{size:?}");
        assert_eq!(v["after"], elements, "{size:?}");
        assert_eq!(v["back"], functions, "{size:?}");
        assert_eq!(v["fits"], true, "{size:?}: {v}");
        assert!(v["wide"].as_f64().unwrap() > 0.5, "{size:?}: {v}");
        assert!(v["said"].as_str().unwrap().starts_with("router"), "{v}");
        assert!(v["element"].as_str().unwrap().starts_with("fw/"), "{v}");
        assert_eq!(v["hits"], 1, "{size:?}: {v}");
    }
}

/// Packets that crossed links between functions are the same at every level, and what is left of those that came in.
#[test]
fn links_are_counted_at_every_level() {
    let dir = temp("pages-links");
    let of = |more: &[&str]| isp_edge(&dir, more).1;
    let reference = of(&["--mode", "reference"]);
    let links = reference["links"].as_array().unwrap();
    let crossed: Vec<(&str, &str, u64)> = (links.iter())
        .map(|l| {
            let text = |k: &str| l[k].as_str().unwrap();
            (text("from"), text("to"), l["packets"].as_u64().unwrap())
        })
        .collect();
    let left = reference["packets_in"].as_u64().unwrap() - reference["dropped"].as_u64().unwrap();
    let want = [
        ("fw[1]", "router[0]", left),
        ("router[0]", "fw[1]", 0),
        ("router[1]", "nat[0]", left),
        ("nat[0]", "router[1]", 0),
    ];
    assert_eq!(crossed, want);
    for more in [
        &["--mode", "program"][..],
        &["--mode", "flow"],
        &["--mode", "auto"],
        &["--workers", "2"],
    ] {
        assert_eq!(of(more)["links"], reference["links"], "{more:?}");
    }
}

/// What is written at edges and in boxes is what the run's JSON says.
#[test]
fn edges_have_the_counters_of_the_run() {
    let Some(browser) = chromium() else { return };
    let dir = temp("pages-edges");
    let script = "const edges = [...d.querySelectorAll('#functions .cnt')]\
          .map((t) => [t.dataset.from, t.dataset.to, t.textContent]);\
        const texts = (b) => [...b.querySelectorAll('text')].map((t) => t.textContent);\
        const boxes = [...d.querySelectorAll('.fn')].map((b) => [b.dataset.n, texts(b)]);\
        return { edges, boxes };";
    let runs = [&[][..], &["--workers", "2"]].map(|more| isp_edge(&dir, more));
    let pages = runs.each_ref().map(|(page, _)| (&**page, (1400, 900)));
    let said = asked(&browser, &dir, pages, script);
    for ((_, v), shown) in runs.iter().zip(said) {
        assert!(v["dropped"].as_u64().unwrap() > 0, "{v}");
        let mut edges: BTreeMap<(String, String), u64> = BTreeMap::new();
        for e in shown["edges"].as_array().unwrap() {
            let text = |i: usize| e[i].as_str().unwrap().to_string();
            let packets = text(2).replace(',', "").parse().unwrap();
            edges.insert((text(0), text(1)), packets);
        }
        let mut want: BTreeMap<(String, String), u64> = BTreeMap::new();
        let name = |port: &Value| {
            let port = port.as_str().unwrap();
            port.split('[').next().unwrap().to_string()
        };
        for l in v["links"].as_array().unwrap() {
            let packets = l["packets"].as_u64().unwrap();
            *want.entry((name(&l["from"]), name(&l["to"]))).or_default() += packets;
        }
        for (port, function) in [("lan", "fw"), ("wan", "nat")] {
            let of = |way: &str| v["ports"][port][way]["packets"].as_u64().unwrap();
            want.insert((port.into(), function.into()), of("in"));
            want.insert((function.into(), port.into()), of("out"));
        }
        assert_eq!(edges, want);
        let mut dropped: BTreeMap<&str, u64> = BTreeMap::new();
        for d in v["drops_by_element"].as_array().unwrap() {
            let packets = d["packets"].as_u64().unwrap();
            *dropped.entry(d["nf"].as_str().unwrap()).or_default() += packets;
        }
        for b in shown["boxes"].as_array().unwrap() {
            let name = b[0].as_str().unwrap();
            let lines: Vec<&str> = (b[1].as_array().unwrap().iter())
                .filter_map(Value::as_str)
                .collect();
            if let Some(n) = dropped.get(name) {
                let line = format!("{n} dropped");
                assert!(lines.contains(&line.as_str()), "{name}: {lines:?}");
            }
        }
    }
}

/// Stretches of time add up to the run's drops, by reason, and so do the bars.
#[test]
fn drops_over_time_add_up() {
    let dir = temp("pages-time");
    let data = |html: &str| -> Value {
        let at = html.find("id=\"ran\">").unwrap() + "id=\"ran\">".len();
        let end = html[at..].find("</script>").unwrap() + at;
        serde_json::from_str(&html[at..end].replace("<\\/", "</")).unwrap()
    };
    for more in [&[][..], &["--mode", "reference"], &["--workers", "2"]] {
        let (page, v) = isp_edge(&dir, more);
        let html = std::fs::read_to_string(&page).unwrap();
        let ran = data(&html);
        let time = &ran["over_time"];
        assert_eq!(ran["links"], v["links"], "{more:?}");
        let counts = |v: &Value| -> Vec<u64> {
            let all = v.as_array().unwrap();
            all.iter().filter_map(Value::as_u64).collect()
        };
        let sum = |v: &Value| counts(v).iter().sum::<u64>();
        assert_eq!(sum(&time["in"]), v["packets_in"], "{more:?}");
        assert_eq!(sum(&time["out"]), v["packets_out"], "{more:?}");
        let mut want: BTreeMap<String, u64> = BTreeMap::new();
        for d in v["drops_by_element"].as_array().unwrap() {
            let told = format!(
                "{}: {}",
                d["nf"].as_str().unwrap(),
                d["reason"].as_str().unwrap()
            );
            *want.entry(told).or_default() += d["packets"].as_u64().unwrap();
        }
        let got: BTreeMap<String, u64> = (time["drops"].as_object().unwrap().iter())
            .map(|(k, v)| (k.clone(), sum(v)))
            .collect();
        assert_eq!(got, want, "{more:?}");
        // not all at once, and the whole time
        let stretches = time["stretches"].as_u64().unwrap();
        assert!((10..=120).contains(&stretches), "{time}");
        let covered = stretches as f64 * time["stretch_seconds"].as_f64().unwrap();
        assert!(covered >= v["capture_seconds"].as_f64().unwrap(), "{time}");
        assert!(
            counts(&time["in"]).iter().filter(|n| **n > 0).count() > 5,
            "{time}"
        );
        let bars = html.split("data-n=\"").skip(1);
        let drawn: u64 = bars
            .map(|b| b.split('"').next().unwrap().parse::<u64>().unwrap())
            .sum();
        assert_eq!(drawn, v["dropped"].as_u64().unwrap(), "{more:?}");
    }
}

/// The parts of a page, in their order.
fn parts(html: &str, ids: &[&str]) {
    let at = |id: &&str| html.find(&format!("id=\"{id}\""));
    let places: Vec<Option<usize>> = ids.iter().map(at).collect();
    assert!(places.iter().all(Option::is_some), "{ids:?}: {places:?}");
    assert!(places.is_sorted(), "{ids:?}: {places:?}");
}

#[test]
fn the_parts_of_a_runs_page() {
    const PARTS: [&str; 7] = [
        "graph",
        "drops",
        "over-time",
        "ports",
        "alerts",
        "rules",
        "classes",
    ];
    let dir = temp("pages-parts");
    let (page, v) = isp_edge(&dir, &[]);
    let html = std::fs::read_to_string(&page).unwrap();
    parts(&html, &PARTS);
    // the rule and the class with most packets, where they are told apart
    let rules = v["rules"].as_array().unwrap();
    let most = rules.iter().max_by_key(|r| r["packets"].as_u64()).unwrap();
    let n = most["packets"].as_u64().unwrap();
    assert!(
        html.contains(&format!("<tr><td class=\"n\">{n}<td class=\"n\">")),
        "{most}"
    );
    let hit = rules.iter().filter(|r| r["packets"] != 0).count();
    assert!(html.contains(&format!("{hit} of {} rules had packets", rules.len())));
    let class = &v["classes"][0];
    let row = format!(
        "<tr><td>{}.{}<td class=\"n\">",
        class["stage"], class["action"]
    );
    assert!(html.contains(&row), "{row}");
    assert!(html.contains("No rule on payloads has alerted"));
    let (page, _) = isp_edge(&dir, &["--mode", "reference"]);
    let html = std::fs::read_to_string(&page).unwrap();
    parts(&html, &PARTS);
    assert!(html.contains("There was no program"));
    let dir = alerting("pages-alerts");
    let args = [
        "run",
        "chain.yaml",
        "-q",
        "--in",
        "lan=lan.pcap",
        "--html",
        "p.html",
    ];
    run(&dir, 0, &args);
    let html = std::fs::read_to_string(dir.join("p.html")).unwrap();
    parts(&html, &PARTS);
    assert!(html.contains("<td>allowed<td class=\"n\">7<td>a: question<td>dpi"));
    assert!(html.contains("<td>blocked<td class=\"n\">-<td>marker<td>dpi"));
}

/// `explain` begins with what it is asked: what is let through, what is changed, what it costs.
#[test]
fn the_answer_comes_first() {
    let dir = temp("pages-answer");
    let page = dir.join("x.html");
    let file = page.to_str().unwrap();
    run(&root(), 0, &["explain", "napt-fw-lb", "--html", file]);
    let html = std::fs::read_to_string(&page).unwrap();
    parts(
        &html,
        &["answer", "dropped", "costs", "graph", "classes", "inside"],
    );
    let begin = html.find("id=\"answer\"").unwrap();
    let answer = &html[begin..html.find("id=\"dropped\"").unwrap()];
    for (to, which, changed) in [
        ("tcp", "TCP</li></ul>", "ip.ttl = ip.ttl - 1"),
        (
            "servers",
            "UDP: udp.dport = 1234</li></ul>",
            "ip.ttl = ip.ttl - 3",
        ),
    ] {
        let row = format!("<tr><td><b>clients</b><td><b>{to}</b><td>");
        let at = answer
            .find(&row)
            .unwrap_or_else(|| panic!("{row}: {answer}"));
        let row = answer[at..].split("</tr>").next().unwrap();
        for part in [
            which,
            changed,
            "IPv4 checksum follows",
            "finds or makes the binding",
        ] {
            assert!(
                row.contains(&format!("<li>{part}")) || row.contains(part),
                "{part}: {row}"
            );
        }
        assert!(!row.contains("= s1"), "a slot of the program: {row}");
    }
    let dropped = &html[html.find("id=\"dropped\"").unwrap()..];
    assert!(dropped.contains("fw/IPFilter@4"), "the firewall drops");
    assert!(dropped.contains("18 \u{2192} 5"), "operations");
}
