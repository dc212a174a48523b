//! Published rule sets with their headers: structures against the linear scan.

#[path = "common/classbench.rs"]
mod classbench;
mod common;

use common::*;

#[test]
fn classbench_sets_and_traces() {
    let Some(data) = classbench::data() else {
        return;
    };
    let mut sets = 0;
    for folder in ["rules/classbench", "rules/classbench-thirdparty"] {
        let mut files: Vec<_> = std::fs::read_dir(data.join(folder))
            .unwrap()
            .map(|f| f.unwrap().path())
            .filter(|p| !p.to_string_lossy().contains("trace"))
            .collect();
        files.sort();
        for path in files {
            let rules = classbench::rules(&path);
            let name = path.to_string_lossy().into_owned();
            let trace = match name.strip_suffix(".gz") {
                Some(n) => format!("{n}_trace.gz"),
                None => format!("{name}_trace"),
            };
            let list = structures(&rules);
            // the scan takes its time: fewer headers where there are more rules
            let most = 40_000_000 / rules.len();
            let keys = classbench::trace(trace.as_ref(), most);
            compare(&rules, keys.keys(), &list, &name);
            let mut rng = Rng(sets);
            let corners = common::keys(&rules, (most / rules.len()).min(3), 500, &mut rng);
            compare(&rules, corners.keys(), &list, &name);
            for s in &list {
                eprintln!(
                    "{name}: {}: {}, {} KiB",
                    s.kind(),
                    s.shape(),
                    s.memory_bytes() / 1024
                );
            }
            sets += 1;
        }
    }
    assert!(sets > 5, "only {sets} sets");
}
