//! Pages in a browser.

use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// A browser, if there is one.
pub fn chromium() -> Option<String> {
    let found = ["chromium", "chromium-browser", "google-chrome"]
        .into_iter()
        .find(|b| {
            Command::new(b)
                .arg("--version")
                .output()
                .is_ok_and(|o| o.status.success())
        });
    if found.is_none() {
        onefold_testing::skip("no Chromium on this machine");
    }
    found.map(str::to_string)
}

/// The page as a browser makes it, scripts run.
pub fn rendered(browser: &str, dir: &Path, page: &Path, hash: &str) -> String {
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

/// What a script says of a page in a window of that size: the body of a function of `d`, the page's document, `w`, its
/// window, and `click`, which clicks on what a selector finds first.
pub fn asked(browser: &str, dir: &Path, page: &Path, size: (u32, u32), script: &str) -> Value {
    let html = std::fs::read_to_string(page).expect("the page");
    let html = html.replace('&', "&amp;").replace('"', "&quot;");
    let (width, height) = size;
    let around = format!(
        "<!doctype html><style>body{{margin:0}}iframe{{border:0;width:{width}px;height:{height}px}}</style>\
         <iframe id=\"page\" srcdoc=\"{html}\"></iframe><pre id=\"said\"></pre><script>\
         const f = document.getElementById(\"page\");\
         f.onload = () => {{ const d = f.contentDocument, w = f.contentWindow;\
         const click = (s) => d.querySelector(s).dispatchEvent(new w.MouseEvent(\"click\", {{ bubbles: true }}));\
         let said; try {{ said = (() => {{ {script} }})(); }} catch (e) {{ said = {{ error: String(e) }}; }}\
         document.getElementById(\"said\").textContent = \"<<\" + JSON.stringify(said) + \">>\"; }};</script>"
    );
    let name = page.file_stem().unwrap_or_default().to_string_lossy();
    let file = dir.join(format!("{name}-{width}.html"));
    std::fs::write(&file, around).expect("a page around the page");
    let dom = rendered(browser, dir, &file, "");
    let said = dom
        .rsplit_once("&lt;&lt;")
        .and_then(|x| x.1.split_once("&gt;&gt;"));
    let said = said
        .unwrap_or_else(|| panic!("nothing was said of {}", page.display()))
        .0;
    let said = said
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    let v: Value = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    assert_eq!(v.get("error"), None, "{v}");
    v
}
