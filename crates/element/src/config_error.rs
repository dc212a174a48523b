//! What is wrong with an element's configuration, and where.

/// What is wrong with one argument of an element's configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", argument.as_ref().map(|a| format!("{a}: ")).unwrap_or_default())]
pub struct ConfigError {
    /// The argument's documented name (`OFFSET`, `CHECKSUM`), if the error is about one.
    pub argument: Option<String>,
    /// Which argument of the configuration it stands in (from 0), so that the place can be shown.
    pub index: Option<usize>,
    /// What is wrong and what was wanted.
    pub message: String,
    /// How to mend it, when there is something to say.
    pub hint: Option<String>,
    /// A warning: the element is usable.
    pub warning: bool,
    /// Nothing is wrong, it is only said (Message). `warning` is set, too.
    pub info: bool,
}

impl ConfigError {
    /// An error about no argument in particular.
    pub fn new(message: impl Into<String>) -> Self {
        ConfigError {
            argument: None,
            index: None,
            message: message.into(),
            hint: None,
            warning: false,
            info: false,
        }
    }
    /// An error about the argument at `index` (from 0), documented as `name`.
    pub fn at(index: usize, name: &str, message: impl Into<String>) -> Self {
        ConfigError {
            argument: Some(name.to_string()),
            index: Some(index),
            ..Self::new(message)
        }
    }
    /// Adds a hint.
    pub fn hint(mut self, h: impl Into<String>) -> Self {
        self.hint = Some(h.into());
        self
    }
}

/// All that is wrong with an element's configuration.
pub type ConfigErrors = Vec<ConfigError>;
