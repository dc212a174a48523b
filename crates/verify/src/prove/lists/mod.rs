//! Long first-match lists compared rule by rule, without decision diagrams of everything they tell apart.
//!
//! A firewall's list of ten thousand rules, some of which deny, is a function with tens of millions of nodes, and so
//! is the program's list that was made from it. Neither is needed to see that they agree. The idea is to leave open
//! *which case* of the source list decides about a packet, as a proof leaves open what a route table answers, and to
//! work out what the program does about the packets of each case.
//!
//! Terms: the source list (of the reference graph) has *cases* `C1, C2, ...`; the program's stage has *rules* `R1,
//! R2, ...`. Both are cubes ([`cube`]): a conjunction of one function for each field. A case *decides* about a packet
//! if it is the first that fits.
//!
//! 1. Every rule is assigned to its *holder*, the first case that contains it ([`place`]). Rules whose holder asks
//!    about no field that tells cases apart, or that no case contains, are *wide*.
//! 2. If `Ci` decides about a packet, no rule with an earlier holder fits it, because that holder would fit too and
//!    decide. So the first rule that fits is one of `Ci`'s own, a wide one, or one with a later holder.
//! 3. The *residual* of `Ci` is `Ci` without values that earlier cases take from it in one field ([`residual`]).
//!    Rules are then taken relative to the residual: only what they ask beyond it remains.
//! 4. The remaining rules before all rules with later holders often *cover* all packets that such rules could have.
//!    Then the later ones are ignored ([`kinds`]). Where they do not, either the packets in question belong to
//!    earlier cases and are excluded, or the later rules that meet them are added.
//! 5. So the program's action is a function of the packet and of the case that decides. Cases that say the same, and
//!    for which this function agrees, are one *kind*; there are few: one for each verdict, if the program is right.
//!
//! In a proof, the kind is an unknown number ([`super::vars::Bit::Decided`]): the program's list is an action by kind
//! and packet, the source list a verdict by kind. Elements before and behind the list ask about fields as well ("is
//! the destination inside?"). What a case's packets have in common there must not be lost with the list; it is kept
//! in terms of the functions that those elements ask about ([`marks`]).
//!
//! Why a proof holds: for every packet, the kind of the case that really decides is among those left open, with the
//! program's real action; this is true of every program, right or wrong. Why a refutation holds: a difference may be
//! due to a kind that the packet cannot have, so frames are made only of packets about which a case of that kind is
//! found to decide ([`Compared::concrete`]), and both sides are then run with them. If no such packet is found, the
//! proof is made again with both lists as diagrams.

mod compared;
pub mod cube;
mod index;
mod kinds;
mod marks;
pub mod measure;
mod place;
mod residual;
#[cfg(test)]
mod tests;

pub use compared::{All, Compared};
pub use kinds::compare;
