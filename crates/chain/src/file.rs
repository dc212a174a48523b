//! The chain file's structure, as serde reads it and as its JSON Schema says.

use crate::kinds;
use indexmap::IndexMap;
use schemars::JsonSchema;
use serde::{Deserialize, Deserializer};
use std::borrow::Cow;
use std::collections::BTreeMap;

/// A value with the place it stands at.
#[derive(Debug, Clone)]
pub struct Loc<T> {
    /// The value.
    pub value: T,
    /// First byte in the chain file.
    pub start: usize,
    /// Length in bytes.
    pub len: usize,
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Loc<T> {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
        let s = serde_saphyr::Spanned::<T>::deserialize(d)?;
        let span = s.referenced.span();
        Ok(Loc {
            value: s.value,
            start: span.byte_offset().unwrap_or(0) as usize,
            len: span.byte_len().unwrap_or(0) as usize,
        })
    }
}

impl<T: JsonSchema> JsonSchema for Loc<T> {
    fn schema_name() -> Cow<'static, str> {
        T::schema_name()
    }
    fn schema_id() -> Cow<'static, str> {
        T::schema_id()
    }
    fn json_schema(g: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(g)
    }
    fn inline_schema() -> bool {
        T::inline_schema()
    }
}

/// One value or a list of them.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum OneOrMany<T> {
    /// One.
    One(T),
    /// Several.
    Many(Vec<T>),
}

impl<T> OneOrMany<T> {
    /// As a slice.
    pub fn as_slice(&self) -> &[T] {
        match self {
            OneOrMany::One(v) => std::slice::from_ref(v),
            OneOrMany::Many(v) => v,
        }
    }
}

/// A service chain: network functions, the links between them, and the ports through which packets enter and leave.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
#[schemars(title = "Onefold service chain")]
pub struct ChainFile {
    /// The chain's name; the folder's or file's name if absent.
    pub name: Option<String>,
    /// What the chain is for, in a sentence.
    pub description: Option<String>,
    /// Values that `--set NAME=VALUE` may change; `$(NAME)` anywhere in the file stands for one.
    #[serde(default)]
    pub parameters: IndexMap<String, Parameter>,
    /// Named addresses for all functions, as in Click's AddressInfo: IPv4/IPv6 addresses or prefixes, MAC addresses.
    #[serde(default)]
    pub addresses: IndexMap<String, OneOrMany<String>>,
    /// The network functions, by name.
    pub functions: IndexMap<String, Loc<Function>>,
    /// Arrows between ports of functions: `fw[1] -> [0]router`, or `<->` for both ways.
    #[serde(default)]
    pub links: Vec<Loc<String>>,
    /// The chain's own ports, by name: `lan: fw[0]`, or `in` and `out` apart.
    pub ports: IndexMap<String, Loc<PortSpec>>,
    /// Ports of functions that are left unconnected on purpose: what leaves there is dropped and counted.
    #[serde(default)]
    pub unused: Vec<Loc<String>>,
    /// How functions in processes of their own are connected: `rings` (if nothing is said), of descriptors in shared
    /// memory, from each process to the next one; `manager`, rings that the launcher forwards between; `veth`, pairs of
    /// virtual interfaces back to back; `ovs`, virtual interfaces to Open vSwitch.
    pub interconnect: Option<Loc<String>>,
    /// Who runs on which core.
    pub cores: Option<Loc<crate::cores::CoresFile>>,
    /// How functions in processes of their own share cores: a policy, and what is to be said of it: `nfvnice,high=80`.
    /// `onefold schedule list` explains all of them.
    pub schedule: Option<Loc<String>>,
}

/// A parameter of a chain.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Parameter {
    /// Its value where none is given. Without a default a value must be given.
    pub default: Option<Scalar>,
    /// What it is for.
    pub description: Option<String>,
    /// Smallest value, if it is a number.
    pub min: Option<i64>,
    /// Largest value, if it is a number.
    pub max: Option<i64>,
}

/// A scalar of any type, as text.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Scalar {
    /// A boolean.
    Bool(bool),
    /// An integer.
    Int(i64),
    /// A real number.
    Float(f64),
    /// A string.
    Text(String),
}

impl std::fmt::Display for Scalar {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Scalar::Bool(v) => v.fmt(f),
            Scalar::Int(v) => v.fmt(f),
            Scalar::Float(v) => v.fmt(f),
            Scalar::Text(v) => v.fmt(f),
        }
    }
}

/// A port of the chain.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum PortSpec {
    /// Both ways through one port of a function: `fw[0]`.
    Both(String),
    /// Each way apart.
    Apart(ApartSpec),
}

/// Where packets of a chain port enter and where they leave.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ApartSpec {
    /// Packets that arrive at the chain's port enter here: `[0]fw`.
    #[serde(rename = "in")]
    pub input: Option<String>,
    /// Packets that leave here leave the chain: `fw[0]`.
    #[serde(rename = "out")]
    pub output: Option<String>,
}

/// A network function: exactly one of the kinds, and what is common to all.
#[derive(Debug, Clone, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct Function {
    /// Makes this many of it, named NAME1, NAME2 ...; `$(i)` in it is the number, from 1, `$(i-1)` and `$(i+1)` the
    /// ones beside it.
    pub repeat: Option<u32>,
    /// How the repeated functions are linked, each to the next: `"[1] <-> [0]"`.
    pub link: Option<Loc<String>>,
    /// For a Click configuration: the device names that are ports 0, 1 ..., if not in the order of their first use.
    pub ports: Option<Vec<Loc<String>>>,
    /// MAC address of each port, where the function has one: used for the packet type of what a link delivers.
    pub macs: Option<Vec<Loc<String>>>,
    /// Where it runs: `inline`, merged with its neighbours into one program; `process`, in a process of its own;
    /// `namespace`, in a process in a network namespace of its own; `external`, a black box.
    pub run: Option<Loc<String>>,
    /// The core that its process is executed on; if absent, one is chosen.
    pub affinity: Option<Loc<u32>>,
    /// How much its load counts when cores are shared by load, 1 if absent.
    pub priority: Option<Loc<u32>>,
    /// What becomes of packets while its process has ended and is not there again: they `wait` (the chain fails
    /// closed), or `bypass` it, from its port 0 to its port 1 and back (the chain fails open).
    pub on_crash: Option<Loc<String>>,
    /// A Click configuration.
    pub click: Option<ClickSpec>,
    /// Lets packets pass by rules.
    pub firewall: Option<kinds::firewall::Firewall>,
    /// Routes IPv4 and IPv6.
    pub router: Option<kinds::router::Router>,
    /// Translates addresses and ports.
    pub nat: Option<kinds::nat::Nat>,
    /// Spreads flows over servers.
    pub load_balancer: Option<kinds::load_balancer::LoadBalancer>,
    /// Looks into payloads.
    pub dpi: Option<kinds::dpi::Dpi>,
    /// Counts packets and flows.
    pub monitor: Option<kinds::monitor::Monitor>,
    /// Adds and removes a VLAN tag.
    pub vlan: Option<kinds::vlan::Vlan>,
    /// A program of its own that uses the NF library.
    pub native: Option<kinds::native::Native>,
    /// A black box: a program of somebody else's, or a namespace that the kernel alone works in.
    pub external: Option<kinds::external::External>,
}

/// A Click configuration: a file's name, or more.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum ClickSpec {
    /// A file's name.
    File(String),
    /// A file or the text itself, with parameters.
    Full(ClickFull),
}

/// A Click configuration with parameters.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ClickFull {
    /// The file's name.
    pub file: Option<String>,
    /// The configuration itself.
    pub config: Option<String>,
    /// Values for its `define`d parameters.
    #[serde(default)]
    pub parameters: BTreeMap<String, Scalar>,
}

/// The JSON Schema of the chain file.
pub fn schema() -> serde_json::Value {
    schemars::schema_for!(ChainFile).to_value()
}
