//! ConnBalancer: what it is told, and who is down. Whom connections go to is tested where it is chosen (crate `nat`),
//! and with whole functions (crate `verify`).

use crate::testing::Bench;

fn made(config: &str) -> Result<Bench, String> {
    Bench::new("ConnBalancer", config, 0, 0).map_err(|e| e.join("\n"))
}

#[test]
fn servers_that_are_down_by_name() {
    for policy in ["round-robin", "source-hash", "maglev"] {
        let config =
            format!("{policy}, [2001:db8::1]:80 1 0, 2001:db8::2 2 1, [2001:0db8::3]:80 1 2");
        let mut b = made(&config).unwrap();
        assert_eq!(b.read("down").unwrap(), "");
        b.write("down", "2001:db8::2 [2001:db8:0::1]:80").unwrap();
        assert_eq!(b.read("down").unwrap(), "[2001:db8::1]:80\n2001:db8::2\n");
        for (bad, why) in [
            ("2001:db8::1", "2001:db8::1 is no server"),
            ("[2001:db8::2]:80", "[2001:db8::2]:80 is no server"),
            ("[2001:db8::1]:0", "expected ADDRESS"),
            ("x", "expected ADDRESS"),
        ] {
            let e = b.write("down", bad).unwrap_err().to_string();
            assert!(e.contains(why), "{e}");
        }
        assert_eq!(
            b.read("down").unwrap().lines().count(),
            2,
            "nothing has changed"
        );
        b.write("down", "").unwrap();
        assert_eq!(b.read("down").unwrap(), "");
    }
    let mut b = made("maglev, 10.0.0.1 1 0, 10.0.0.2:80 1 1, SIZE 251").unwrap();
    b.write("down", "10.0.0.2:80").unwrap();
    assert_eq!(b.read("down").unwrap(), "10.0.0.2:80\n");
}

#[test]
fn configurations_that_are_wrong() {
    for (bad, why) in [
        ("", "POLICY"),
        ("round-robin", "expected 1 to 1024 servers"),
        ("least-connections, ::1 1 0", "expected 'round-robin'"),
        ("maglev, ::1 1", "expected SERVER WEIGHT ID"),
        ("maglev, ::1 0 0", "a weight is from 1 to 1000"),
        ("source-hash, ::1 64 0", "a weight is from 1 to 63"),
        ("maglev, ::1 1 1024", "an identity is below 1024"),
        ("maglev, ::1 1 0, ::1 1 1", "server ::1 is there twice"),
        ("maglev, ::1 1 0, ::2 1 0", "identity 0 is there twice"),
        ("maglev, ::1 1 0, 10.0.0.1 1 1", "one version of IP"),
        ("maglev, ::1 1 0, SIZE 10", "a prime number of places"),
        ("maglev, ::1 1 0, ::2 1 1, ::3 1 2, SIZE 2", "fewer places"),
        ("source-hash, ::1 1 0, NODES 0", "places"),
    ] {
        let e = made(bad).err().unwrap_or_else(|| panic!("{bad}"));
        assert!(e.contains(why), "{bad}: {e}");
    }
}
