//! A trial: `onefold run` with a setting's chain under a policy, its load, and what is counted between two looks.

use super::chain;
use super::step::{self, Look};
use super::tcp::{self, Tcp};
use anyhow::{Context, Result, anyhow, bail};
use onefold_bench::scheduling::{Chain, Figures, Load, RINGS, Run, Setting};
use onefold_control::{Client, Request};
use onefold_levers::sys;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a run may take until it takes packets, or to end, or to answer.
const PATIENCE: Duration = Duration::from_secs(60);
/// Looks while costs change.
const LOOK_EVERY: Duration = Duration::from_millis(10);
/// Most looks of a trial.
const MOST_LOOKS: usize = 100_000;

/// How trials are run.
pub struct Bench {
    /// This program.
    pub exe: PathBuf,
    /// Files go there.
    pub folder: PathBuf,
    /// That of load, launcher and policy; that of functions.
    pub cores: (usize, usize),
    /// Measured of each.
    pub seconds: f64,
    /// Before that.
    pub warm_up: f64,
}

/// What is offered where the setting has a share.
#[derive(Debug, Clone, Copy)]
pub enum Offered {
    /// More than can be done.
    Most,
    /// That share of so many packets a second.
    Of(f64),
}

/// Packets a second that are more than can be done.
const MOST: f64 = 4e6;

/// What came of it.
pub struct Trial {
    pub figures: Figures,
    /// Every packet is accounted for.
    pub conserved: bool,
}

/// A run that is ended when this goes.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // it may have ended by itself
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Bench {
    /// Runs it.
    ///
    /// # Errors
    /// The chain cannot be run so, or ends by itself.
    pub fn trial(&self, s: &Setting, r: &Run, offered: Offered) -> Result<Trial> {
        std::fs::write(
            self.folder.join("chain.yaml"),
            chain::text(s, r, self.cores),
        )
        .context("the chain's file")?;
        for step in &s.steps {
            let _ = std::fs::remove_file(self.folder.join(chain::cost_file(step.function)));
        }
        let socket = self.folder.join("socket");
        let tcp = s.chains.iter().find_map(|c| match c.load {
            Load::Tcp(most) => Some(most),
            _ => None,
        });
        let mut tcp = tcp.map(Tcp::lay).transpose()?;
        let mut running = self.launch(s, r, offered, tcp.as_ref())?;
        let mut client = connect(&socket, &mut running)?;
        if let Some(tcp) = &mut tcp {
            tcp.begin(self.cores.0)?;
        }
        let read = || tcp.as_ref().map(Tcp::bytes);
        let status = |client: &mut Client| {
            client
                .ask(&Request::Status {
                    rules: false,
                    servers: false,
                })
                .map_err(|e| anyhow!("{e}"))
        };
        // a status is there as soon as packets go
        wait(self.warm_up);
        let (a, begun, bytes) = (status(&mut client)?, Instant::now(), read());
        let seconds = self.seconds * s.longer;
        let looks = match s.steps.is_empty() {
            true => {
                wait(seconds);
                Vec::new()
            }
            false => self.steps(s, seconds, || status(&mut client))?,
        };
        let b = status(&mut client)?;
        let took = begun.elapsed().as_secs_f64();
        let bytes = bytes.zip(read()).map(|(a, b)| b - a);
        client.ask(&Request::Stop).map_err(|e| anyhow!("{e}"))?;
        let report = end(running)?;
        let mut figures = figures(s, (&a, &b), took);
        if let Some(ms) = step::follows(&s.steps, &looks, seconds) {
            figures.insert("follows ms".to_string(), ms);
        }
        if let Some(bytes) = bytes {
            figures.insert("TCP Mb/s".to_string(), bytes as f64 * 8.0 / took / 1e6);
        }
        Ok(Trial {
            figures,
            conserved: report["conserved"] == true,
        })
    }

    fn launch(&self, s: &Setting, r: &Run, offered: Offered, tcp: Option<&Tcp>) -> Result<Running> {
        let mut command = match tcp {
            Some(tcp) => tcp.command(&self.exe.to_string_lossy()),
            None => Command::new(&self.exe),
        };
        let err = std::fs::File::create(self.folder.join("said")).context("what a run says")?;
        command.current_dir(&self.folder).args([
            "run",
            "chain.yaml",
            "--json",
            "--quiet",
            "--control",
            "socket",
        ]);
        command.args([
            "--shadow",
            "off",
            "--verify-time",
            "0",
            "--batch",
            &r.batch.to_string(),
        ]);
        for c in &s.chains {
            for port in self.ports(s, r, c, offered)? {
                command.args(["--port", &port]);
            }
        }
        match &r.policy {
            Some(policy) => command.args([
                "--schedule",
                policy,
                "--housekeeping",
                &self.cores.0.to_string(),
            ]),
            None => &mut command,
        };
        if let Some(places) = s.ring.filter(|_| r.policy.is_some()) {
            command.args(["--ring", &places.to_string()]);
        }
        command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(err);
        let child = command
            .spawn()
            .with_context(|| format!("'{}'", self.exe.display()))?;
        let running = Running(child);
        if r.policy.is_none() {
            // one function: it has the functions' core, with its load
            sys::pin(running.0.id(), self.cores.1).context("the merged chain's core")?;
        }
        Ok(running)
    }

    /// What the ports of a chain are bound to.
    fn ports(&self, s: &Setting, r: &Run, c: &Chain, offered: Offered) -> Result<[String; 2]> {
        let pps = match (c.load, offered) {
            (Load::Tcp(_), _) => {
                let [a, b] = tcp::INTERFACES;
                let name = &c.name;
                return Ok([
                    format!("in-{name}=packet:{a}"),
                    format!("out-{name}=packet:{b}"),
                ]);
            }
            (Load::Pps(n), _) => n as f64,
            (Load::Share(_), Offered::Most) => MOST,
            (Load::Share(share), Offered::Of(full)) => full * share / s.chains.len() as f64,
        };
        let file = format!("{}.pcap", c.name);
        chain::frames(&self.folder.join(&file), c.sizes)?;
        let pps = (pps as u64).max(1);
        // through interfaces only what is in a packet goes with it
        let stamp = match r.interconnect == RINGS || r.policy.is_none() {
            true => "",
            false => ",stamp",
        };
        Ok([
            format!("in-{}=memory:{file},rate={pps}{stamp}", c.name),
            format!("out-{}=memory:", c.name),
        ])
    }

    /// Steps at their time, and looks all the while.
    fn steps(
        &self,
        s: &Setting,
        seconds: f64,
        mut status: impl FnMut() -> Result<Value>,
    ) -> Result<Vec<Look>> {
        let begun = Instant::now();
        let mut due = s.steps.iter().peekable();
        let mut looks = Vec::new();
        while begun.elapsed().as_secs_f64() < seconds
            && looks.len() < MOST_LOOKS
            && !super::interrupted()
        {
            while let Some(step) =
                due.next_if(|step| begun.elapsed().as_secs_f64() >= step.at * seconds)
            {
                step::take(&self.folder, step)?;
            }
            let v = status()?;
            let all = v["schedule"]["functions"].as_array().into_iter().flatten();
            looks.push(Look {
                at: begun.elapsed().as_secs_f64(),
                run: all
                    .map(|f| f["run_seconds"].as_f64().unwrap_or(0.0))
                    .collect(),
            });
            std::thread::sleep(LOOK_EVERY);
        }
        Ok(looks)
    }
}

/// As long as nobody says stop.
fn wait(seconds: f64) {
    let begun = Instant::now();
    while begun.elapsed().as_secs_f64() < seconds && !super::interrupted() {
        let left = seconds - begun.elapsed().as_secs_f64();
        std::thread::sleep(Duration::from_secs_f64(left.clamp(0.0, 0.1)));
    }
}

/// Waits until it can be asked.
fn connect(socket: &Path, running: &mut Running) -> Result<Client> {
    let begun = Instant::now();
    while begun.elapsed() < PATIENCE && !super::interrupted() {
        if let Ok(client) = Client::connect(socket, Some(PATIENCE)) {
            return Ok(client);
        }
        if let Some(status) = running.0.try_wait()? {
            let said = std::fs::read_to_string(socket.with_file_name("said")).unwrap_or_default();
            let lines: Vec<&str> = said
                .lines()
                .map(str::trim)
                .filter(|l| !l.is_empty())
                .take(4)
                .collect();
            let words = lines.join("; ");
            bail!("onefold run has ended ({status}): {words}");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    bail!("onefold run takes no packets")
}

/// Its report, after it was told to end.
fn end(mut running: Running) -> Result<Value> {
    let mut text = String::new();
    let out = running.0.stdout.take().context("its report")?;
    // Bound: it is our own program's report
    std::io::BufReader::new(out).read_to_string(&mut text)?;
    running.0.wait()?;
    serde_json::from_str(&text).context("its report")
}

/// What came between two looks.
fn figures(s: &Setting, (a, b): (&Value, &Value), seconds: f64) -> Figures {
    let mut f = Figures::new();
    let delta = |path: &[&str]| {
        let get = |v: &Value| {
            path.iter()
                .try_fold(v, |v, k| v.get(k))
                .and_then(Value::as_f64)
                .unwrap_or(0.0)
        };
        get(b) - get(a)
    };
    let mpps = |n: f64| n / seconds / 1e6;
    let (mut rates, mut stayed) = (Vec::new(), BTreeMap::new());
    for c in &s.chains {
        let (enters, leaves) = (format!("in-{}", c.name), format!("out-{}", c.name));
        let out = delta(&["ports", &leaves, "out", "packets"]);
        rates.push(out);
        let shed = delta(&["schedule", "shed", &enters]) / seconds;
        // chains of one kind are told together, too
        let kind = c
            .name
            .rsplit_once('-')
            .filter(|k| k.1.parse::<u16>().is_ok());
        for name in [Some(c.name.as_str()), kind.map(|k| k.0)]
            .into_iter()
            .flatten()
        {
            *f.entry(format!("Mpps {name}")).or_default() += mpps(out);
            *f.entry(format!("shed/s {name}")).or_default() += shed;
        }
        *f.entry("in Mpps".to_string()).or_default() +=
            mpps(delta(&["ports", &enters, "in", "packets"]));
        *f.entry("shed/s".to_string()).or_default() += shed;
        latencies(&mut stayed, (a, b), &leaves);
    }
    f.insert("Mpps".to_string(), mpps(rates.iter().sum()));
    let squares: f64 = rates.iter().map(|r| r * r).sum();
    let sum: f64 = rates.iter().sum();
    if squares > 0.0 {
        f.insert(
            "Jain".to_string(),
            sum * sum / (rates.len() as f64 * squares),
        );
    }
    percentiles(&mut f, &stayed);
    functions(&mut f, s, (a, b), seconds);
    f
}

/// Of functions in processes.
fn functions(f: &mut Figures, s: &Setting, (a, b): (&Value, &Value), seconds: f64) {
    let named = |v: &Value, list: &[&str], name: &str, key: &str| {
        let all = list
            .iter()
            .try_fold(v, |v, k| v.get(k))
            .and_then(Value::as_array)?;
        all.iter().find(|x| x["name"] == name)?.get(key)?.as_f64()
    };
    let delta = |list: &[&str], name: &str, key: &str| {
        Some(named(b, list, name, key)? - named(a, list, name, key)?)
    };
    const SCHEDULE: &[&str] = &["schedule", "functions"];
    let (mut run, mut waited) = (BTreeMap::new(), 0.0);
    for x in &s.functions {
        let name = &x.name;
        let of = |key: &str| delta(SCHEDULE, name, key);
        let Some(ran) = of("run_seconds") else {
            continue;
        };
        run.insert(name, ran);
        waited += of("wait_seconds").unwrap_or(0.0);
        f.insert(format!("cpu {name}"), ran / seconds * 100.0);
        for (key, figure) in [
            ("wasted", "wasted/s"),
            ("voluntary_switches", "voluntary/s"),
            ("involuntary_switches", "involuntary/s"),
        ] {
            let n = of(key).unwrap_or(0.0) / seconds;
            f.insert(format!("{figure} {name}"), n);
            *f.entry(figure.to_string()).or_default() += n;
        }
        if let Some(n) = delta(&["processes"], name, "received") {
            f.insert(format!("Mpps at {name}"), n / seconds / 1e6);
        }
        let waits = delta(&["processes"], name, "storage_waits").unwrap_or(0.0);
        *f.entry("storage waits/s".to_string()).or_default() += waits / seconds;
    }
    let all: f64 = run.values().sum();
    if all > 0.0 {
        for (name, ran) in &run {
            f.insert(format!("share {name}"), ran / all * 100.0);
        }
        f.insert("wait/run".to_string(), waited / all);
        let switches = ["voluntary/s", "involuntary/s"]
            .iter()
            .filter_map(|k| f.get(*k))
            .sum();
        f.insert("switches/s".to_string(), switches);
    }
}

/// Adds how long packets were in the chain that left at a port between two looks: ns, and how many.
fn latencies(all: &mut BTreeMap<u64, f64>, (a, b): (&Value, &Value), port: &str) {
    let buckets = |v: &Value| {
        let list = v["ports"][port]["latency"]["buckets"]
            .as_array()
            .cloned()
            .unwrap_or_default();
        let pair = |p: &Value| Some((p.get(0)?.as_u64()?, p.get(1)?.as_f64()?));
        list.iter().filter_map(pair).collect::<Vec<_>>()
    };
    for (ns, n) in buckets(b) {
        *all.entry(ns).or_default() += n;
    }
    for (ns, n) in buckets(a) {
        *all.entry(ns).or_default() -= n;
    }
}

fn percentiles(f: &mut Figures, stayed: &BTreeMap<u64, f64>) {
    let total: f64 = stayed.values().sum();
    if total < 1.0 {
        return;
    }
    let at = |share: f64| {
        let mut passed = 0.0;
        for (ns, n) in stayed {
            passed += n;
            if passed >= share * total {
                return *ns as f64 / 1000.0;
            }
        }
        0.0
    };
    for (name, share) in [
        ("p25 us", 0.25),
        ("p50 us", 0.5),
        ("p75 us", 0.75),
        ("p99 us", 0.99),
    ] {
        f.insert(name.to_string(), at(share));
    }
    f.insert("spread us".to_string(), at(0.75) - at(0.25));
    let sum: f64 = stayed.iter().map(|(ns, n)| *ns as f64 * n).sum();
    f.insert("mean us".to_string(), sum / total / 1000.0);
}

#[cfg(test)]
mod tests {
    use super::*;
    use onefold_bench::scheduling::{Function, SMALL};
    use serde_json::json;

    #[test]
    fn what_came_between_two_looks() {
        let s = Setting::line(0.0, "one", vec![Function::burn("f", &[1])], 1);
        assert_eq!(s.chains[0].sizes, SMALL);
        let look = |n: u64, buckets: Value| {
            json!({
                "ports": {
                    "in-a": { "in": { "packets": 2 * n } },
                    "out-a": { "out": { "packets": n }, "latency": { "buckets": buckets } },
                },
                "processes": [{ "name": "f", "received": n }],
                "schedule": {
                    "shed": { "in-a": n / 2 },
                    "functions": [{
                        "name": "f", "run_seconds": n as f64 / 1e6, "wait_seconds": n as f64 / 2e6, "wasted": n / 10,
                        "voluntary_switches": n / 100, "involuntary_switches": n / 50,
                    }],
                },
            })
        };
        let a = look(1_000_000, json!([[1000, 9], [5000, 1]]));
        let b = look(3_000_000, json!([[1000, 12], [5000, 2], [9000, 1]]));
        let f = figures(&s, (&a, &b), 2.0);
        let of = |name: &str| f.get(name).copied().unwrap_or(f64::NAN);
        assert_eq!(
            (of("Mpps"), of("Mpps a"), of("in Mpps"), of("Jain")),
            (1.0, 1.0, 2.0, 1.0)
        );
        assert_eq!(
            (of("shed/s"), of("wasted/s f"), of("cpu f"), of("share f")),
            (500_000.0, 100_000.0, 100.0, 100.0)
        );
        assert_eq!(
            (of("switches/s"), of("wait/run"), of("Mpps at f")),
            (30_000.0, 0.5, 1.0)
        );
        // five packets: 1, 1, 1, 5, 9 us
        assert_eq!(
            (of("p50 us"), of("p75 us"), of("p99 us"), of("mean us")),
            (1.0, 5.0, 9.0, 3.4)
        );
    }
}
