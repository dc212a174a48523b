//! Open vSwitch between processes: its userspace datapath (`datapath_type=netdev`), started here with a folder of its
//! own, one port for each end of a cable, and an OpenFlow rule for each direction. The host's Open vSwitch, if there is
//! one, is neither asked nor seen.

use super::cables::Cables;
use super::inner::Inner;
use super::program::Program;
use anyhow::{Context, Result};
use onefold_chain::kinds::external::{BlackBox, SCRATCH};
use std::path::Path;

/// Where Debian's package, and a build from source, have the database's schema.
const SCHEMAS: [&str; 2] = [
    "/usr/share/openvswitch/vswitch.ovsschema",
    "/usr/local/share/openvswitch/vswitch.ovsschema",
];

/// Starts it, if it connects the processes.
///
/// # Errors
/// It is not installed, or does not start.
pub fn start(cables: Option<&Cables>, core: Option<usize>) -> Result<Option<Program>> {
    let Some((space, pairs)) = cables.and_then(|c| c.switch.as_ref()) else {
        return Ok(None);
    };
    let core = core.and_then(|c| u32::try_from(c).ok());
    let schema = SCHEMAS.iter().find(|f| Path::new(f).exists()).context(
        "interconnect: ovs: Open vSwitch is not installed; on Debian: apt-get install openvswitch-switch",
    )?;
    let told = Inner {
        name: "Open vSwitch".to_string(),
        black_box: switch(schema, pairs),
        scratch: true,
    };
    Program::launch("interconnect: ovs", &told, space, core).map(Some)
}

fn switch(schema: &str, pairs: &[[String; 2]]) -> BlackBox {
    let db = format!("unix:{SCRATCH}/db.sock");
    let mut bridge = format!(
        "ovs-vsctl --db={db} --timeout=10 --may-exist add-br br0 \
         -- set bridge br0 datapath_type=netdev fail-mode=secure"
    );
    let mut flows = String::new();
    for (n, ports) in pairs.iter().enumerate() {
        let numbers = [2 * n + 1, 2 * n + 2];
        for (port, number) in ports.iter().zip(numbers) {
            bridge.push_str(&format!(
                " -- --may-exist add-port br0 {port} -- set interface {port} ofport_request={number}"
            ));
        }
        let [a, b] = numbers;
        flows.push_str(&format!(
            "in_port={a},actions=output:{b}\\nin_port={b},actions=output:{a}\\n"
        ));
    }
    let folders = ["OVS_RUNDIR", "OVS_LOGDIR", "OVS_DBDIR", "OVS_SYSCONFDIR"];
    let mut environment: Vec<(String, String)> = folders
        .iter()
        .map(|f| (f.to_string(), SCRATCH.to_string()))
        .collect();
    let path = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
    environment.push(("PATH".to_string(), path.to_string()));
    let server = format!(
        "ovsdb-server {SCRATCH}/conf.db --remote=punix:{SCRATCH}/db.sock --detach --no-chdir --pidfile \
         -vconsole:off -vsyslog:off"
    );
    BlackBox {
        command: Some((
            "ovs-vswitchd".into(),
            [&db, "--no-chdir", "-vconsole:emer", "-vsyslog:off"]
                .map(str::to_string)
                .to_vec(),
        )),
        directory: "/".into(),
        environment,
        ports: Vec::new(),
        routes: Vec::new(),
        neighbours: Vec::new(),
        sysctls: Vec::new(),
        set_up: vec![
            format!("ovsdb-tool create {SCRATCH}/conf.db {schema} && {server}"),
            format!("ovs-vsctl --db={db} --no-wait init"),
        ],
        ready: vec![
            bridge,
            format!("printf '{flows}' | ovs-ofctl add-flows br0 -"),
        ],
        settle: 0.0,
    }
}
