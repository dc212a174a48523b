//! What stays beside the packets of a run.

use super::Args;
use crate::alerts::Eve;
use crate::control::{self, Controls, Earlier, Made, OpenPort, Session};
use crate::deploy::{Renewal, Verification};
use crate::program::Synthesized;
use anyhow::Result;
use onefold_chain::{Attached, Chain};
use onefold_control::Server;
use onefold_runtime::Clock;
use std::sync::Arc;

/// The chain and its program, which may be others in the end.
pub struct Run {
    /// The chain.
    pub chain: Arc<Chain>,
    made: Option<Made>,
    /// Of network interfaces.
    pub session: Option<Session>,
    _controls: Option<Controls>,
}

impl Run {
    /// Of a chain that is about to run on the ports that are open.
    ///
    /// # Errors
    /// When it cannot be asked by the means that were given.
    pub fn new(
        args: &Args,
        chain: Chain,
        made: Option<(Synthesized, Verification)>,
        attached: Vec<Attached>,
        (clock, open, server, eve): (Clock, Vec<OpenPort>, Option<Server>, Option<Eve>),
    ) -> Result<Run> {
        if open.is_empty() {
            return Ok(Run {
                chain: Arc::new(chain),
                made: made.map(Arc::new),
                session: None,
                _controls: None,
            });
        }
        let live = open.iter().map(|p| p.live.port.clone()).collect();
        let mut session = Session::new(chain, made, attached, live)?;
        session.eve = eve;
        let how = control::Workers {
            clock,
            senders: vec![session.sender()],
            rules: Vec::new(),
            scaling: None,
            watched: None,
        };
        let controls = control::start(args, &session.chain, open, how, server)?;
        Ok(Run {
            chain: session.chain.clone(),
            made: None,
            session: Some(session),
            _controls: Some(controls),
        })
    }

    /// Nobody asks any more: the chain, its program, and what was counted before the last reload.
    pub fn end(self, renewal: &Renewal) -> (Arc<Chain>, Option<Made>, Earlier) {
        match self.session {
            Some(s) => (s.chain, renewal.latest().or(s.made), s.earlier),
            None => (self.chain, self.made, Earlier::default()),
        }
    }
}
