//! Slots of the shared memory, when all processes have ended.

use onefold_nf::{Plan, Region, Seat, occupancy, reclaim};
use std::sync::Arc;

/// How many are neither the launcher's (its seat is `seat`) nor in a ring, once what the processes had is back: none,
/// but for an error.
pub fn missing(region: &Arc<Region>, plan: &Plan, seat: &mut Seat) -> u64 {
    for nf in 1..plan.shape.nfs {
        let back = reclaim(region, plan, nf);
        seat.reclaim(&back.slots);
    }
    seat.tidy();
    let has = (seat.spare() + seat.held()) as u64;
    let rings = (0..plan.shape.rings).filter_map(|n| region.ring(n));
    let on_the_way: u64 = rings.map(|r| u64::from(occupancy(&r))).sum();
    u64::from(plan.shape.slots).saturating_sub(has + on_the_way)
}
