//! Which rings lead where: what the launcher tells every process.

use crate::region::{Shape, ShapeError};
use std::fmt::Write;

/// What a ring carries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// Packets from one process to the next one.
    Packets,
    /// Empty slots from the launcher, for packets that a process makes.
    Supply,
    /// Empty slots back to the launcher.
    Returns,
}

impl Purpose {
    const ALL: [(Purpose, &'static str); 3] = [
        (Purpose::Packets, "packets"),
        (Purpose::Supply, "supply"),
        (Purpose::Returns, "returns"),
    ];
}

/// Where a ring leads; processes by number, 0 is the launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RingPlan {
    /// Who puts in.
    pub from: u32,
    /// Who takes out.
    pub to: u32,
    /// What.
    pub purpose: Purpose,
}

/// A region's shape and its rings, by number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// The shape.
    pub shape: Shape,
    /// Bytes of the memory, which may be longer than its shape (huge pages).
    pub bytes: usize,
    /// The rings.
    pub rings: Vec<RingPlan>,
}

/// A plan that cannot be read, or that is none.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlanError {
    /// Its text.
    #[error("the plan's line {line}: expected {expected}")]
    Text {
        /// From 1.
        line: usize,
        /// What there should be.
        expected: &'static str,
    },
    /// Its shape.
    #[error(transparent)]
    Shape(#[from] ShapeError),
    /// A ring leads from or to a process that there is not.
    #[error("ring {ring} leads from process {from} to {to}, and there are {nfs}")]
    Ring {
        /// The ring.
        ring: usize,
        /// Where from.
        from: u32,
        /// Where to.
        to: u32,
        /// How many there are.
        nfs: u32,
    },
}

impl Plan {
    /// With rings for packets between processes as given, and for slots between the launcher and each of the others.
    ///
    /// # Errors
    /// There cannot be such a region.
    pub fn new(mut shape: Shape, links: &[(u32, u32)]) -> Result<Plan, PlanError> {
        let mut rings: Vec<RingPlan> = (links.iter())
            .map(|(from, to)| RingPlan {
                from: *from,
                to: *to,
                purpose: Purpose::Packets,
            })
            .collect();
        for nf in 1..shape.nfs {
            let ring = |from, to, purpose| RingPlan { from, to, purpose };
            rings.push(ring(0, nf, Purpose::Supply));
            rings.push(ring(nf, 0, Purpose::Returns));
        }
        shape.rings = u32::try_from(rings.len()).unwrap_or(u32::MAX);
        let bytes = shape.bytes()?;
        let plan = Plan {
            shape,
            bytes,
            rings,
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), PlanError> {
        let nfs = self.shape.nfs;
        for (ring, r) in self.rings.iter().enumerate() {
            if r.from >= nfs || r.to >= nfs || r.from == r.to {
                return Err(PlanError::Ring {
                    ring,
                    from: r.from,
                    to: r.to,
                    nfs,
                });
            }
        }
        Ok(())
    }

    /// As a text of one line and one for each ring.
    pub fn to_text(&self) -> String {
        let s = &self.shape;
        let mut text = format!(
            "{} {} {} {} {} {}\n",
            s.nfs, s.rings, s.places, s.slots, s.slot_bytes, self.bytes
        );
        for r in &self.rings {
            let name = Purpose::ALL.iter().find(|p| p.0 == r.purpose);
            let name = name.map_or("", |p| p.1);
            // writing to a string does not fail
            let _ = writeln!(text, "{} {} {name}", r.from, r.to);
        }
        text
    }

    /// Reads [`Plan::to_text`].
    ///
    /// # Errors
    /// It is none, or there cannot be such a region.
    pub fn of_text(text: &str) -> Result<Plan, PlanError> {
        let wrong = |line, expected| PlanError::Text { line, expected };
        let mut lines = text.lines();
        let first = lines.next().unwrap_or_default();
        let numbers: Result<Vec<u64>, _> = first.split(' ').map(str::parse).collect();
        let small = |n: u64| u32::try_from(n).ok();
        let (shape, bytes) = match numbers.as_deref() {
            Ok([nfs, rings, places, slots, slot_bytes, bytes]) => {
                let shape = || {
                    Some(Shape {
                        nfs: small(*nfs)?,
                        rings: small(*rings)?,
                        places: small(*places)?,
                        slots: small(*slots)?,
                        slot_bytes: small(*slot_bytes)?,
                    })
                };
                let bytes = usize::try_from(*bytes).ok();
                (shape(), bytes)
            }
            _ => (None, None),
        };
        let (Some(shape), Some(bytes)) = (shape, bytes) else {
            return Err(wrong(1, "six numbers"));
        };
        if shape.bytes()? > bytes {
            return Err(wrong(1, "as many bytes as the shape has"));
        }
        let mut rings = Vec::new();
        for (i, line) in lines.enumerate().take(shape.rings as usize) {
            let ring = || {
                let mut words = line.split(' ');
                let from = words.next()?.parse().ok()?;
                let to = words.next()?.parse().ok()?;
                let name = words.next()?;
                let (purpose, _) = *Purpose::ALL.iter().find(|p| p.1 == name)?;
                Some(RingPlan { from, to, purpose })
            };
            rings.push(ring().ok_or(wrong(i + 2, "two processes and a purpose"))?);
        }
        if rings.len() != shape.rings as usize {
            return Err(wrong(rings.len() + 2, "another ring"));
        }
        let plan = Plan {
            shape,
            bytes,
            rings,
        };
        plan.check()?;
        Ok(plan)
    }
}
