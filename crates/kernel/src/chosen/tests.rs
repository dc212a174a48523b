//! Ports that are drawn, connection by connection.

use super::*;
use crate::ends::tests::{frame, udp};

const HOST: [u8; 4] = [10, 0, 0, 1];
const OTHER: [u8; 4] = [10, 0, 0, 2];
const OWN: [u8; 4] = [203, 0, 113, 1];
const SERVER: [u8; 4] = [198, 51, 100, 7];

fn ends(f: &[u8]) -> Ends {
    read(f).unwrap().ends
}

/// A frame of the kernel's that came of something else.
fn to_chain(c: &Chosen, f: &[u8]) -> Vec<u8> {
    c.to_chain(f, (&[], &[]), None)
}

fn segment(from: [u8; 4], sport: u16, to: [u8; 4], dport: u16, flags: u8) -> Vec<u8> {
    let mut tcp = [0; 20];
    tcp[..2].copy_from_slice(&u16::to_be_bytes(sport));
    tcp[2..4].copy_from_slice(&u16::to_be_bytes(dport));
    (tcp[12], tcp[13]) = (0x50, flags);
    frame(from, to, 6, &tcp)
}

/// A first packet that leaves with these ports.
fn begins(c: &mut Chosen, f: &[u8], ours: u16, theirs: u16) -> Learnt {
    let out = |port| udp(OWN, port, SERVER, 53);
    c.learn(0, f, &ends(&out(ours)), &out(theirs))
}

#[test]
fn a_connection_has_two_ports() {
    let mut c = Chosen::new(false);
    let first = udp(HOST, 4000, SERVER, 53);
    assert_eq!(begins(&mut c, &first, 4000, 4000), Learnt::Alike);
    let second = udp(OTHER, 4000, SERVER, 53);
    assert_eq!(begins(&mut c, &second, 7000, 9000), Learnt::Drawn);
    // a reply, and an error about the connection
    let reply = |port| udp(SERVER, 53, OWN, port);
    assert_eq!(c.to_kernel(&reply(7000)), Sent::Mapped(reply(9000)));
    assert_eq!(c.to_kernel(&reply(4000)), Sent::Same);
    assert_eq!(c.to_kernel(&reply(9000)), Sent::Stranger);
    // one of no connection passes as it came
    let passed = c.to_chain(&reply(9000), (&reply(7000), &reply(9000)), None);
    assert_eq!(passed, reply(7000));
    let about = |port| {
        let quoted = &udp(OWN, port, SERVER, 53)[14..];
        let text = [&[3, 3, 0, 0, 0, 0, 0, 0][..], quoted].concat();
        frame(SERVER, OWN, 1, &text)
    };
    assert_eq!(c.to_kernel(&about(7000)), Sent::Mapped(about(9000)));
    // later packets as they leave the kernel, and its errors about replies
    assert_eq!(
        to_chain(&c, &udp(OWN, 9000, SERVER, 53)),
        udp(OWN, 7000, SERVER, 53)
    );
    let back = |port| {
        let quoted = &reply(port)[14..];
        let text = [&[3, 3, 0, 0, 0, 0, 0, 0][..], quoted].concat();
        frame(OWN, SERVER, 1, &text)
    };
    assert_eq!(to_chain(&c, &back(9000)), back(7000));
    // what is of no connection leaves as it came, and changes nothing
    let out = ends(&second);
    assert_eq!(c.learn(0, &second, &out, &second), Learnt::Nothing);
    // it stays so: another port is no choice any more
    assert_eq!(begins(&mut c, &second, 7001, 9000), Learnt::Nothing);
    assert_eq!(
        to_chain(&c, &udp(OWN, 9000, SERVER, 53)),
        udp(OWN, 7000, SERVER, 53)
    );
    assert!(c.strays(1, &second, &[]) && !c.strays(0, &second, &[]));
    // the translator's own address stays what it is
    let itself = udp(OWN, 5000, SERVER, 53);
    c.learn(0, &itself, &ends(&itself), &itself);
    assert!(c.strays(1, &itself, &[OWN.into()]) && !c.strays(1, &itself, &[HOST.into()]));
}

#[test]
fn one_that_keeps_its_port_in_the_kernel_alone_is_known() {
    let mut c = Chosen::new(false);
    // in the chain a host has the port, in the kernel one that is drawn, as somebody else had it there
    let taken = udp(SERVER, 53, OWN, 4000);
    c.learn(1, &taken, &ends(&taken), &taken);
    assert_eq!(
        begins(&mut c, &udp(HOST, 4000, SERVER, 53), 4000, 9000),
        Learnt::Drawn
    );
    // the translator itself comes with it
    let own = |port| udp(OWN, port, SERVER, 53);
    assert_eq!(begins(&mut c, &own(4000), 7000, 4000), Learnt::Drawn);
    let sent = own(4000);
    let to_chain = |ours: Option<Ends>| c.to_chain(&own(4000), (&sent, &sent), ours.as_ref());
    assert_eq!(to_chain(Some(ends(&own(7000)))), own(7000));
    // a packet of its that is of no connection leaves both as it came
    assert_eq!(to_chain(Some(ends(&own(4000)))), own(4000));
    assert_eq!(to_chain(None), own(4000));
}

#[test]
fn a_port_of_one_that_is_over_may_be_the_next_ones() {
    let mut c = Chosen::new(true);
    let first = udp(HOST, 4000, SERVER, 53);
    let out = |port| udp(OWN, port, SERVER, 53);
    assert_eq!(begins(&mut c, &first, 7000, 9000), Learnt::Drawn);
    if let Some(conn) = c.connections.get_mut(&ends(&first)) {
        conn.over = true;
    }
    // the kernel has given its port to another one
    assert_eq!(
        begins(&mut c, &udp(OTHER, 1, SERVER, 53), 7001, 9000),
        Learnt::Drawn
    );
    // when it begins anew, that one keeps it
    assert_eq!(begins(&mut c, &first, 7002, 9002), Learnt::Drawn);
    assert_eq!(to_chain(&c, &out(9000)), out(7001));
    assert_eq!(to_chain(&c, &out(9002)), out(7002));
    let reply = |port| udp(SERVER, 53, OWN, port);
    assert_eq!(c.to_kernel(&reply(7001)), Sent::Mapped(reply(9000)));
}

#[test]
fn what_was_of_no_connection_leaves_the_ports_open() {
    let mut c = Chosen::new(false);
    let to = |port| udp(HOST, 4000, SERVER, port);
    let out = |from, port| udp(OWN, from, SERVER, port);
    // another host has the port already, so that this one's first connection has one that is drawn
    begins(&mut c, &udp(OTHER, 4000, SERVER, 53), 4000, 4000);
    begins(&mut c, &to(53), 7000, 9000);
    // malformed: it passes as it came; then one of a connection, which gets the end that its source has
    let same = ends(&to(99));
    assert_eq!(c.learn(0, &to(99), &same, &to(99)), Learnt::Alike);
    let learnt = c.learn(0, &to(99), &ends(&out(7000, 99)), &out(9000, 99));
    assert_eq!(learnt, Learnt::Drawn);
    assert_eq!(to_chain(&c, &out(9000, 99)), out(7000, 99));
    // from then on it stays
    let learnt = c.learn(0, &to(99), &ends(&out(7001, 99)), &out(9000, 99));
    assert_eq!(learnt, Learnt::Nothing);
}

#[test]
fn an_answer_to_nothing_leaves_the_ports_open() {
    let mut c = Chosen::new(false);
    // passes as it came, as it is of no connection
    let answer = udp(SERVER, 53, HOST, 4000);
    let learnt = c.learn(1, &answer, &ends(&answer), &answer);
    assert_eq!(learnt, Learnt::Alike);
    // another host has the port already when somebody asks
    let out = |from| udp(OWN, from, SERVER, 53);
    begins(&mut c, &udp(OTHER, 4000, SERVER, 53), 4000, 4000);
    let first = udp(HOST, 4000, SERVER, 53);
    assert_eq!(begins(&mut c, &first, 7000, 9000), Learnt::Drawn);
    assert_eq!(to_chain(&c, &out(9000)), out(7000));
    // it stays so
    assert_eq!(begins(&mut c, &first, 7001, 9000), Learnt::Nothing);
}

#[test]
fn segments_end_connections_whatever_becomes_of_them() {
    let mut c = Chosen::new(true);
    let first = udp(HOST, 4000, SERVER, 53);
    assert_eq!(begins(&mut c, &first, 7000, 9000), Learnt::Drawn);
    // of UDP none does
    c.ends(&first, Learnt::Nothing);
    assert_eq!(begins(&mut c, &first, 7001, 9001), Learnt::Nothing);
    let first = segment(HOST, 4000, SERVER, 80, ACK);
    let out = |port| segment(OWN, port, SERVER, 80, ACK);
    let begins = |c: &mut Chosen, ours, theirs| c.learn(0, &first, &ends(&out(ours)), &out(theirs));
    assert_eq!(begins(&mut c, 7000, 9000), Learnt::Drawn);
    assert_eq!(begins(&mut c, 7001, 9001), Learnt::Nothing);
    for (n, flags) in [(2, SYN), (3, RST | ACK)] {
        c.ends(
            &segment(SERVER, 80, OWN, 7000 + (n - 2), SYN | ACK),
            Learnt::Nothing,
        );
        assert_eq!(begins(&mut c, 7000 + n - 1, 9000 + n - 1), Learnt::Nothing);
        c.ends(
            &segment(SERVER, 80, OWN, 7000 + (n - 2), flags),
            Learnt::Nothing,
        );
        assert_eq!(begins(&mut c, 7000 + n - 1, 9000 + n - 1), Learnt::Drawn);
    }
}

#[test]
fn what_is_gone_on_one_side_is_told() {
    let mut c = Chosen::new(true);
    let out = |port| udp(OWN, port, SERVER, 53);
    let reply = |port| udp(SERVER, 53, OWN, port);
    let first = udp(HOST, 4000, SERVER, 53);
    // while it may be alive, another one with its port is a fault to be seen
    begins(&mut c, &first, 7000, 9000);
    begins(&mut c, &udp(OTHER, 1, SERVER, 53), 7001, 9000);
    assert!(!c.is_apart(&first));
    let mut c = Chosen::new(true);
    begins(&mut c, &first, 7000, 9000);
    c.connections.get_mut(&ends(&first)).unwrap().over = true;
    begins(&mut c, &udp(OTHER, 2, SERVER, 53), 7002, 9000);
    assert!(c.is_apart(&first) && c.is_apart(&reply(7000)));
    assert!(!c.is_apart(&reply(7002)) && !c.is_apart(&udp(OTHER, 2, SERVER, 53)));
    // what answers one that may be over meets rules with another port, and its own packets go on
    let mut d = Chosen::new(true);
    begins(&mut d, &first, 7000, 9000);
    d.connections.get_mut(&ends(&first)).unwrap().over = true;
    assert!(d.is_apart(&reply(7000)) && !d.is_apart(&first));
    begins(&mut d, &udp(OTHER, 2, SERVER, 53), 7002, 7002);
    d.connections.values_mut().for_each(|c| c.over = true);
    assert!(!d.is_apart(&reply(7002)));
    // once it is gone in the chain, too, it begins anew on both sides
    begins(&mut c, &udp(OTHER, 3, SERVER, 53), 7000, 9003);
    assert!(!c.is_apart(&first) && !c.is_apart(&reply(7000)));
    assert_eq!(begins(&mut c, &first, 7004, 9004), Learnt::Drawn);
    assert!(!c.is_apart(&first));
    assert_eq!(to_chain(&c, &out(9004)), out(7004));
    // gone in the chain alone: whoever writes to the kernel's port meets it there
    c.connections.get_mut(&ends(&first)).unwrap().over = true;
    begins(&mut c, &udp(OTHER, 5, SERVER, 53), 7004, 9005);
    assert!(c.is_apart(&first) && c.is_apart(&reply(9004)));
    assert!(!c.is_apart(&reply(7004)));
}

#[test]
fn one_that_one_side_has_begun_anew_is_told() {
    let mut c = Chosen::new(true);
    let first = udp(HOST, 4000, SERVER, 53);
    begins(&mut c, &first, 7000, 9000);
    c.connections.get_mut(&ends(&first)).unwrap().over = true;
    assert_eq!(begins(&mut c, &first, 7000, 9001), Learnt::Drawn);
    assert!(c.is_apart(&first));
}

#[test]
fn what_is_of_no_connection_takes_nobodys_ports() {
    let mut c = Chosen::new(true);
    let first = udp(HOST, 4000, SERVER, 53);
    begins(&mut c, &first, 7000, 9000);
    // with the port that the kernel has drawn, and with the chain's
    for port in [9000, 7000] {
        let stray = udp(OWN, port, SERVER, 53);
        assert_eq!(c.learn(0, &stray, &ends(&stray), &stray), Learnt::Nothing);
    }
    let reply = |port| udp(SERVER, 53, OWN, port);
    assert_eq!(c.to_kernel(&reply(7000)), Sent::Mapped(reply(9000)));
}

#[test]
fn an_answer_that_keeps_its_ends_in_the_kernel_alone_is_known() {
    let mut c = Chosen::new(true);
    // in the chain somebody else has the reply's ends already
    let first = udp(SERVER, 18, HOST, 21);
    let out = |port| udp(SERVER, port, HOST, 21);
    assert_eq!(
        c.learn(1, &first, &ends(&out(142)), &out(18)),
        Learnt::Drawn
    );
    let reply = |port| udp(HOST, 21, SERVER, port);
    assert_eq!(c.to_kernel(&reply(142)), Sent::Mapped(reply(18)));
    let left = |ours: &[u8]| c.to_chain(&reply(18), (&reply(142), &reply(18)), Some(&ends(ours)));
    assert_eq!(left(&reply(18)), reply(18));
    // one of no connection passes as it came
    assert_eq!(left(&reply(142)), reply(142));
}

#[test]
fn one_that_begins_the_other_way_round_takes_its_place() {
    let mut c = Chosen::new(true);
    let first = segment(HOST, 4000, SERVER, 80, ACK);
    let out = |port| segment(OWN, port, SERVER, 80, ACK);
    let begins = |c: &mut Chosen, ours, theirs| c.learn(0, &first, &ends(&out(ours)), &out(theirs));
    assert_eq!(begins(&mut c, 7000, 9000), Learnt::Drawn);
    // who has answered opens one that is translated as well
    let opens = segment(SERVER, 80, OWN, 7000, SYN);
    let (ours, theirs) = (
        segment(OTHER, 5, OWN, 7000, SYN),
        segment(OTHER, 6, OWN, 9000, SYN),
    );
    let learnt = c.learn(1, &opens, &ends(&ours), &theirs);
    c.ends(&opens, learnt);
    assert_eq!(learnt, Learnt::Drawn);
    let answer = |port, to| segment(OWN, port, OTHER, to, ACK);
    assert_eq!(c.to_kernel(&answer(7000, 5)), Sent::Mapped(answer(9000, 6)));
    // its own packets go to the port that each side has drawn before, and their answers come from there
    let own = |port| segment(SERVER, 80, OWN, port, ACK);
    assert_eq!(c.to_kernel(&own(7000)), Sent::Mapped(own(9000)));
    assert_eq!(
        to_chain(&c, &segment(OWN, 9000, SERVER, 80, ACK)),
        segment(OWN, 7000, SERVER, 80, ACK)
    );
    // and the first one begins anew behind it
    assert_eq!(begins(&mut c, 7001, 9001), Learnt::Drawn);
    // when it is gone, so is what was known of its port
    c.forget(&ends(&opens));
    assert_eq!(c.to_kernel(&own(7000)), Sent::Same);
}

#[test]
fn one_that_begins_the_other_way_round_as_it_is_is_not_followed() {
    let mut c = Chosen::new(true);
    let first = segment(HOST, 4000, SERVER, 80, ACK);
    let out = |port| segment(OWN, port, SERVER, 80, ACK);
    c.learn(0, &first, &ends(&out(7000)), &out(9000));
    // it may be of no connection, or the first one of one that is not translated
    let opens = |port| segment(SERVER, 80, OWN, port, SYN);
    let learnt = c.learn(1, &opens(7000), &ends(&opens(7000)), &opens(9000));
    assert_eq!(learnt, Learnt::Nothing);
    assert!(c.is_apart(&first) && c.is_apart(&opens(7000)));
    assert!(c.is_apart(&out(7000)) && !c.is_apart(&out(7001)));
}

#[test]
fn who_gets_the_ends_of_one_that_is_over_is_told() {
    let mut c = Chosen::new(true);
    // not translated; a reset ends it
    let first = segment(SERVER, 80, HOST, 31, ACK);
    assert_eq!(c.learn(0, &first, &ends(&first), &first), Learnt::Alike);
    c.ends(&segment(SERVER, 80, HOST, 31, RST), Learnt::Nothing);
    // the kernel draws the port of its answers for another one
    let other = segment(HOST, 6, SERVER, 80, ACK);
    let out = |port| segment(HOST, port, SERVER, 80, ACK);
    assert_eq!(c.learn(1, &other, &ends(&out(55)), &out(31)), Learnt::Drawn);
    assert!(c.is_apart(&out(31)) && c.is_apart(&first) && !c.is_apart(&other));
}

#[test]
fn what_begins_no_connection_takes_nobodys_place() {
    let mut c = Chosen::new(true);
    let first = segment(HOST, 4000, SERVER, 80, SYN);
    let out = |port| segment(OWN, port, SERVER, 80, SYN);
    let learnt = c.learn(0, &first, &ends(&out(7000)), &out(9000));
    c.ends(&first, learnt);
    // invalid ones in both directions pass as they came
    for flags in [ACK, FIN | ACK, RST] {
        for f in [
            segment(HOST, 4000, SERVER, 80, flags),
            segment(SERVER, 80, HOST, 4000, flags),
        ] {
            assert_eq!(c.learn(0, &f, &ends(&f), &f), Learnt::Nothing, "{flags:x}");
        }
    }
    let reply = |port| segment(SERVER, 80, OWN, port, SYN | ACK);
    assert_eq!(c.to_kernel(&reply(7000)), Sent::Mapped(reply(9000)));
    assert!(!c.is_apart(&reply(7000)));
}

#[test]
fn what_opens_a_connection_from_an_own_address() {
    let segment = |from, flags| segment(from, 0, SERVER, 0, flags);
    let opens = |f: &[u8]| Chosen::opens_from(f, &[OTHER.into(), OWN.into()]);
    assert!(opens(&segment(OWN, SYN)));
    assert!(!opens(&segment(OWN, SYN | ACK)) && !opens(&segment(OWN, ACK)));
    assert!(!opens(&segment(HOST, SYN)) && !opens(&udp(OWN, 2, SERVER, 53)));
}

#[test]
fn who_may_keep_a_port_keeps_it() {
    let mut c = Chosen::new(false);
    let first = udp(HOST, 4000, SERVER, 53);
    assert_eq!(begins(&mut c, &first, 4000, 9000), Learnt::Nothing);
    assert_eq!(begins(&mut c, &first, 7000, 4000), Learnt::Nothing);
    assert_eq!(begins(&mut c, &first, 7000, 9000), Learnt::Nothing);
    // where rules draw in any case, that says nothing
    let mut c = Chosen::new(true);
    assert_eq!(begins(&mut c, &first, 4000, 9000), Learnt::Drawn);
    // another address is no choice
    let mut c = Chosen::new(true);
    let (ours, theirs) = (udp(OWN, 1, SERVER, 53), udp(OTHER, 1, SERVER, 53));
    assert_eq!(c.learn(0, &first, &ends(&ours), &theirs), Learnt::Nothing);
    assert_eq!(to_chain(&c, &theirs), theirs);
}
