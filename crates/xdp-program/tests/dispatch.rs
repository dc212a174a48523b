//! Where frames go: the code's answer against the partition function's, for frames of all kinds; tags; classes.

use onefold_bpf::{Map, Program as Loaded};
use onefold_partition::{Forward, Hash, Partition, Pool, PortRule, Target, Transport};
use onefold_synth::Program;
use onefold_synth::program::StageId;
use onefold_xdp_program::{Count, Dispatch, Generated, Input, Options, Tag, Verdict, generate};
use std::net::Ipv4Addr;

/// splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        x ^ (x >> 31)
    }
    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }
    fn one_of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

const POOL: [u8; 4] = [203, 0, 113, 1];
const HOST: [u8; 4] = [10, 0, 0, 7];

fn address(r: &mut Random) -> [u8; 4] {
    match r.below(6) {
        0 | 1 => [203, 0, 113, r.below(6) as u8],
        2 => HOST,
        3 => [198, 51, 100, r.below(4) as u8],
        _ => (r.next() as u32).to_be_bytes(),
    }
}

fn port(r: &mut Random) -> u16 {
    match r.below(3) {
        0 => r.one_of(&[0, 80, 443, 1023, 1024, 1025, 22527, 22528, 22529, 65535]),
        _ => r.next() as u16,
    }
}

/// An IPv4 packet; `depth`: it may quote another one.
fn v4(r: &mut Random, depth: u32) -> Vec<u8> {
    let options = [0, 0, 0, 0, 0, 4, 8][r.below(7) as usize];
    let protocol = r.one_of(&[6, 17, 1, 1, 1, 47]);
    let mut b = vec![0x45 + (options / 4) as u8, 0, 0, 0];
    b.extend((r.next() as u16).to_be_bytes());
    let fragment: u16 = match r.below(8) {
        0 => 0x2000,
        1 => 0x0010,
        2 => 0x4000,
        _ => 0,
    };
    b.extend(fragment.to_be_bytes());
    b.extend([64, protocol, 0, 0]);
    b.extend(address(r));
    b.extend(address(r));
    b.resize(20 + options, 1);
    match protocol {
        1 => {
            let kind = r.one_of(&[0, 8, 3, 3, 11, 12, 4, 5, 13]);
            b.extend([kind, 0, 0, 0]);
            b.extend(port(r).to_be_bytes());
            b.extend([0, 1]);
            if depth > 0 {
                let quoted = v4(r, depth - 1);
                b.extend(quoted);
            }
        }
        _ => {
            b.extend(port(r).to_be_bytes());
            b.extend(port(r).to_be_bytes());
            b.extend([0; 16]);
        }
    }
    if r.below(30) == 0 {
        b[0] = r.next() as u8;
    }
    b
}

fn v6(r: &mut Random, depth: u32) -> Vec<u8> {
    let next = r.one_of(&[6, 17, 58, 58, 58, 0, 44, 59]);
    let mut b = vec![0x60, 0, 0, 0, 0, 40, next, 64];
    for _ in 0..2 {
        b.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0]);
        b.extend((r.next() % 64).to_be_bytes());
    }
    match next {
        58 => {
            b.extend([r.one_of(&[128, 136, 135, 1, 2, 3]), 0, 0, 0, 0, 0, 0, 0]);
            if depth > 0 {
                let quoted = v6(r, depth - 1);
                b.extend(quoted);
            }
        }
        _ => b.extend([17, 0, 0, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]),
    }
    if r.below(40) == 0 {
        b[0] = r.next() as u8;
    }
    b
}

fn frame(r: &mut Random) -> Vec<u8> {
    let mut f = vec![2; 12];
    let tags = r.one_of(&[0, 0, 0, 0, 1, 2, 3]);
    for _ in 0..tags {
        f.extend(r.one_of(&[[0x81, 0], [0x88, 0xa8]]));
        f.extend((r.next() as u16 & 0xfff).to_be_bytes());
    }
    match r.below(12) {
        0 => {
            f.extend([8, 6, 0, 1, 8, 0, 6, 4, 0, r.one_of(&[1, 2])]);
            f.extend([9; 20]);
        }
        1 => f.extend([0x88, 0xcc, 1, 2, 3, 4]),
        2..=4 => {
            f.extend([0x86, 0xdd]);
            f.extend(v6(r, 1));
        }
        _ => {
            f.extend([8, 0]);
            f.extend(v4(r, 1));
        }
    }
    if r.below(10) == 0 {
        f.truncate(r.below(f.len() as u64 + 1) as usize);
    }
    f
}

fn rules() -> Vec<PortRule> {
    let pool = |forwards| Pool {
        addresses: (POOL.into(), [203, 0, 113, 3].into()),
        ports: (1024, 65535),
        identifiers: (0, 65535),
        forwards,
    };
    let forward = Forward {
        transport: Transport::Tcp,
        address: Ipv4Addr::from(POOL),
        port: 80,
        host: HOST.into(),
    };
    let with = |hash| PortRule {
        hash,
        ..PortRule::default()
    };
    vec![
        with(Hash::Both),
        with(Hash::Source),
        PortRule {
            neighbours: true,
            ..with(Hash::Destination)
        },
        PortRule {
            pools: vec![pool(vec![]), pool(vec![forward])],
            ..with(Hash::Source)
        },
        PortRule {
            pools: vec![pool(vec![forward])],
            neighbours: true,
            ..with(Hash::Both)
        },
        PortRule {
            hairpins: vec![(POOL.into(), [203, 0, 113, 2].into())],
            hosts: vec![HOST.into()],
            ..with(Hash::Source)
        },
    ]
}

fn generated(dispatch: Dispatch<'_>) -> Generated {
    let options = Options {
        early_drop: false,
        dispatch,
        tells: true,
        ..Options::default()
    };
    let input = Input {
        program: &Program::default(),
        entry: StageId(0),
        waits: &|_, _| false,
        trusts: &|_, _| false,
        assign: &|_, _| None,
    };
    generate(&input, &options).expect("code")
}

/// The code in the kernel; `None`, said, where there is no right to.
fn in_kernel(g: &Generated) -> Option<(Loaded, Map, Map)> {
    let counters = Map::counters(1, Count::WORDS);
    let sockets = Map::sockets(g.places);
    let (counters, sockets) = match (counters, sockets) {
        (Ok(c), Ok(s)) => (c, s),
        (Err(e), _) | (_, Err(e)) => {
            onefold_testing::skip(format_args!("no right to load programs: {e}"));
            return None;
        }
    };
    let loaded = Loaded::load(&g.code, &[&counters, &sockets]);
    Some((loaded.expect("the verifier takes it"), counters, sockets))
}

#[test]
fn the_code_says_what_the_partition_function_says() {
    for workers in [1, 2, 3, 64] {
        let all = rules();
        let mut partition = Partition::new(workers, 11, all.clone());
        for port in 0..all.len() {
            let undecided = workers as u32;
            let g = generated(Dispatch::Partition {
                partition: &partition,
                port,
                undecided,
            });
            let kernel = in_kernel(&g);
            let mut tables = g.tables();
            let mut r = Random(workers as u64 * 100 + port as u64);
            let (mut decided, mut left) = (vec![0u32; workers], 0);
            for n in 0..4000 {
                let f = frame(&mut r);
                let got = g.verdict(&mut tables, &f).expect("code that is right");
                // the kernel takes no shorter ones
                if let Some((k, ..)) = kernel.as_ref().filter(|_| n % 4 == 0 && f.len() >= 14) {
                    let told = k.run(&f).expect("a result");
                    assert_eq!(Verdict::told(told), got, "port {port}: {f:02x?}");
                }
                let Some(Verdict::Pass(Some(w))) = got else {
                    panic!("{got:?}: {f:02x?}");
                };
                let wanted = partition.target(port, &f);
                if w == undecided {
                    left += 1;
                } else {
                    assert_eq!(wanted, Target::One(w as usize), "port {port}: {f:02x?}");
                    decided[w as usize] += 1;
                }
            }
            assert!(
                left < 2400,
                "port {port}: {left} of 4000 are left undecided"
            );
            if workers < 4 {
                assert!(decided.iter().all(|n| *n > 20), "port {port}: {decided:?}");
            }
        }
    }
}

#[test]
fn tags_are_looked_up() {
    let tags = [
        (Tag::Mac([2, 0, 0, 0, 0, 1]), 0),
        (Tag::Mac([2, 0, 0, 0, 0, 2]), 1),
        (Tag::Mac([0xff; 6]), 2),
        (Tag::Vlan(5), 1),
        (Tag::Vlan(4095), 2),
        (Tag::Vlan(7), 0),
    ];
    let g = generated(Dispatch::Tags {
        tags: &tags,
        undecided: 3,
    });
    assert_eq!(g.places, 4);
    let kernel = in_kernel(&g);
    let frame = |mac: [u8; 6], vlan: Option<u16>| {
        let mut f = mac.to_vec();
        f.extend([2; 6]);
        if let Some(v) = vlan {
            f.extend([0x81, 0]);
            f.extend((v | 0x2000).to_be_bytes());
        }
        f.resize(60, 0);
        f
    };
    let other = [2, 0, 0, 0, 0, 3];
    for (f, wanted) in [
        (frame([2, 0, 0, 0, 0, 1], None), 0),
        (frame([2, 0, 0, 0, 0, 2], None), 1),
        (frame([0xff; 6], None), 2),
        (frame(other, None), 3),
        (frame(other, Some(5)), 1),
        (frame(other, Some(4095)), 2),
        (frame(other, Some(7)), 0),
        (frame(other, Some(6)), 3),
        (frame([2, 0, 0, 0, 0, 2], Some(6)), 1),
    ] {
        let got = g.verdict(&mut g.tables(), &f).expect("code that is right");
        assert_eq!(got, Some(Verdict::Pass(Some(wanted))), "{f:02x?}");
        if let Some((k, ..)) = &kernel {
            let told = k.run(&f).expect("a result");
            assert_eq!(Verdict::told(told), got);
        }
    }
}
