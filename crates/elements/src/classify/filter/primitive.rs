//! From the parts of a primitive to a test: what was left out is taken from the primitive before, or is the default;
//! what does not fit together is refused.

use super::error::FilterErrorKind as K;
use super::expr::{Check, Compare, Field, Op, Test, Which};
use super::names::{self, Kind, PROTOCOL, Proto};
use super::parse::{Data, Draft, Header, Mask, Parser, Prev, R, Rel, fail};

impl Parser<'_> {
    /// Fills in what was left out, from the primitive before or by default, and checks that the parts fit.
    pub(super) fn complete(&mut self, mut d: Draft) -> R<Test> {
        let written_which = d.which.is_some();
        self.infer_kind(&mut d)?;
        let header = match (d.header, d.data) {
            (None, Data::Ether(_)) => Header::Ether,
            (h, _) => h.unwrap_or(Header::Ip),
        };
        if header == Header::Ether && d.kind == Some(Kind::Host) {
            d.kind = Some(Kind::Ether);
        }
        let kind = d.kind.unwrap_or(Kind::Proto);
        let what = describe(&d, kind);
        let err = |p: &Self, kind| Err(p.fail_from(d.first, kind));
        let missing = |wanted| K::ValueMissing {
            what: what.clone(),
            wanted,
        };
        let refused = |refused| K::Refused {
            what: what.clone(),
            refused,
        };
        if (kind == Kind::Ether) != (header == Header::Ether) {
            return err(self, missing("a matching address"));
        }
        let ordered = !matches!(d.rel, Rel::None | Rel::Eq | Rel::Ne);
        let ne = d.rel == Rel::Ne;
        let which = d.which.unwrap_or(Which::Either);
        let mut transport = d.transport;
        let mut next_kind = kind;
        let check = match kind {
            Kind::Host | Kind::Net if matches!(d.data, Data::Host6(_) | Data::Net6(..)) => {
                let (addr, mask) = match (kind, d.data) {
                    (Kind::Host, Data::Host6(a)) => (a, u128::MAX),
                    (Kind::Net, Data::Net6(a, m)) => (a, m),
                    (Kind::Host, _) => return err(self, missing("an address")),
                    _ => return err(self, missing("a network (such as 2001:db8::/32)")),
                };
                if d.mask.is_some() {
                    return err(self, refused("mask"));
                }
                if ordered {
                    return err(self, refused("such operator"));
                }
                next_kind = Kind::Host;
                Check::Host6 {
                    which,
                    addr: addr & mask,
                    mask,
                    negated: ne,
                }
            }
            Kind::Host | Kind::Net => {
                let (addr, own) = match (kind, d.data) {
                    (Kind::Host, Data::Host(a)) => (a, u32::MAX),
                    (Kind::Net, Data::Net(a, m)) => (a, m),
                    (Kind::Host, _) => return err(self, missing("an address")),
                    _ => return err(self, missing("a network (such as 10.0.0.0/8)")),
                };
                let mask = match d.mask {
                    None => own,
                    Some(Mask::Int(m) | Mask::Addr(m)) => m,
                    Some(Mask::Ether(_)) => return err(self, refused("such mask")),
                };
                if ordered {
                    return err(self, refused("such operator"));
                }
                next_kind = Kind::Host;
                Check::Host {
                    which,
                    addr: addr & mask,
                    mask,
                    negated: ne,
                }
            }
            Kind::Ether => {
                let Data::Ether(addr) = d.data else {
                    return err(self, missing("an Ethernet address"));
                };
                let mask = match d.mask {
                    None => [0xff; 6],
                    Some(Mask::Ether(m)) => m,
                    Some(_) => return err(self, refused("such mask")),
                };
                if ordered {
                    return err(self, refused("such operator"));
                }
                Check::Ether {
                    which,
                    addr: std::array::from_fn(|i| addr[i] & mask[i]),
                    mask,
                    negated: ne,
                }
            }
            Kind::Proto => {
                let (proto, check) = self.protocol(&d, &what)?;
                transport = proto;
                check
            }
            Kind::Port => {
                let value = match d.data {
                    Data::Int(v) => v,
                    Data::Port(p) => u32::from(p),
                    _ => return err(self, missing("a port")),
                };
                match transport {
                    None => transport = Some(Proto::TcpUdp),
                    Some(Proto::TcpUdp | Proto::Number(names::TCP | names::UDP | names::DCCP)) => {}
                    Some(_) => {
                        let mut e = self.fail_from(d.first, refused("such protocol"));
                        e.hint = Some(
                            "ports are those of tcp, udp or dccp; for others test transp[0:2]"
                                .into(),
                        );
                        return Err(e);
                    }
                }
                Check::Port {
                    which,
                    compare: self.compare(&d, &what, 0xffff, value)?,
                }
            }
            Kind::TcpOpt => {
                let value = match d.data {
                    Data::Int(v) => v,
                    Data::TcpOpt(v) => u32::from(v),
                    _ => return err(self, missing("a TCP flag (such as syn)")),
                };
                match transport {
                    None | Some(Proto::Number(names::TCP)) => {
                        transport = Some(Proto::Number(names::TCP));
                    }
                    Some(_) => return err(self, refused("protocol but tcp")),
                }
                if d.mask.is_some() || ordered || ne {
                    return err(self, refused("operator or mask"));
                }
                match u8::try_from(value) {
                    Ok(v) => Check::TcpFlags(v),
                    Err(_) => {
                        let kind = K::OutOfRange {
                            what,
                            value: value.to_string(),
                            range: "0 to 255".to_string(),
                        };
                        return err(self, kind);
                    }
                }
            }
            Kind::Ect => {
                next_kind = Kind::Field(self.family.traffic_class(), None);
                let c = match d.data {
                    Data::None => Compare {
                        mask: 3,
                        op: Op::Equal,
                        value: 0,
                        negated: true,
                    },
                    Data::Int(v) => self.compare(&d, &what, 3, v)?,
                    _ => return err(self, missing("a number, or nothing,")),
                };
                field_check(self.family.traffic_class(), c)
            }
            Kind::Ce => {
                next_kind = Kind::Field(self.family.traffic_class(), None);
                if d.data != Data::None || d.mask.is_some() {
                    return err(self, refused("value or mask"));
                }
                let c = Compare {
                    mask: 3,
                    op: Op::Equal,
                    value: 3,
                    negated: false,
                };
                field_check(self.family.traffic_class(), c)
            }
            Kind::Frag | Kind::Unfrag => {
                if d.data != Data::None || d.mask.is_some() {
                    return err(self, refused("value or mask"));
                }
                next_kind = Kind::Frag;
                Check::Fragment(kind == Kind::Frag)
            }
            Kind::Field(f, _) => {
                let value = match d.data {
                    Data::Int(v) => v,
                    Data::IcmpType(v) => u32::from(v),
                    _ => return err(self, missing("a number")),
                };
                field_check(f, self.compare(&d, &what, f.max(), value)?)
            }
        };
        if written_which
            && !matches!(
                check,
                Check::Host { .. } | Check::Host6 { .. } | Check::Ether { .. } | Check::Port { .. }
            )
        {
            let text = format!("{what}: 'src' or 'dst' has no meaning here");
            let w = self.fail_from(d.first, K::Suspicious(text));
            self.warnings.push(w);
        }
        Ok(self.finish(d, next_kind, transport, check))
    }

    /// A test of the protocol: as a condition that other primitives have too, or as a field.
    fn protocol(&mut self, d: &Draft, what: &str) -> R<(Option<Proto>, Check)> {
        let what = what.to_string();
        let ordered = !matches!(d.rel, Rel::None | Rel::Eq | Rel::Ne);
        let wanted = "a protocol";
        let value = match (d.data, d.transport) {
            (Data::Int(v), _) => match u8::try_from(v) {
                Ok(v) => Proto::Number(v),
                // a comparison with something out of range is constant; equality with it is an error
                Err(_) if ordered => {
                    let c = self.compare(d, &what, 0xff, v)?;
                    return Ok((None, field_check(PROTOCOL, c)));
                }
                Err(_) => {
                    let kind = K::OutOfRange {
                        what,
                        value: v.to_string(),
                        range: "0 to 255".to_string(),
                    };
                    return Err(self.fail_from(d.first, kind));
                }
            },
            (Data::Proto(p), _) | (Data::None, Some(p)) => p,
            _ => return Err(self.fail_from(d.first, K::ValueMissing { what, wanted })),
        };
        if d.transport.is_some_and(|t| t != value) {
            return Err(self.fail_from(d.first, K::Twice(wanted)));
        }
        match value {
            Proto::AnyTransport => {
                let wanted = "a field, as in transp[0:2],";
                Err(self.fail_from(d.first, K::ValueMissing { what, wanted }))
            }
            Proto::TcpUdp if d.mask.is_some() || !matches!(d.rel, Rel::None | Rel::Eq) => {
                let refused = "operator or mask with tcpudp";
                Err(self.fail_from(d.first, K::Refused { what, refused }))
            }
            Proto::TcpUdp => Ok((Some(value), Check::Protocol)),
            Proto::Number(n) => {
                let c = self.compare(d, &what, 0xff, u32::from(n))?;
                if c.op == Op::Equal && c.mask == 0xff && !c.negated {
                    Ok((Some(value), Check::Protocol))
                } else {
                    Ok((None, field_check(PROTOCOL, c)))
                }
            }
        }
    }

    fn finish(&mut self, d: Draft, kind: Kind, transport: Option<Proto>, check: Check) -> Test {
        self.prev = Prev {
            kind: Some(kind),
            ether: matches!(d.data, Data::Ether(_)),
            which: match check {
                Check::Host { .. }
                | Check::Host6 { .. }
                | Check::Ether { .. }
                | Check::Port { .. } => Some(d.which.unwrap_or(Which::Either)),
                _ => d.which,
            },
            transport,
        };
        Test {
            span: self.span_from(d.first),
            transport: transport.and_then(Proto::requirement),
            check,
        }
    }

    /// What a primitive without keyword tests.
    fn infer_kind(&self, d: &mut Draft) -> R<()> {
        if d.kind.is_some() {
            return Ok(());
        }
        let bare = match d.data {
            Data::Int(_) => match self.prev.kind {
                Some(k @ (Kind::Field(..) | Kind::Proto | Kind::Port)) => k,
                _ => {
                    let mut e = self.fail_from(
                        d.first,
                        K::Expected {
                            wanted: "a field or 'port'",
                            place: "before the number".to_string(),
                        },
                    );
                    e.hint =
                        Some("a bare number repeats the test before it: 'port 80 or 90'".into());
                    return Err(e);
                }
            },
            Data::Host(_) | Data::Host6(_) => Kind::Host,
            Data::Net(..) | Data::Net6(..) => Kind::Net,
            Data::Ether(_) => Kind::Ether,
            Data::Proto(_) => Kind::Proto,
            Data::Port(_) => Kind::Port,
            Data::TcpOpt(_) => Kind::TcpOpt,
            Data::IcmpType(_) => Kind::Field(names::ICMP_TYPE, Some(self.family.icmp())),
            Data::None if d.transport.is_some() => Kind::Proto,
            Data::None => {
                return Err(match self.peek() {
                    Some(w) => {
                        let mut e = fail(K::UnknownWord(w.text.to_string()), w.at, w.end());
                        e.hint = names::near_miss(w.text, self.family)
                            .map(|n| format!("did you mean '{n}'?"));
                        e
                    }
                    None => self.expected("what to test"),
                });
            }
        };
        d.kind = Some(bare);
        if matches!(
            bare,
            Kind::Host | Kind::Net | Kind::Ether | Kind::TcpOpt | Kind::Port
        ) {
            d.which = d.which.or(self.prev.which);
        }
        if bare == Kind::Port {
            d.transport = d.transport.or(self.prev.transport);
        }
        if let Kind::Field(_, Some(p)) = bare {
            d.transport = d.transport.or(Some(p));
        }
        Ok(())
    }

    /// Mask, relation and number, brought to the two basic relations.
    fn compare(&mut self, d: &Draft, what: &str, full: u32, number: u32) -> R<Compare> {
        let mask = match d.mask {
            None => full,
            Some(Mask::Int(m)) => m,
            Some(_) => {
                let kind = K::Refused {
                    what: what.to_string(),
                    refused: "such mask",
                };
                return Err(self.fail_from(d.first, kind));
            }
        };
        let range_error = |value: u32| K::OutOfRange {
            what: what.to_string(),
            value: value.to_string(),
            range: format!("0 to {full}"),
        };
        if mask & full != mask {
            return Err(self.fail_from(d.first, range_error(mask)));
        }
        let constant = |p: &mut Self, holds: bool| {
            let text = format!("{what}: the relation is always {holds} (the field is 0 to {mask})");
            // of a field that fragments after the first do not have, `>= 0` asks whether it is there
            if !(d.rel == Rel::Ge && (d.transport.is_some() || d.kind == Some(Kind::Port))) {
                let w = p.fail_from(d.first, K::Suspicious(text));
                p.warnings.push(w);
            }
            Compare {
                mask: 0,
                op: Op::Equal,
                value: 0,
                negated: !holds,
            }
        };
        let greater = |value: u32, negated: bool| Compare {
            mask,
            op: Op::Greater,
            value: round_down(value, mask),
            negated,
        };
        Ok(match d.rel {
            Rel::None | Rel::Eq | Rel::Ne => {
                if number > full {
                    return Err(self.fail_from(d.first, range_error(number)));
                }
                Compare {
                    mask,
                    op: Op::Equal,
                    value: number & mask,
                    negated: d.rel == Rel::Ne,
                }
            }
            Rel::Gt | Rel::Le if number >= mask => constant(self, d.rel == Rel::Le),
            Rel::Gt | Rel::Le => greater(number, d.rel == Rel::Le),
            Rel::Lt | Rel::Ge if number == 0 => constant(self, d.rel == Rel::Ge),
            Rel::Lt | Rel::Ge if number > mask => constant(self, d.rel == Rel::Lt),
            Rel::Lt | Rel::Ge => greater(number - 1, d.rel == Rel::Lt),
        })
    }
}

fn field_check(field: Field, compare: Compare) -> Check {
    Check::Field { field, compare }
}

/// The largest subset of `mask` that is not above `value`.
fn round_down(value: u32, mask: u32) -> u32 {
    let missing = value & !mask;
    if missing == 0 {
        return value;
    }
    // every mask bit below the highest bit that the mask lacks may be set
    let below = u32::MAX >> missing.leading_zeros();
    (value | below) & mask
}

/// A primitive's name in messages.
fn describe(d: &Draft, kind: Kind) -> String {
    let which = match d.which {
        None => "",
        Some(Which::Src) => "src ",
        Some(Which::Dst) => "dst ",
        Some(Which::Both) => "src and dst ",
        Some(Which::Either) => "src or dst ",
    };
    let name = match kind {
        Kind::Host => "host",
        Kind::Net => "net",
        Kind::Ether => "ether host",
        Kind::Proto => "proto",
        Kind::Port => "port",
        Kind::TcpOpt => "tcp opt",
        Kind::Frag => "ip frag",
        Kind::Unfrag => "ip unfrag",
        Kind::Ect => "ip ect",
        Kind::Ce => "ip ce",
        Kind::Field(f, _) => {
            let mut fields = names::IP_FIELDS.iter().chain(names::IP6_FIELDS);
            match fields.find(|(_, x)| *x == f) {
                Some((n, _)) => return format!("'{which}ip {n}'"),
                None if f == names::ICMP_TYPE && d.transport.is_some() => "icmp type",
                None => "field [...]",
            }
        }
    };
    format!("'{which}{name}'")
}
