//! `onefold explain`, end to end.

mod common;

use common::{json, onefold, root, run, temp};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

fn class<'a>(v: &'a Value, what: &str, test: impl Fn(&Value) -> bool) -> &'a Value {
    let all = v["classes"].as_array().unwrap();
    all.iter()
        .find(|c| test(c))
        .unwrap_or_else(|| panic!("no class {what}: {v:#}"))
}

fn has(v: &Value, text: &str) -> bool {
    v.to_string().contains(text)
}

/// The chain of the thesis' figure 7.5: three classes beside the exceptions, 18 operations become 5.
#[test]
fn napt_firewall_balancer() {
    let v = json(&root(), 0, &["explain", "napt-fw-lb"]);
    assert_eq!(v["operations"]["before"], 18, "{:#}", v["operations"]);
    assert_eq!(v["operations"]["after"], 5, "{:#}", v["operations"]);
    let entered = |c: &Value| c["entry"] == "clients";
    let tcp = class(&v, "TCP", |c| entered(c) && c["to"] == "tcp");
    assert!(has(&tcp["filter"], "ip.proto = 6"), "{tcp:#}");
    let udp = class(&v, "UDP", |c| entered(c) && c["to"] == "servers");
    assert_eq!(udp["operations"]["before"], 18);
    assert_eq!(udp["operations"]["after"], 5);
    assert!(has(&udp["filter"], "udp.dport = 1234"), "{udp:#}");
    let does = udp["action"].as_str().unwrap();
    for part in [
        "ip.ttl = ip.ttl - 3",
        "ip.src = 203.0.113.1",
        "IPv4 checksum follows",
        "leaves at servers",
    ] {
        assert!(does.contains(part), "{part}: {does}");
    }
    assert_eq!(does.matches("IPv4 checksum").count(), 1, "{does}");
    // the rule that let it pass, with its place
    let rule = udp["origin"]
        .as_array()
        .unwrap()
        .iter()
        .find(|o| o["argument"] == "allow udp && dst port 1234")
        .expect("the firewall's rule");
    assert!(
        rule["file"].as_str().unwrap().ends_with("fw.click") && rule["line"] == 5,
        "{rule}"
    );
    let denied = class(&v, "other UDP", |c| {
        entered(c) && c["fate"] == "dropped" && has(&c["filter"], "udp.dport != 1234")
    });
    assert!(has(&denied["origin"], "deny all"), "{denied:#}");
    // every punt has a cause and a share
    for p in v["punts"].as_array().unwrap() {
        assert!(!p["cause"].as_str().unwrap().is_empty());
        let share = p["share_of_rules"].as_f64().unwrap();
        assert!(share > 0.0 && share <= 1.0, "{p}");
    }
}

#[test]
fn the_program_reads_back_and_text_names_the_rules() {
    let (out, _) = run(&root(), 0, &["explain", "napt-fw-lb", "--program"]);
    let p = onefold_synth::text::parse(&out).expect("what is printed reads back");
    assert_eq!(onefold_synth::text::print(&p), out);
    assert_eq!(onefold_synth::check::check(&p).violations, []);
    let (out, _) = run(&root(), 0, &["explain", "napt-fw-lb"]);
    for part in [
        "18 become 5",
        "packets that come in at clients",
        "fw.click:5",
        "punted to the reference graph",
    ] {
        assert!(out.contains(part), "{part}: {out}");
    }
    let o = onefold(&root(), &["explain", "no-such-chain"]);
    assert_eq!(o.status.code(), Some(2));
}

fn chromium() -> Option<String> {
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|b| {
            Command::new(b)
                .arg("--version")
                .output()
                .is_ok_and(|o| o.status.success())
        });
    if found.is_none() {
        println!("skipped: no Chromium on this machine");
    }
    found.map(str::to_string)
}

/// The page as a browser makes it, scripts run.
fn rendered(browser: &str, dir: &Path, page: &Path, hash: &str) -> String {
    let profile = dir.join("profile");
    let o = Command::new(browser)
        .args([
            "--headless=new",
            "--no-sandbox",
            "--disable-gpu",
            "--virtual-time-budget=10000",
            "--dump-dom",
        ])
        .arg(format!("--user-data-dir={}", profile.display()))
        .arg(format!("file://{}{hash}", page.display()))
        .output()
        .expect("the browser runs");
    String::from_utf8_lossy(&o.stdout).into_owned()
}

#[test]
fn the_page_needs_nothing_and_shows_classes() {
    let dir = temp("explain-page");
    let page = dir.join("x.html");
    let file = page.to_str().unwrap();
    run(&root(), 0, &["explain", "napt-fw-lb", "--html", file]);
    let html = std::fs::read_to_string(&page).unwrap();
    for outside in ["src=", "href=", "@import", "url(http", "https://"] {
        assert!(!html.contains(outside), "{outside} in the page");
    }
    let Some(browser) = chromium() else { return };
    let dom = rendered(&browser, &dir, &page, "");
    assert!(dom.contains("class leaves"), "no class is shown");
    assert!(dom.contains("18 \u{2192} 5"), "operations are not shown");
    let dom = rendered(&browser, &dir, &page, "#q=servers%20leaves");
    assert!(dom.contains("class leaves") && !dom.contains("class dropped"));
}

/// Very many classes: paged, searchable.
#[test]
fn many_classes_are_paged() {
    const N: usize = 2000;
    let dir = temp("explain-many");
    let mut click = String::from("c :: Classifier(");
    for i in 0..N {
        click += &format!("12/{:04x}, ", i + 0x1000);
    }
    click += "-);\nFromDevice(in) -> c;\nout :: ToDevice(out);\n";
    for i in 0..N {
        click +=
            &format!("c[{i}] -> EtherEncap({i}, 02:00:00:00:00:01, 02:00:00:00:00:02) -> out;\n");
    }
    click += &format!("c[{N}] -> Discard;\n");
    std::fs::write(dir.join("many.click"), click).unwrap();
    let v = json(&dir, 0, &["explain", "many.click", "--html", "many.html"]);
    assert!(
        v["classes"].as_array().unwrap().len() > N,
        "{}",
        v["stages"]
    );
    let Some(browser) = chromium() else { return };
    let page = dir.join("many.html");
    let dom = rendered(&browser, &dir, &page, "");
    assert!(dom.contains("1 / 4"), "pages");
    assert_eq!(dom.matches("<article").count(), 50, "classes on a page");
    let dom = rendered(&browser, &dir, &page, "#q=eth.type%20=%200x17ce");
    assert_eq!(dom.matches("<article").count(), 1, "found classes");
}
