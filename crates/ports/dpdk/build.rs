//! With the feature `dpdk`: compiles the shim and links DPDK, as pkg-config says.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    #[cfg(feature = "dpdk")]
    dpdk::build();
}

#[cfg(feature = "dpdk")]
mod dpdk {
    use std::process::Command;

    /// What of DPDK is called; drivers are loaded by the EAL.
    const LIBRARIES: [&str; 6] = [
        "rte_ethdev",
        "rte_mbuf",
        "rte_mempool",
        "rte_ring",
        "rte_eal",
        "rte_net",
    ];

    fn pkg_config(args: &[&str]) -> Vec<String> {
        let tool = std::env::var("PKG_CONFIG").unwrap_or_else(|_| "pkg-config".to_string());
        let said = Command::new(&tool).args(args).arg("libdpdk").output();
        let hint = "the feature `dpdk` needs DPDK's headers; on Debian and Ubuntu type: apt-get install libdpdk-dev \
                    pkg-config; or build without the feature";
        match said {
            Ok(o) if o.status.success() => String::from_utf8_lossy(&o.stdout)
                .split_whitespace()
                .map(str::to_string)
                .collect(),
            Ok(o) => panic!("{hint}\n{}", String::from_utf8_lossy(&o.stderr)),
            Err(e) => panic!("{hint}\n{tool}: {e}"),
        }
    }

    pub fn build() {
        for name in ["PKG_CONFIG", "PKG_CONFIG_PATH"] {
            println!("cargo:rerun-if-env-changed={name}");
        }
        println!("cargo:rerun-if-changed=src/shim.c");
        let mut shim = cc::Build::new();
        shim.file("src/shim.c")
            .opt_level(3)
            .std("gnu11")
            .flag("-Werror=implicit-function-declaration");
        let flags = pkg_config(&["--cflags"]);
        for f in &flags {
            match f.strip_prefix("-I") {
                // warnings about DPDK's headers are DPDK's
                Some(folder) => shim.flag("-isystem").flag(folder),
                None => shim.flag(f),
            };
        }
        shim.warnings(true).compile("onefold_dpdk_shim");
        for l in pkg_config(&["--libs-only-L"]) {
            if let Some(folder) = l.strip_prefix("-L") {
                println!("cargo:rustc-link-search=native={folder}");
            }
        }
        for l in LIBRARIES {
            println!("cargo:rustc-link-lib=dylib={l}");
        }
    }
}
