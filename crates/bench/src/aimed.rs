//! Captures of packets that a chain lets pass: what opens the flows first, then their packets in random order.

use crate::error::GenError;
use crate::measure::{Aimed, Order};
use crate::run::{Progress, WrittenFile};
use crate::traffic::Counts;
use onefold_capture::CaptureWriter;
use onefold_element::ElemId;
use onefold_verify::frame::view;
use serde::Serialize;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Frames between two calls of [`Progress::packets`].
const STEP: u64 = 8192;

/// What is written, and how.
#[derive(Debug, Clone)]
pub struct AimedParams {
    /// Frames, those that open flows included, over both captures.
    pub packets: u64,
    /// Packets per second of capture time.
    pub pps: u64,
    /// Time of the first frame, in nanoseconds since 1970.
    pub start_ns: i64,
    /// Skew of the flows' popularity; 0: all alike.
    pub zipf: f64,
    /// Seed of the order.
    pub seed: u64,
    /// Where packets enter.
    pub entry: ElemId,
    /// The capture of what enters there.
    pub out: PathBuf,
    /// The capture of the answers, which enter elsewhere.
    pub reverse: Option<PathBuf>,
}

/// What was written.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct AimedSummary {
    /// Frames that open flows.
    pub openings: u64,
    /// Flows that sent anything: fewer than there are if the frames were too few to open them all.
    pub flows_begun: u64,
    /// Somebody wanted it to stop before all packets were written.
    pub stopped: bool,
    /// Where the answers enter, if there are any.
    #[serde(skip)]
    pub reverse: Option<ElemId>,
}

/// A capture that is being written.
struct Out {
    path: PathBuf,
    writer: CaptureWriter<File>,
}

impl Out {
    fn create(path: &Path) -> Result<Out, GenError> {
        let path = path.to_path_buf();
        let writer = crate::output::capture(&path)?;
        Ok(Out { path, writer })
    }

    fn finish(self, files: &mut Vec<WrittenFile>) -> Result<(), GenError> {
        files.push(WrittenFile {
            path: self.path,
            what: "capture",
            items: self.writer.frames(),
        });
        Ok(self.writer.finish().map(drop)?)
    }
}

/// Where answers enter: at one port, or else one capture cannot hold them.
fn answers_at(aimed: &Aimed, entry: ElemId) -> Result<Option<ElemId>, GenError> {
    let lanes = aimed.lanes.iter().map(|l| l.source);
    let all = lanes.chain(aimed.opening.iter().map(|o| o.source));
    let mut at = None;
    for source in all.filter(|s| *s != entry) {
        if at.is_some_and(|a| a != source) {
            return Err(GenError::Usage {
                flag: "--reverse",
                message: "answers enter at several ports of this chain, which one capture cannot hold; leave it out"
                    .to_string(),
            });
        }
        at = Some(source);
    }
    Ok(at)
}

struct Writing<'a> {
    params: &'a AimedParams,
    out: Out,
    reverse: Option<Out>,
    counts: Counts,
    written: u64,
    /// Somebody wants it to stop.
    stopped: bool,
}

impl Writing<'_> {
    /// The frame, at its time. False: there are as many as were asked for, or somebody wants it to stop.
    fn frame(
        &mut self,
        source: ElemId,
        frame: &[u8],
        progress: &mut dyn Progress,
    ) -> Result<bool, GenError> {
        if self.stopped || self.written >= self.params.packets {
            return Ok(false);
        }
        let step = self.written as u128 * 1_000_000_000 / u128::from(self.params.pps.max(1));
        let at = (self.params.start_ns).saturating_add(i64::try_from(step).unwrap_or(i64::MAX));
        let forward = source == self.params.entry;
        let to = match (&mut self.reverse, forward) {
            (Some(r), false) => r,
            _ => &mut self.out,
        };
        to.writer.write(at, frame, frame.len() as u32)?;
        self.count(frame, forward);
        self.written += 1;
        let step = self.written.is_multiple_of(STEP);
        self.stopped = step && !progress.packets(self.written, self.params.packets);
        Ok(!self.stopped)
    }

    fn count(&mut self, frame: &[u8], forward: bool) {
        let c = &mut self.counts;
        match forward {
            true => c.forward += 1,
            false => c.reverse += 1,
        }
        c.bytes += frame.len() as u64;
        let Some(v) = view(frame) else {
            c.other += 1;
            return;
        };
        c.ipv6 += u64::from(v.ether_type == 0x86dd);
        match v.proto {
            6 => c.tcp += 1,
            17 => c.udp += 1,
            1 | 58 => c.icmp += 1,
            _ => c.other += 1,
        }
        let flags = v.transport.and_then(|t| frame.get(t + 13));
        let opens = v.proto == 6 && flags.is_some_and(|f| f & 0x12 == 0x02);
        c.connections += u64::from(opens);
    }
}

/// Writes what was aimed: flow after flow is opened, then templates come in random order, those of the way back in
/// turn with the others. Frames that a chain is given in this order meet the state that they were tried on.
///
/// # Errors
/// A capture cannot be written, or the answers do not fit into one.
pub fn write_aimed(
    aimed: &Aimed,
    params: &AimedParams,
    progress: &mut dyn Progress,
) -> Result<(AimedSummary, Vec<WrittenFile>, Counts), GenError> {
    let back = answers_at(aimed, params.entry)?;
    let mut w = Writing {
        params,
        out: Out::create(&params.out)?,
        reverse: params.reverse.as_deref().map(Out::create).transpose()?,
        counts: Counts::default(),
        written: 0,
        stopped: false,
    };
    let mut summary = AimedSummary {
        reverse: back,
        ..AimedSummary::default()
    };
    for o in &aimed.opening {
        if !w.frame(o.source, &o.frame, progress)? {
            break;
        }
        summary.openings += 1;
        summary.flows_begun = o.flow as u64 + 1;
    }
    let orders: Vec<Order> = (aimed.lanes.iter())
        .map(|l| Order::new(&l.templates, params.zipf, params.seed))
        .collect();
    let mut next = vec![0usize; orders.len()];
    let mut lane = 0;
    while w.written < params.packets && !w.stopped {
        let (Some(l), Some(order), Some(n)) =
            (aimed.lanes.get(lane), orders.get(lane), next.get_mut(lane))
        else {
            break;
        };
        let places = order.places();
        let Some(which) = places.get(*n % places.len().max(1)) else {
            break;
        };
        *n += 1;
        w.frame(l.source, l.templates.get(*which as usize), progress)?;
        lane = (lane + 1) % orders.len();
    }
    let mut files = Vec::new();
    w.out.finish(&mut files)?;
    if let Some(r) = w.reverse {
        r.finish(&mut files)?;
    }
    if !w.stopped {
        progress.packets(w.written, params.packets);
    }
    summary.stopped = w.stopped;
    Ok((summary, files, w.counts))
}
