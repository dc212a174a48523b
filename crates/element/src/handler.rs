//! Handlers: what can be read from and written to a running element.

/// Why a handler call failed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// The element has no such handler.
    #[error("no handler named '{0}'")]
    NoSuchHandler(String),
    /// There is no such element.
    #[error("no element named '{0}'")]
    NoSuchElement(String),
    /// The handler cannot be read (or written).
    #[error("handler '{0}' cannot be {1}")]
    WrongDirection(String, &'static str),
    /// The value makes no sense to the handler.
    #[error("{0}")]
    BadValue(String),
    /// The element is busy: it is calling a handler of itself.
    #[error("element '{0}' is busy")]
    Busy(String),
}

/// What a read handler gives.
pub type HandlerResult = Result<String, HandlerError>;

/// How a handler may be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HandlerFlags {
    /// Read only.
    Read,
    /// Read only, takes a parameter.
    ReadParam,
    /// Write only.
    Write,
    /// Write only; the value is ignored.
    Button,
    /// Both.
    ReadWrite,
}

/// What writing a handler changes, at most: what was derived from the rest still holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Touches {
    /// Nothing that an element keeps.
    Nothing,
    /// What is counted, and no packet sees: programs and flow tables go on.
    Counters,
    /// What is asked when a flow is new, and then holds for it: who of several servers gets it. Programs ask the same
    /// state as elements do, and what flow tables know of the flows that there are stays so: both go on.
    NewFlows,
    /// What packets see: bindings, neighbours, routes, options. Models may be others.
    Model,
}

/// A handler that an element has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HandlerInfo {
    /// Its name.
    pub name: &'static str,
    /// How it may be used.
    pub flags: HandlerFlags,
    /// Writing it is changing this argument of the configuration: position (if it has one) and keyword
    /// (if it has one). The `config` handler
    /// shows the change.
    pub argument: Option<(Option<u16>, &'static str)>,
    /// What writing it changes.
    pub touches: Touches,
}

impl HandlerInfo {
    const fn new(name: &'static str, flags: HandlerFlags) -> Self {
        HandlerInfo {
            name,
            flags,
            argument: None,
            touches: Touches::Model,
        }
    }
    /// Writing it changes argument `keyword`, which may also stand at `position`.
    pub const fn sets(mut self, position: u16, keyword: &'static str) -> Self {
        self.argument = Some((Some(position), keyword));
        self
    }
    /// Writing it changes argument `keyword`, which has no position.
    pub const fn sets_keyword(mut self, keyword: &'static str) -> Self {
        self.argument = Some((None, keyword));
        self
    }
    /// Writing it changes counters alone.
    pub const fn counts(mut self) -> Self {
        self.touches = Touches::Counters;
        self
    }
    /// Writing it changes what becomes of new flows alone.
    pub const fn decides_new_flows(mut self) -> Self {
        self.touches = Touches::NewFlows;
        self
    }
    /// A read handler.
    pub const fn r(name: &'static str) -> Self {
        Self::new(name, HandlerFlags::Read)
    }
    /// A read handler with a parameter.
    pub const fn rp(name: &'static str) -> Self {
        Self::new(name, HandlerFlags::ReadParam)
    }
    /// A write handler.
    pub const fn w(name: &'static str) -> Self {
        Self::new(name, HandlerFlags::Write)
    }
    /// A write handler whose value does not matter.
    pub const fn button(name: &'static str) -> Self {
        Self::new(name, HandlerFlags::Button)
    }
    /// A handler that can be read and written.
    pub const fn rw(name: &'static str) -> Self {
        Self::new(name, HandlerFlags::ReadWrite)
    }
    /// Can it be read?
    pub fn readable(&self) -> bool {
        !matches!(self.flags, HandlerFlags::Write | HandlerFlags::Button)
    }
    /// Can it be written?
    pub fn writable(&self) -> bool {
        matches!(
            self.flags,
            HandlerFlags::Write | HandlerFlags::Button | HandlerFlags::ReadWrite
        )
    }
}

/// A boolean as handlers take it.
pub fn parse_bool(s: &str) -> Result<bool, HandlerError> {
    match s.trim() {
        "1" | "t" | "true" | "yes" | "y" => Ok(true),
        "0" | "f" | "false" | "no" | "n" => Ok(false),
        other => Err(HandlerError::BadValue(format!(
            "expected a boolean (true or false), found '{other}'"
        ))),
    }
}
