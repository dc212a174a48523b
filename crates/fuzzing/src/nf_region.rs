//! A peer that writes anything into the memory that a chain's processes share, between any two steps of the others:
//! these go on, or say what is wrong; they neither panic nor touch what is not theirs.

use onefold_nf::ring::WORDS;
use onefold_nf::{Arrived, Plan, Region, RingMemory, Seat, Shape, reclaim};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

const SHAPE: Shape = Shape {
    nfs: 3,
    rings: 0,
    places: 8,
    slots: 40,
    slot_bytes: 192,
};
/// Most writes of an input.
const STEPS: usize = 400;
/// Bytes that say what is written, and where.
const STEP: usize = 7;

/// One write.
fn write(region: &Arc<Region>, plan: &Plan, step: &[u8; STEP]) {
    let [how, a, b, c, d, e, f] = *step;
    let at = usize::from(u16::from_le_bytes([a, b]));
    let value = u32::from_le_bytes([c, d, e, f]);
    let Some(ring) = region.ring(at as u32 % plan.shape.rings) else {
        return;
    };
    match how % 4 {
        0 => {
            if let Some(w) = region.words().get(at) {
                w.store(value, Ordering::Relaxed);
            }
        }
        1 => {
            let word = usize::from(how / 4) % WORDS;
            let value = u64::from(value) << (usize::from(how) % 33);
            ring.place(u32::from(b))[word].store(value, Ordering::Relaxed);
        }
        // near where they are
        _ => {
            let counters = [ring.tail(), ring.taken(), ring.head()];
            let counter = counters[usize::from(how / 4) % 3];
            let moved = counter.load(Ordering::Relaxed).wrapping_add(value % 19);
            counter.store(moved.wrapping_sub(9), Ordering::Relaxed);
        }
    }
}

/// Takes what there is, writes to it, and sends it on.
fn pass_on(seat: &mut Seat, with: u8) -> bool {
    let mut arrived: Vec<Arrived> = Vec::new();
    let mut failed = seat.receive(0, &mut arrived, 16).is_err();
    for mut a in arrived {
        a.frame.fill(with);
        let d = a.descriptor;
        let sent = seat.describe(a.frame, usize::from(d.offset), d.len as usize);
        // the ends of what was taken in were looked at
        let sent = sent.expect("a frame of the region, and bytes within it");
        seat.queue(0, sent);
    }
    failed |= seat.flush().is_err();
    seat.release();
    seat.tidy();
    seat.sleep(Duration::from_nanos(1), || false);
    failed
}

/// See the module's text.
pub fn run(input: &[u8]) {
    let plan = Plan::new(SHAPE, &[(0, 1), (1, 2), (2, 0)]).expect("a plan");
    let region = Arc::new(Region::heap(plan.shape).expect("a region"));
    let mut launcher = Seat::new(region.clone(), &plan, 0, vec![]).expect("a seat");
    let mut others = [1, 2].map(|nf| (nf, Seat::new(region.clone(), &plan, nf, vec![]).ok()));
    for step in input.as_chunks::<STEP>().0.iter().take(STEPS) {
        write(&region, &plan, step);
        if let Some(frame) = launcher.take_slot()
            && let Some(d) = launcher.describe(frame, 64, 60)
        {
            launcher.queue(0, d);
        }
        let _ = launcher.flush();
        for (nf, seat) in &mut others {
            let failed = match seat {
                Some(s) => pass_on(s, *nf as u8),
                None => {
                    let back = reclaim(&region, &plan, *nf);
                    assert!(back.slots.len() <= SHAPE.slots as usize);
                    launcher.reclaim(&back.slots);
                    *seat = Seat::new(region.clone(), &plan, *nf, vec![]).ok();
                    false
                }
            };
            if failed {
                *seat = None;
            }
        }
        let mut arrived = Vec::new();
        let _ = launcher.receive(0, &mut arrived, 16);
        drop(arrived);
        launcher.release();
        launcher.tidy();
    }
}
