//! Chains as text in Click's language, of any length.

use std::fmt::Write;

/// Routes of a router, one for each of its outputs.
pub const ROUTES: [&str; 10] = [
    "198.18.0.0/16",
    "198.18.64.0/18",
    "198.18.128.0/18",
    "198.18.192.0/20",
    "198.19.0.0/16",
    "198.19.32.0/19",
    "198.19.128.0/18",
    "198.19.192.0/24",
    "203.0.113.0/24",
    "192.0.2.0/25",
];

/// A row of routers that do all that RFC 1812 asks for, with ten routes each. Each of the last one's ten outputs leaves the chain at
/// a device of its own; between routers all ten lead to the next one.
pub fn routers(n: usize) -> String {
    let mut t = String::from("FromDevice(in) -> c1;\n");
    for i in 1..=n {
        // writing to a String cannot fail
        let _ = write!(
            t,
            "c{i} :: Classifier(12/0800, -); c{i}[1] -> Discard;\n\
             rt{i} :: RadixIPLookup({});\n\
             c{i} -> Paint(0) -> Strip(14) -> CheckIPHeader -> GetIPAddress(16) -> rt{i};\n",
            (ROUTES.iter().enumerate())
                .map(|(k, r)| format!("{r} {k}"))
                .collect::<Vec<_>>()
                .join(", ")
        );
        for k in 0..ROUTES.len() {
            let next = match i < n {
                true => format!("c{}", i + 1),
                false => format!("ToDevice(out{k})"),
            };
            let me = format!("10.{i}.{k}.1");
            let _ = write!(
                t,
                "rt{i}[{k}] -> DropBroadcasts -> p{i}x{k} :: PaintTee({p}) -> g{i}x{k} :: IPGWOptions({me}) -> FixIPSrc({me}) \
                 -> d{i}x{k} :: DecIPTTL -> f{i}x{k} :: IPFragmenter(1500) \
                 -> EtherEncap(0x0800, 02:00:00:{i:02x}:{k:02x}:01, 02:00:00:{i:02x}:{k:02x}:02) -> {next};\n\
                 p{i}x{k}[1] -> ICMPError({me}, redirect, host) -> rt{i};\n\
                 g{i}x{k}[1] -> ICMPError({me}, parameterproblem) -> rt{i};\n\
                 d{i}x{k}[1] -> ICMPError({me}, timeexceeded) -> rt{i};\n\
                 f{i}x{k}[1] -> ICMPError({me}, unreachable, needfrag) -> rt{i};\n",
                p = k + 1,
            );
        }
    }
    t
}

/// A row of NAPTs for UDP, each behind one address: what each costs is header check, translation, and a new frame.
pub fn napts(n: usize) -> String {
    let mut t = String::new();
    for i in 1..=n {
        let _ = writeln!(
            t,
            "n{i} :: IPRewriter(pattern 198.51.100.{i} 1024-65535 - - 0 1, drop); Idle -> [1] n{i}; n{i}[1] -> Discard;"
        );
    }
    t.push_str(
        "FromDevice(in) -> c :: Classifier(12/0800, -) -> Strip(14) -> CheckIPHeader -> u :: IPClassifier(udp, -) -> n1;\n\
         c[1] -> Discard; u[1] -> Discard;\n",
    );
    for i in 1..=n {
        let _ = write!(
            t,
            "n{i} -> EtherEncap(0x0800, 02:00:00:00:{i:02x}:01, 02:00:00:00:{:02x}:00)",
            i + 1
        );
        let _ = match i < n {
            true => writeln!(t, " -> Strip(14) -> CheckIPHeader -> n{};", i + 1),
            false => writeln!(t, " -> ToDevice(out);"),
        };
    }
    t
}
