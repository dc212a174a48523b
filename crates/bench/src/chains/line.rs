//! Functions in a row, each with what is known of its neighbours; links and ports of the chain.

use super::words::{HOSTS, one_in};
use super::{ChainOptions, RandomChain, firewall, others, router, translate};
use crate::rng::Rng;

/// The host at the left end.
const LEFT_MAC: &str = "02:00:00:00:ff:00";
/// Most ports besides the one on the left and the one on the right.
const MORE_PORTS: u32 = 2;

/// A function as it was made.
pub(super) struct Made {
    /// Its kind.
    kind: &'static str,
    /// Its kind and options in YAML.
    yaml: String,
    /// Its port on the left, and the one on the right.
    ends: (usize, usize),
    /// Further ports, both ways.
    pub more: Vec<usize>,
    /// Further ports that packets only leave at.
    pub out_only: Vec<usize>,
}

impl Made {
    /// One with two ports; `turned`, port 1 is on the left.
    pub fn two(kind: &'static str, yaml: String, turned: bool) -> Made {
        Made {
            kind,
            yaml,
            ends: (usize::from(turned), usize::from(!turned)),
            more: Vec::new(),
            out_only: Vec::new(),
        }
    }
}

/// The chain so far.
pub(super) struct Line<'a> {
    pub rng: Rng,
    pub options: &'a ChainOptions,
    seed: u64,
    /// Functions made so far.
    pub made: u32,
    /// Routers among them.
    pub routers: u32,
    /// Files beside the chain file.
    pub files: Vec<(String, String)>,
    /// Hosts that packets from the left have as sources here.
    pub hosts: Vec<String>,
    /// Networks on the left.
    pub left_nets: Vec<String>,
    /// Frames have a VLAN tag here, and which.
    pub tagged: bool,
    pub vlan: u16,
    /// The chain has names for addresses.
    pub named: bool,
    /// It has a parameter for a port, and one for a pool once that is used.
    pub parameters: bool,
    pub pool: Option<String>,
    /// Ports that the chain may still have.
    pub ports_left: u32,
    kinds: Vec<&'static str>,
    functions: String,
    links: Vec<String>,
    ports: Vec<String>,
    unused: Vec<String>,
}

impl<'a> Line<'a> {
    /// The beginning of the chain of this seed.
    pub fn new(seed: u64, options: &'a ChainOptions) -> Self {
        let mut rng = Rng::stream(seed, 0x0cba_1257);
        Line {
            seed,
            options,
            made: 0,
            routers: 0,
            files: Vec::new(),
            hosts: HOSTS.iter().map(|h| h.to_string()).collect(),
            left_nets: vec!["10.0.0.0/8".into()],
            tagged: one_in(&mut rng, 12),
            vlan: rng.between(1, 4094) as u16,
            named: one_in(&mut rng, 4),
            parameters: one_in(&mut rng, 4),
            pool: None,
            ports_left: MORE_PORTS,
            kinds: Vec::new(),
            functions: String::new(),
            links: Vec::new(),
            ports: Vec::new(),
            unused: Vec::new(),
            rng,
        }
    }

    /// All of it.
    pub fn make(mut self) -> RandomChain {
        let most = u64::from(self.options.functions.clamp(1, 4));
        let wanted = self.rng.between(1, most) as u32;
        let mut right: Option<(String, usize)> = None;
        while self.made < wanted {
            let m = self.function();
            let (first, last) = self.add(&m, wanted);
            match &right {
                None => self.left_end(&first, m.ends.0),
                Some((name, port)) => {
                    let link = format!("{name}[{port}] <-> [{}]{first}", m.ends.0);
                    self.links.push(link);
                }
            }
            for p in &m.out_only {
                self.leaving(&last, *p);
            }
            for p in &m.more {
                self.branch(&last, *p, wanted);
            }
            right = Some((last, m.ends.1));
        }
        if let Some((name, port)) = right {
            match one_in(&mut self.rng, 15) {
                true => self.unused.push(format!("{name}[{port}]")),
                false => self.ports.push(format!("right: {name}[{port}]")),
            }
        }
        self.finish()
    }

    /// One more function, of a kind that frames here mean something to.
    fn function(&mut self) -> Made {
        if self.tagged {
            return match self.rng.below(5) {
                0 => others::monitor(self),
                1 => firewall::make(self),
                2 => others::dpi(self),
                _ => others::vlan(self),
            };
        }
        match self.rng.below(20) {
            0..=4 => firewall::make(self),
            5..=8 => self.router(),
            9..=12 => translate::nat(self),
            13..=15 => translate::balancer(self),
            16 | 17 => others::dpi(self),
            18 => others::monitor(self),
            _ => others::vlan(self),
        }
    }

    fn router(&mut self) -> Made {
        let m = router::make(self);
        self.routers += 1;
        m
    }

    /// Writes a function down, repeated at times; gives the names of the first and the last of it.
    fn add(&mut self, m: &Made, wanted: u32) -> (String, String) {
        let short = match m.kind {
            "firewall" => "fw",
            "load-balancer" => "lb",
            "monitor" => "count",
            "vlan" => "tag",
            k => k,
        };
        let name = format!("{short}-{}-", self.made);
        let mut yaml = m.yaml.clone();
        let room = u64::from(wanted.saturating_sub(self.made));
        let may = match m.kind {
            "monitor" => true,
            "firewall" => !yaml.contains("-file:"),
            _ => false,
        };
        let repeat = match may && room > 1 && one_in(&mut self.rng, 3) {
            true => self.rng.between(2, room),
            false => 1,
        };
        self.made += repeat as u32;
        self.kinds.extend((0..repeat).map(|_| m.kind));
        if repeat > 1 {
            let (left, right) = m.ends;
            yaml.push_str(&format!(
                "repeat: {repeat}\nlink: \"[{right}] <-> [{left}]\"\n"
            ));
        }
        let name = if repeat > 1 { name } else { format!("{name}0") };
        self.functions.push_str(&format!("  {name}:\n"));
        for l in yaml.lines() {
            self.functions.push_str(&format!("    {l}\n"));
        }
        match repeat {
            1 => (name.clone(), name),
            n => (format!("{name}1"), format!("{name}{n}")),
        }
    }

    /// The port on the left: both ways, or each way as a port of its own.
    fn left_end(&mut self, name: &str, port: usize) {
        match self.ports_left > 0 && one_in(&mut self.rng, 12) {
            true => {
                self.ports_left -= 1;
                self.ports
                    .push(format!("enters: {{ in: \"[{port}]{name}\" }}"));
                self.ports
                    .push(format!("returns: {{ out: \"{name}[{port}]\" }}"));
            }
            false => self.ports.push(format!("left: {name}[{port}]")),
        }
    }

    /// A port that packets only leave at.
    fn leaving(&mut self, name: &str, port: usize) {
        match self.ports_left > 0 {
            true => {
                self.ports_left -= 1;
                let n = self.ports.len();
                self.ports
                    .push(format!("copies-{n}: {{ out: \"{name}[{port}]\" }}"));
            }
            false => self.unused.push(format!("{name}[{port}]")),
        }
    }

    /// What is at a further port of a router: a port of the chain, or one more function before it. The router has
    /// taken it from those that are left.
    fn branch(&mut self, name: &str, port: usize, wanted: u32) {
        let n = self.ports.len();
        if self.made >= wanted || one_in(&mut self.rng, 2) {
            self.ports.push(format!("branch-{n}: {name}[{port}]"));
            return;
        }
        let before = (self.hosts.clone(), self.left_nets.clone());
        let m = match self.rng.below(4) {
            0 => others::monitor(self),
            1 => translate::nat(self),
            2 => others::dpi(self),
            _ => firewall::make(self),
        };
        (self.hosts, self.left_nets) = before;
        let (first, last) = self.add(&m, wanted);
        self.links
            .push(format!("{name}[{port}] <-> [{}]{first}", m.ends.0));
        self.ports.push(format!("branch-{n}: {last}[{}]", m.ends.1));
        for p in &m.out_only {
            self.leaving(&last, *p);
        }
    }

    fn finish(self) -> RandomChain {
        let mut y = format!("description: random chain {}\n", self.seed);
        if self.parameters {
            y.push_str(
                "parameters:\n  web: { default: 80, min: 1, max: 65535, description: a port }\n",
            );
            if let Some(p) = &self.pool {
                y.push_str(&format!("  pool: {{ default: {p} }}\n"));
            }
        }
        if self.named {
            y.push_str("addresses:\n  mailer: 10.0.0.5\n  lan: 10.0.0.0/16\n");
        }
        y.push_str(&format!("functions:\n{}", self.functions));
        for (key, list) in [("links", &self.links), ("unused", &self.unused)] {
            if !list.is_empty() {
                y.push_str(&format!("{key}:\n"));
                for item in list {
                    y.push_str(&format!("  - \"{item}\"\n"));
                }
            }
        }
        y.push_str("ports:\n");
        for p in &self.ports {
            y.push_str(&format!("  {p}\n"));
        }
        let mut files = vec![("chain.yaml".to_string(), y)];
        files.extend(self.files);
        RandomChain {
            seed: self.seed,
            kinds: self.kinds,
            files,
        }
    }

    /// MAC address of interface `n` of a machine that has a number.
    pub fn mac(machine: u32, n: usize) -> String {
        format!("02:00:00:00:{machine:02x}:{n:02x}")
    }

    /// The next machine to the left that has a MAC address: the router before this one, or the host at the end.
    pub fn mac_on_the_left(&mut self) -> String {
        match self.routers {
            _ if one_in(&mut self.rng, 40) => Self::mac(0xfe, 0xfe),
            0 => LEFT_MAC.into(),
            k => Self::mac(k - 1, 1),
        }
    }

    /// The next one to the right: the router that comes after `routers` others, or somebody at the right end who has
    /// that address.
    pub fn mac_on_the_right(&mut self, routers: u32) -> String {
        match one_in(&mut self.rng, 40) {
            true => Self::mac(0xfe, 0xfe),
            false => Self::mac(routers, 0),
        }
    }
}
