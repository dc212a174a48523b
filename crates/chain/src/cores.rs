//! Who runs on which core: `cores` of a chain file, after SCC's plans (JSS 127, 2017, section 4.3): in the single-core
//! plan the switch has odd rounds of one core and the functions have the even ones; in the multi-core plan the switch
//! works on a core of its own, beside the functions.
//!
//! The *switch* is who moves packets between ports and functions: the launcher, and Open vSwitch where that connects
//! them.

use crate::error::Reader;
use crate::file::Loc;
use onefold_click::source::{FileId, Span};
use schemars::JsonSchema;
use serde::Deserialize;

/// Most cores that a list names.
const MOST_CORES: usize = 1024;

/// How cores are given out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// The switch on the first core, functions on all of them in turn, from the second one on.
    #[default]
    Spread,
    /// Everybody on one core, in rounds: the switch in odd ones, the functions in even ones.
    SingleCore,
    /// The switch on a core of its own, the functions on the others in turn.
    MultiCore,
}

impl Plan {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Plan::Spread => "spread",
            Plan::SingleCore => "single-core",
            Plan::MultiCore => "multi-core",
        }
    }
}

/// Who runs on which core, as a chain file says it.
#[derive(Debug, Clone, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, rename_all = "kebab-case")]
pub struct CoresFile {
    /// `spread` (if nothing is said), `single-core` or `multi-core`.
    #[serde(default)]
    pub plan: Plan,
    /// The switch's core.
    pub switch: Option<u32>,
    /// The cores that functions are given in turn; a function's `affinity` says more.
    #[serde(default)]
    pub functions: Vec<u32>,
    /// Cores that nobody else of Onefold's is executed on, but those that are given them here or by `affinity`.
    #[serde(default)]
    pub reserved: Vec<u32>,
}

/// Who runs on which core, checked.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cores {
    /// How they are given out.
    pub plan: Plan,
    /// The switch's core, if that was said.
    pub switch: Option<u32>,
    /// The functions' cores; empty: those that are left.
    pub functions: Vec<u32>,
    /// Cores that are for those that are given them only.
    pub reserved: Vec<u32>,
    /// Was anything said?
    pub given: bool,
}

/// Why cores cannot be given out so.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CoresError {
    /// One is named that there is not.
    #[error("{who}: there is no core {core} to be had; there are {there:?}")]
    NoCore {
        /// Who should have it.
        who: String,
        /// The core.
        core: u32,
        /// Those that there are.
        there: Vec<usize>,
    },
    /// None is left.
    #[error("cores: none is left for {0}; there are {1:?}, and reserved are {2:?}")]
    NoneLeft(&'static str, Vec<usize>, Vec<u32>),
}

/// Cores as they are given out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    /// The switch's; `None`: anywhere.
    pub switch: Option<u32>,
    /// By function process.
    pub functions: Vec<Option<u32>>,
    /// The switch and the functions take turns.
    pub rounds: bool,
}

impl Cores {
    pub(crate) fn read(c: Option<&Loc<CoresFile>>, file: FileId, reader: &mut Reader) -> Cores {
        let Some(at) = c else {
            return Cores::default();
        };
        let (c, span) = (
            &at.value,
            Span::new(file, at.start, at.start + at.len.max(1)),
        );
        if c.functions.len().max(c.reserved.len()) > MOST_CORES {
            reader.error(span, format!("cores: a list names more than {MOST_CORES}"));
        }
        if c.plan == Plan::SingleCore {
            let all = c.switch.iter().chain(&c.functions);
            let first = all.clone().next();
            if all.clone().any(|n| Some(n) != first) {
                let text = "cores: the single-core plan has one core, and several are named";
                reader.error_hint(span, text, "write 'switch: N' alone, or 'plan: multi-core'");
            }
        }
        if let (Plan::MultiCore, Some(s)) = (c.plan, c.switch)
            && c.functions.contains(&s)
        {
            let text = format!("cores: in the multi-core plan the switch has core {s} to itself");
            reader.error_hint(
                span,
                text,
                "leave it out of 'functions', or write 'plan: spread'",
            );
        }
        Cores {
            plan: c.plan,
            switch: c.switch,
            functions: c.functions.clone(),
            reserved: c.reserved.clone(),
            given: true,
        }
    }

    /// Gives out the cores that `there` are to function processes, of which each may want one of its own (`wants`,
    /// with its name).
    ///
    /// # Errors
    /// One is named that there is not, or none is left.
    pub fn give(
        &self,
        there: &[usize],
        wants: &[(&str, Option<u32>)],
    ) -> Result<Given, CoresError> {
        let is_there = |who: &str, core: u32| match there.contains(&(core as usize)) {
            true => Ok(core),
            false => Err(CoresError::NoCore {
                who: who.to_string(),
                core,
                there: there.to_vec(),
            }),
        };
        for core in self
            .switch
            .iter()
            .chain(&self.functions)
            .chain(&self.reserved)
        {
            is_there("cores", *core)?;
        }
        for (name, want) in wants {
            want.map(|c| is_there(&format!("{name}: affinity"), c))
                .transpose()?;
        }
        let none = |who| CoresError::NoneLeft(who, there.to_vec(), self.reserved.clone());
        let open: Vec<u32> = (there.iter().map(|c| *c as u32))
            .filter(|c| !self.reserved.contains(c))
            .collect();
        if self.plan == Plan::SingleCore {
            let named = self.switch.or(self.functions.first().copied());
            let core = named
                .or(self.reserved.first().copied())
                .or(open.first().copied());
            let core = core.ok_or(none("the chain"))?;
            return Ok(Given {
                switch: Some(core),
                functions: wants
                    .iter()
                    .map(|(_, want)| Some(want.unwrap_or(core)))
                    .collect(),
                rounds: true,
            });
        }
        if !self.given && there.len() < 2 {
            // one core, or none that could be found out: the kernel knows
            let functions = wants.iter().map(|w| w.1).collect();
            return Ok(Given {
                switch: None,
                functions,
                rounds: false,
            });
        }
        let alone = self.plan == Plan::MultiCore;
        let switch = match (self.switch, self.given) {
            (Some(core), _) => Some(core),
            (None, true) => Some(
                *open
                    .iter()
                    .find(|c| !self.functions.contains(c))
                    .ok_or(none("the switch"))?,
            ),
            (None, false) => None,
        };
        let left: Vec<u32> = match self.functions.is_empty() {
            // from the second one on, the first one last
            true => open
                .iter()
                .cycle()
                .skip(1)
                .take(open.len())
                .copied()
                .collect(),
            false => self.functions.clone(),
        };
        let left: Vec<u32> = left
            .into_iter()
            .filter(|c| !alone || Some(*c) != switch)
            .collect();
        let mut turn = left.iter().cycle();
        let functions: Option<Vec<Option<u32>>> = wants
            .iter()
            .map(|(_, want)| Some(Some(want.or_else(|| turn.next().copied())?)))
            .collect();
        Ok(Given {
            switch,
            functions: functions.ok_or(none("functions"))?,
            rounds: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cores(plan: Plan, switch: Option<u32>, functions: &[u32], reserved: &[u32]) -> Cores {
        Cores {
            plan,
            switch,
            functions: functions.to_vec(),
            reserved: reserved.to_vec(),
            given: true,
        }
    }

    const THREE: [(&str, Option<u32>); 3] = [("a", None), ("b", None), ("c", None)];

    #[test]
    fn each_plan_gives_out_its_cores() {
        let plain = Cores::default().give(&[0, 1], &THREE).unwrap();
        assert_eq!(plain.functions, [Some(1), Some(0), Some(1)]);
        assert_eq!((plain.switch, plain.rounds), (None, false));
        let one = cores(Plan::SingleCore, Some(1), &[], &[])
            .give(&[0, 1, 2], &THREE)
            .unwrap();
        assert_eq!(one.functions, [Some(1); 3]);
        assert_eq!((one.switch, one.rounds), (Some(1), true));
        let many = cores(Plan::MultiCore, None, &[], &[])
            .give(&[0, 1, 2], &THREE)
            .unwrap();
        assert_eq!(many.switch, Some(0));
        assert_eq!(many.functions, [Some(1), Some(2), Some(1)]);
        let named = cores(Plan::MultiCore, Some(2), &[0], &[])
            .give(&[0, 1, 2], &THREE)
            .unwrap();
        assert_eq!((named.switch, named.functions), (Some(2), vec![Some(0); 3]));
    }

    #[test]
    fn reserved_cores_are_given_to_who_names_them_only() {
        let wants = [("a", Some(2)), ("b", None)];
        let g = cores(Plan::Spread, None, &[], &[2])
            .give(&[0, 1, 2], &wants)
            .unwrap();
        assert_eq!((g.switch, g.functions), (Some(0), vec![Some(2), Some(1)]));
        let all = cores(Plan::MultiCore, None, &[], &[0, 1]).give(&[0, 1], &THREE);
        assert!(
            matches!(all, Err(CoresError::NoneLeft("the switch", ..))),
            "{all:?}"
        );
        let alone = cores(Plan::MultiCore, Some(0), &[], &[]).give(&[0], &THREE);
        assert!(
            matches!(alone, Err(CoresError::NoneLeft("functions", ..))),
            "{alone:?}"
        );
    }

    #[test]
    fn cores_that_there_are_not_are_told() {
        let no = cores(Plan::Spread, Some(7), &[], &[])
            .give(&[0, 1], &THREE)
            .unwrap_err();
        assert_eq!(
            no.to_string(),
            "cores: there is no core 7 to be had; there are [0, 1]"
        );
        let no = Cores::default()
            .give(&[0, 1], &[("a", Some(9))])
            .unwrap_err();
        assert!(
            no.to_string()
                .starts_with("a: affinity: there is no core 9"),
            "{no}"
        );
        assert_eq!(
            Cores::default().give(&[0], &THREE).unwrap().functions,
            [None; 3]
        );
    }
}
