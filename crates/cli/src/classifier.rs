//! `--classifier`: what stages are looked up in, by the name that `explain` prints.

use crate::common::thousands;
use onefold_engine::program::{Kind, ProgramRunner, Structures, Using};

/// A structure that stages can be looked up in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Classifier {
    /// Every rule, one after the other, for each packet
    #[value(name = "linear scan", alias = "linear-scan")]
    Linear,
    /// Every rule, for many packets at once; up to 256 rules
    #[value(name = "decision code", alias = "decision-code")]
    DecisionCode,
    /// Sets of rules by value, intersected
    #[value(name = "bit vector", alias = "bit-vector")]
    BitVector,
    /// One to four trees with 16-way nodes
    #[value(name = "decision tree", alias = "decision-tree")]
    DecisionTree,
    /// For prefixes of one field
    #[value(name = "prefix trie", alias = "prefix-trie")]
    PrefixTrie,
    /// Hash tables of rules that ask alike
    #[value(name = "tuple space", alias = "tuple-space")]
    TupleSpace,
    /// The program's own tree, one packet at a time: what takes the rules that no other structure takes
    #[value(name = "program tree", alias = "program-tree")]
    Tree,
}

/// The option.
#[derive(clap::Args, Debug, Clone, Copy, Default)]
pub struct ClassifierArg {
    /// Stages are looked up in this structure, wherever it takes their rules (else in the program's tree), not in what
    /// the cost model chooses. Hyphens do for spaces: decision-tree
    #[arg(long, value_name = "NAME", value_enum)]
    pub classifier: Option<Classifier>,
}

impl ClassifierArg {
    /// How programs are loaded.
    pub fn using(self) -> Using {
        let structures = match self.classifier {
            None => Structures::Chosen,
            Some(Classifier::Tree) => Structures::Tree,
            Some(Classifier::Linear) => Structures::Only(Kind::Linear),
            Some(Classifier::DecisionCode) => Structures::Only(Kind::DecisionCode),
            Some(Classifier::BitVector) => Structures::Only(Kind::BitVector),
            Some(Classifier::DecisionTree) => Structures::Only(Kind::DecisionTree),
            Some(Classifier::PrefixTrie) => Structures::Only(Kind::PrefixTrie),
            Some(Classifier::TupleSpace) => Structures::Only(Kind::TupleSpace),
        };
        Using {
            structures,
            ..Using::default()
        }
    }

    /// What came of it, if it was asked for: structures of all stages are made for that.
    pub fn told(self, r: &ProgramRunner) -> Option<String> {
        let name = clap::ValueEnum::to_possible_value(&self.classifier?)?;
        let name = name.get_name().to_string();
        let stages = r.structures();
        let all: Vec<_> = stages.iter().filter(|s| s.rules > 1).collect();
        let rules: usize = all.iter().map(|s| s.rules).sum();
        let (mut by, mut left) = (0usize, Vec::new());
        for s in &all {
            let made = s.views.iter().filter(|v| v.structure.kind.is_some());
            by += made.count();
            left.extend(
                s.rest
                    .as_ref()
                    .map(|why| format!("stage {}: {why}", s.stage)),
            );
        }
        let rest = match (left.len(), self.classifier) {
            (0, _) => String::new(),
            (n, Some(Classifier::Tree)) => format!(", {n} by the program's tree"),
            (n, _) => {
                let shown = left.iter().take(3).cloned().collect::<Vec<_>>().join("; ");
                let more = match n > 3 {
                    true => "; ...",
                    false => "",
                };
                format!(
                    ", {n} (or what no other structure of theirs takes) by the program's tree ({shown}{more})"
                )
            }
        };
        Some(format!(
            "--classifier {name}: {} stages with {} rules, {by} structures of this kind{rest}",
            all.len(),
            thousands(rules as u64)
        ))
    }
}
