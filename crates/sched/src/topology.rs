//! Which NFs there are, on which cores, and which chains pass them.

/// Most cores.
pub const MOST_CORES: usize = 1024;
/// Most NFs.
pub const MOST_NFS: usize = 1024;
/// Most chains: sets of them are bits of a word.
pub const MOST_CHAINS: usize = 64;

/// A set of chains: chain `i` is bit `i`.
pub type ChainSet = u64;

/// An NF, as a scheduler knows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NfSpec {
    /// The core that it is pinned to.
    pub core: usize,
    /// How much its load counts; 1 is usual.
    pub priority: u32,
    /// Places of its input ring.
    pub capacity: u32,
}

/// Why NFs and chains do not fit together.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TopologyError {
    /// More than there can be, or none.
    #[error("{number} {what}: there have to be 1 to {most}")]
    Number {
        /// Of what.
        what: &'static str,
        /// How many.
        number: usize,
        /// At most.
        most: usize,
    },
    /// An NF is pinned to a core that there is not.
    #[error("NF {nf}: there is no core {core}")]
    NoCore {
        /// The NF.
        nf: usize,
        /// The core.
        core: usize,
    },
    /// A priority or a ring of nothing.
    #[error("NF {nf}: {what} is 0")]
    Zero {
        /// The NF.
        nf: usize,
        /// What is 0.
        what: &'static str,
    },
    /// A chain passes an NF that there is not.
    #[error("chain {chain}: there is no NF {nf}")]
    NoNf {
        /// The chain.
        chain: usize,
        /// The NF.
        nf: usize,
    },
    /// A chain without NFs.
    #[error("chain {chain} passes no NF")]
    Empty {
        /// The chain.
        chain: usize,
    },
    /// A chain passes an NF twice.
    #[error("chain {chain} passes NF {nf} twice")]
    Twice {
        /// The chain.
        chain: usize,
        /// The NF.
        nf: usize,
    },
    /// An NF that no chain passes.
    #[error("no chain passes NF {nf}")]
    Unused {
        /// The NF.
        nf: usize,
    },
}

/// NFs, cores and chains that fit together.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    cores: usize,
    nfs: Vec<NfSpec>,
    chains: Vec<Vec<usize>>,
    through: Vec<ChainSet>,
    on_core: Vec<Vec<usize>>,
}

impl Topology {
    /// NFs by number, and chains as the NFs that they pass.
    ///
    /// # Errors
    /// They do not fit together, or are too many.
    pub fn new(
        cores: usize,
        nfs: Vec<NfSpec>,
        chains: Vec<Vec<usize>>,
    ) -> Result<Topology, TopologyError> {
        for (what, number, most) in [
            ("cores", cores, MOST_CORES),
            ("NFs", nfs.len(), MOST_NFS),
            ("chains", chains.len(), MOST_CHAINS),
        ] {
            if number == 0 || number > most {
                return Err(TopologyError::Number { what, number, most });
            }
        }
        for (nf, spec) in nfs.iter().enumerate() {
            if spec.core >= cores {
                return Err(TopologyError::NoCore {
                    nf,
                    core: spec.core,
                });
            }
            for (what, value) in [("priority", spec.priority), ("capacity", spec.capacity)] {
                if value == 0 {
                    return Err(TopologyError::Zero { nf, what });
                }
            }
        }
        let mut through = vec![0; nfs.len()];
        let mut on_core = vec![Vec::new(); cores];
        for (chain, hops) in chains.iter().enumerate() {
            if hops.is_empty() {
                return Err(TopologyError::Empty { chain });
            }
            for &nf in hops {
                let Some(set) = through.get_mut(nf) else {
                    return Err(TopologyError::NoNf { chain, nf });
                };
                if *set & (1 << chain) != 0 {
                    return Err(TopologyError::Twice { chain, nf });
                }
                // an NF comes where the first chain that passes it has it
                if *set == 0 {
                    on_core[nfs[nf].core].push(nf);
                }
                *set |= 1 << chain;
            }
        }
        if let Some(nf) = through.iter().position(|set| *set == 0) {
            return Err(TopologyError::Unused { nf });
        }
        Ok(Topology {
            cores,
            nfs,
            chains,
            through,
            on_core,
        })
    }

    /// How many cores.
    pub fn cores(&self) -> usize {
        self.cores
    }

    /// NFs by number.
    pub fn nfs(&self) -> &[NfSpec] {
        &self.nfs
    }

    /// Chains by number: the NFs that each passes, in order.
    pub fn chains(&self) -> &[Vec<usize>] {
        &self.chains
    }

    /// Chains that pass an NF.
    pub fn through(&self, nf: usize) -> ChainSet {
        self.through.get(nf).copied().unwrap_or_default()
    }

    /// NFs of a core in the order of chains.
    pub fn on_core(&self, core: usize) -> &[usize] {
        self.on_core.get(core).map_or(&[], Vec::as_slice)
    }

    /// Do all chains go on to the same NF from here, or all leave? Such an NF may wait for room in the next one's ring;
    /// others would hold up chains that have nothing to do with it.
    pub fn has_one_output(&self, nf: usize) -> bool {
        let mut all = self.chains.iter().filter_map(|hops| {
            let at = hops.iter().position(|h| *h == nf)?;
            Some(hops.get(at + 1))
        });
        let first = all.next();
        all.all(|next| Some(next) == first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn topologies_that_do_not_fit_together_are_refused() {
        let nf = NfSpec {
            core: 0,
            priority: 1,
            capacity: 64,
        };
        let new = |nfs: &[NfSpec], chains: &[&[usize]]| {
            Topology::new(1, nfs.to_vec(), chains.iter().map(|c| c.to_vec()).collect())
        };
        let wrong = |nfs: &[NfSpec], chains: &[&[usize]]| new(nfs, chains).unwrap_err();
        assert_eq!(
            wrong(&[NfSpec { core: 3, ..nf }], &[&[0]]),
            TopologyError::NoCore { nf: 0, core: 3 }
        );
        assert_eq!(
            wrong(&[nf], &[&[1]]),
            TopologyError::NoNf { chain: 0, nf: 1 }
        );
        assert_eq!(
            wrong(&[nf], &[&[0], &[]]),
            TopologyError::Empty { chain: 1 }
        );
        assert_eq!(
            wrong(&[nf], &[&[0, 0]]),
            TopologyError::Twice { chain: 0, nf: 0 }
        );
        assert_eq!(wrong(&[nf, nf], &[&[0]]), TopologyError::Unused { nf: 1 });
        let (what, zero) = ("priority", NfSpec { priority: 0, ..nf });
        assert_eq!(wrong(&[zero], &[&[0]]), TopologyError::Zero { nf: 0, what });
        let many = vec![[0].as_slice(); 65];
        assert_eq!(
            wrong(&[nf], &many).to_string(),
            "65 chains: there have to be 1 to 64"
        );
        let good = new(&[nf, nf, nf], &[&[2, 1], &[0, 1]]).unwrap();
        assert_eq!(
            (good.through(1), good.on_core(0)),
            (3, [2, 1, 0].as_slice())
        );
    }
}
