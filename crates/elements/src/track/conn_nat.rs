//! ConnDstNat and ConnSrcNat: translate the ends of connections, as netfilter does at its hooks.
//!
//! `ConnDstNat(TABLE, RANGE_1, ..., RANGE_n)` stands between ConnTrack and the rules (PREROUTING),
//! `ConnSrcNat(TABLE, RANGE_1, ..., RANGE_n)` between the rules and ConnConfirm (POSTROUTING). Both stand on the way of
//! all packets, in both directions, one behind the other; only first packets of TCP and UDP that no range is for may go
//! past ConnDstNat, which leaves them as they are. At input 0 come packets that no rule of table nat has been
//! asked about, or none takes: those of known connections become what their connection says, the first one of a
//! connection keeps its ends if its replies are nobody else's, and gets another source port else. At input `k` come
//! first packets that RANGE_k says of what they are to become:
//!
//! - addresses: `203.0.113.1`, `203.0.113.1-203.0.113.4` (source and destination decide which), `192.168.0.0/24` (the
//!   first 24 bits are these, the others stay), `-` (the address stays);
//! - then ports: `8080`, `1024-65535`; none: the port stays if it can; `offset N`: the port moves by the distance of
//!   the range's first one from N;
//! - then `random` (or `random-fully`): any port, whatever the packet has; `persistent`: the source alone decides which
//!   address.
//!
//! `CONFIRM true` of a ConnSrcNat, for first packets alone: it is ConnConfirm, too, so that who begins a connection is
//! bound once. Other packets are confirmed as well, but not by a binding.
//!
//! In the place of a range of ConnDstNat the name of a [ConnBalancer](super::conn_balancer) may stand, which then
//! chooses one of its servers.
//!
//! What a connection's first packet became, its later ones become, and replies and ICMP errors are translated back,
//! whatever the rules say by then. Packets that are of no connection (invalid, untracked) pass as they are. Fragments
//! are dropped at ConnDstNat: they are not put together here, and would get out untranslated. So are ICMP redirects
//! about translated connections, and errors where what is to be translated is not quoted.
//!
//! Handler `table` of the ConnTable has what connections become behind `as`.
//!
//! Source: Linux, net/netfilter/nf_nat_core.c; what is not the same is listed at [`super::choose`].

use super::apply::{quotes_enough, redirects, write};
use super::begin::Confirmed;
use super::bind;
use super::conn_balancer;
use super::conn_confirm::{self, confirm};
use super::headers::is_fragment;
use super::key::Ends;
use super::range::{Range, Side};
use super::table::{ConnTable, millis};
use super::table_user::{NO_TABLE, finish, uses_table};
use super::translate::Rewrite;
use onefold_element::args::{AnyArg, Args};
use onefold_element::model::{BindPacket, Binding, Bound, Model, ModelCx};
use onefold_element::{
    ConfigCx, ConfigError, ConfigErrors, Cx, Effect, ElemId, Element, ElementClass, Port, StateId,
    StateStore,
};
use onefold_nat::{BalancedFlow, Balancer, BoundBy, LastingBinding};
use onefold_packet::{Packet, Pkt};

/// `ConnDstNat`.
pub const CONN_DST_NAT: ElementClass = ElementClass {
    name: "ConnDstNat",
    ports: "1-/1",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::PerFlow,
    usage: "TABLE, RANGE_1, ..., RANGE_n",
    summary: "translates the destinations of connections, in front of the rules",
    new: || ConnNat::boxed(Side::Dst),
};

/// `ConnSrcNat`.
pub const CONN_SRC_NAT: ElementClass = ElementClass {
    name: "ConnSrcNat",
    ports: "1-/1",
    processing: "h/h",
    flow: "x/x",
    effect: Effect::PerFlow,
    usage: "TABLE, RANGE_1, ..., RANGE_n, [keyword CONFIRM]",
    summary: "translates the sources of connections, behind the rules",
    new: || ConnNat::boxed(Side::Src),
};

/// Most ranges of an element.
const MAX_RANGES: usize = 1 << 16;
/// Of fragments.
pub(super) const FRAGMENT: &str = "a fragment: only whole packets are translated";
/// Of ICMP redirects.
const REDIRECT: &str = "a redirect about a translated connection";
/// Of first packets.
const NO_SERVER: &str = "all servers are down";
/// Of ICMP errors.
const CUT: &str = "an ICMP error that quotes too little to be translated";

/// What first packets that come to an input become.
#[derive(Debug, Clone, Copy)]
enum Goal {
    /// One of these.
    Range(Range),
    /// What this ConnBalancer chooses.
    Server(ElemId),
}

#[derive(Debug, Clone)]
struct ConnNat {
    side: Side,
    table: StateId,
    goals: Vec<Goal>,
    /// Connections are entered here.
    confirms: bool,
}

impl ConnNat {
    fn boxed(side: Side) -> Box<dyn Element> {
        Box::new(ConnNat {
            side,
            table: NO_TABLE,
            goals: Vec::new(),
            confirms: false,
        })
    }

    /// Reads a range, or the name of a balancer.
    fn goal(&self, text: &str, cx: &ConfigCx<'_>) -> Result<Goal, String> {
        let class = |e: ElemId| cx.classes.get(e.0 as usize).map_or("", String::as_str);
        let balancer = cx.find_element(text);
        match balancer.filter(|e| class(*e) == conn_balancer::CLASS) {
            Some(_) if self.side == Side::Src => {
                Err("servers are destinations: a balancer goes with ConnDstNat".into())
            }
            Some(e) => Ok(Goal::Server(e)),
            None => Range::parse(text).map(Goal::Range),
        }
    }

    /// What the packet in hand is to become, if it comes to an input that says so.
    ///
    /// # Errors
    /// There is no server for it.
    fn range(&self, goal: Option<&Goal>, store: &mut StateStore) -> Result<Option<Range>, ()> {
        let balancer = match goal {
            None => return Ok(None),
            Some(Goal::Range(r)) => return Ok(Some(*r)),
            Some(Goal::Server(e)) => store.published_by(*e),
        };
        let table = store.get::<ConnTable>(self.table);
        // of a connection that is known, that says where it goes; so does what has been chosen
        let Some(ends) = table.and_then(|t| t.in_hand.first_ends(self.side)) else {
            return Ok(None);
        };
        let balancer = balancer.and_then(|id| store.get_mut::<Balancer>(id));
        let server = balancer.and_then(|b| b.choose(&flow(&ends)));
        server.map(|s| Some(Range::of(s))).ok_or(())
    }

    /// What `push` would do to a packet of TCP or UDP over IPv4.
    fn bind_packet(
        &self,
        port: Port,
        p: &BindPacket,
        may: &dyn Fn(&Binding) -> bool,
        cx: &mut Cx<'_>,
    ) -> Bound {
        let now = millis(cx.now);
        let goal = port.checked_sub(1).and_then(|k| self.goals.get(k));
        let argument = goal.map(|_| port);
        let is_error = |t: &ConnTable| t.in_hand.is_error();
        if cx.store.get(self.table).is_some_and(is_error) {
            return Bound::Punt("another packet is in hand");
        }
        let Ok(range) = self.range(goal, cx.store) else {
            cx.decide(argument, || NO_SERVER.to_string());
            return Bound::Drop(NO_SERVER);
        };
        let elem = cx.elem;
        let Cx { store, host, .. } = cx;
        let planned = store.get_mut::<ConnTable>(self.table).and_then(|t| {
            let random = &mut || host.random(elem);
            match t.in_hand.keeps(self.side, range.as_ref()) {
                true => None,
                false => t.plan_in_hand(self.side, range.as_ref(), now, random),
            }
        });
        let ends = bind::ends(p);
        let in_hand = |t: &ConnTable| t.in_hand.begins_a_connection();
        let begins =
            planned.is_some_and(|r| r.from == ends) && store.get(self.table).is_some_and(in_hand);
        if self.confirms && !begins {
            return Bound::Punt("another packet is in hand");
        }
        let mut b = bind::unchanged(port, p);
        let written = planned.filter(|r| r.from != r.to && r.from == ends);
        if let Some(r) = written.as_ref().filter(|r| !r.error) {
            bind::rewrite(&mut b, self.side, r);
        }
        if bind::comes_to_zero(p, &b) {
            return Bound::Punt(bind::ZERO);
        }
        if !may(&b) {
            return Bound::Punt("a binding of no known kind");
        }
        let mut confirmed = None;
        if let Some(t) = store.get_mut::<ConnTable>(self.table) {
            t.done_in_hand(self.side);
            if self.confirms {
                confirmed = t.begin_in_hand(now);
            }
        }
        tell(argument, written.as_ref(), confirmed, cx);
        match confirmed.and_then(conn_confirm::refusal) {
            Some(why) => Bound::Drop(why),
            None => Bound::To(b),
        }
    }

    /// Why an ICMP error about a translated connection is dropped, as by `nf_nat_icmp_reply_translation`.
    fn refuses(
        &self,
        rewrite: &Option<Rewrite>,
        p: &Packet,
        store: &StateStore,
    ) -> Option<&'static str> {
        let t = store.get::<ConnTable>(self.table)?;
        let net = p.network().filter(|_| t.in_hand.is_error())?;
        if redirects(net) {
            return Some(REDIRECT);
        }
        (rewrite.is_some() && !quotes_enough(net)).then_some(CUT)
    }
}

impl Element for ConnNat {
    fn configure(
        &mut self,
        args: &mut Args<'_>,
        cx: &mut ConfigCx<'_>,
    ) -> Result<(), ConfigErrors> {
        let name: Option<AnyArg> = args.mandatory("TABLE");
        self.confirms = match self.side {
            Side::Src => args.keyword("CONFIRM").unwrap_or(false),
            Side::Dst => false,
        };
        let rest = args.rest();
        let mut errors = Vec::new();
        self.goals.clear();
        for (index, text) in rest {
            match self.goal(text, cx) {
                Ok(g) => self.goals.push(g),
                Err(why) => errors.push(ConfigError::at(index, "RANGE", why)),
            }
        }
        let inputs = cx.ninputs.saturating_sub(1);
        if self.goals.len() > MAX_RANGES {
            errors.push(ConfigError::new(format!("more than {MAX_RANGES} ranges")));
        } else if inputs != self.goals.len() && errors.is_empty() {
            errors.push(ConfigError::new(format!(
                "{inputs} inputs behind the first one, and {} ranges: there must be one for each",
                self.goals.len()
            )));
        }
        self.table = finish(args, name, cx, errors, |t| t.settings.translates = true)?;
        Ok(())
    }

    fn model(&self, port: Port, _: &ModelCx<'_>) -> Model {
        bind::model(self.side, port)
    }

    fn bind(
        &mut self,
        port: Port,
        p: &BindPacket,
        may: &dyn Fn(&Binding) -> bool,
        cx: &mut Cx<'_>,
    ) -> Bound {
        self.bind_packet(port, p, may, cx)
    }

    fn lasting(&mut self, p: &BindPacket, cx: &mut Cx<'_>) -> Option<LastingBinding> {
        let t = cx.store.get_mut::<ConnTable>(self.table)?;
        let flow = t.lasting_in_hand(self.side, &bind::ends(p))?;
        Some(LastingBinding {
            table: self.table,
            flow,
            // between the two translations several connections' packets may look alike
            by: match self.side {
                Side::Dst => BoundBy::Arrival,
                Side::Src => BoundBy::Earlier,
            },
            no_zero: true,
        })
    }

    fn push(&mut self, port: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        if self.side == Side::Dst && p.network().is_some_and(is_fragment) {
            cx.decide(None, || FRAGMENT.to_string());
            cx.drop(p, FRAGMENT);
            return;
        }
        let now = millis(cx.now);
        // input k belongs to argument k, as the table's name is argument 0
        let goal = port.checked_sub(1).and_then(|k| self.goals.get(k));
        let argument = goal.map(|_| port);
        let Ok(range) = self.range(goal, cx.store) else {
            cx.decide(argument, || NO_SERVER.to_string());
            cx.drop(p, NO_SERVER);
            return;
        };
        let elem = cx.elem;
        let Cx { store, host, .. } = cx;
        let rewrite = store.get_mut::<ConnTable>(self.table).and_then(|t| {
            let random = &mut || host.random(elem);
            t.translate_in_hand(self.side, range.as_ref(), now, random)
        });
        let why = self.refuses(&rewrite, &p, cx.store);
        if let Some(why) = why {
            cx.decide(None, || why.to_string());
            cx.drop(p, why);
            return;
        }
        let written = match (&rewrite, p.network_mut()) {
            (Some(r), Some(net)) => write(net, self.side, r),
            _ => false,
        };
        if self.side == Side::Dst {
            note_destination(&mut p);
        }
        let table = (cx.store.get_mut::<ConnTable>(self.table)).filter(|_| self.confirms);
        let confirmed = table.map(|t| confirm(t, &p, now));
        tell(
            argument,
            rewrite.as_ref().filter(|_| written),
            confirmed,
            cx,
        );
        match confirmed.and_then(conn_confirm::refusal) {
            Some(why) => cx.drop(p, why),
            None => cx.emit(0, p),
        }
    }

    uses_table!(table);
}

/// What a server is chosen by.
fn flow(e: &Ends) -> BalancedFlow {
    let number = |a: &[u8; 16]| match e.v6 {
        true => u128::from_be_bytes(*a),
        false => u128::from(u32::from_be_bytes([a[0], a[1], a[2], a[3]])),
    };
    BalancedFlow {
        source: number(&e.src.address),
        destination: number(&e.dst.address),
        ports: (e.src.port, e.dst.port),
        protocol: e.protocol,
    }
}

/// Says what becomes of a packet.
fn tell(
    argument: Option<usize>,
    rewrite: Option<&Rewrite>,
    confirmed: Option<Confirmed>,
    cx: &mut Cx<'_>,
) {
    cx.decide(argument, || {
        let becomes = match rewrite {
            None => "stays as it is".to_string(),
            Some(r) => {
                let (key, flipped) = r.to.key();
                match r.error {
                    true => format!("an error about {}", key.text(!flipped)),
                    false => format!("becomes {}", key.text(flipped)),
                }
            }
        };
        match confirmed {
            None => becomes,
            Some(c) => format!("{becomes}; {}", conn_confirm::text(c)),
        }
    });
}

/// Who looks for a route goes by the annotation.
fn note_destination(p: &mut Packet) {
    let Some(net) = p.network() else { return };
    let four = net.get(16..20).and_then(|b| b.first_chunk::<4>()).copied();
    let six = net.get(24..40).and_then(|b| b.first_chunk::<16>()).copied();
    match (net.first().map(|b| b >> 4), four, six) {
        (Some(4), Some(to), _) => p.anno.set_dst_ip(to),
        (Some(6), _, Some(to)) => p.anno.set_dst_ip6(to),
        _ => {}
    }
}
