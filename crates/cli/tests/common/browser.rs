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

/// What a script says of pages in windows of these sizes: the body of a function of `d`, the page's document, `w`, its
/// window, and `click`, which clicks on what a selector finds first. The browser is launched once, which is what takes
/// long: each page is in a frame of its own, of its window's size.
pub fn asked<const N: usize>(
    browser: &str,
    dir: &Path,
    pages: [(&Path, (u32, u32)); N],
    script: &str,
) -> [Value; N] {
    // each frame is asked when it has been loaded, which may be before the next one is read
    let mut around = format!(
        "<!doctype html><style>body{{margin:0}}iframe{{border:0}}</style><script>\
         const all = {{}}; document.addEventListener(\"load\", (event) => {{\
         const f = event.target; if (f.tagName !== \"IFRAME\") return;\
         const d = f.contentDocument, w = f.contentWindow;\
         const click = (s) => d.querySelector(s).dispatchEvent(new w.MouseEvent(\"click\", {{ bubbles: true }}));\
         let said; try {{ said = (() => {{ {script} }})(); }} catch (e) {{ said = {{ error: String(e) }}; }}\
         all[f.id] = said; if (Object.keys(all).length < {N}) return;\
         const pre = document.createElement(\"pre\"); document.body.append(pre);\
         pre.textContent = \"<<\" + JSON.stringify(Object.values(all)) + \">>\"; }}, true);</script>\n"
    );
    for (i, (page, (width, height))) in pages.into_iter().enumerate() {
        let html = std::fs::read_to_string(page).expect("the page");
        let html = html.replace('&', "&amp;").replace('"', "&quot;");
        // keys that are numbers are in their order
        around += &format!(
            "<iframe id=\"{i}\" style=\"width:{width}px;height:{height}px\" srcdoc=\"{html}\"></iframe>\n"
        );
    }
    let file = dir.join("asked.html");
    std::fs::write(&file, around).expect("a page around the pages");
    let dom = rendered(browser, dir, &file, "");
    let said = dom
        .rsplit_once("&lt;&lt;")
        .and_then(|x| x.1.split_once("&gt;&gt;"));
    let said = said
        .unwrap_or_else(|| panic!("nothing was said of {pages:?}"))
        .0;
    let said = said
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&");
    let all: Vec<Value> = serde_json::from_str(&said).unwrap_or_else(|e| panic!("{e}: {said}"));
    for v in &all {
        assert_eq!(v.get("error"), None, "{v}");
    }
    all.try_into().expect("one for each")
}
