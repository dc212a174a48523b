//! What can be wrong with a program.

/// Why a program cannot be executed on a graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LoadError {
    /// A handler has been written to since the plan was made: it may be of other models.
    #[error("the plan is outdated: a handler has been written to since it was made")]
    Outdated,
    /// The graph has other elements.
    #[error("the program is for a graph of {program} elements, this one has {graph}")]
    Size {
        /// Elements that the program speaks of.
        program: usize,
        /// Elements of the graph.
        graph: usize,
    },
    /// An element has another name.
    #[error("element {index} is '{program}' in the program and '{graph}' in the graph")]
    Name {
        /// Its index.
        index: usize,
        /// Its name in the program.
        program: String,
        /// Its name in the graph.
        graph: String,
    },
    /// A number of an element that does not exist.
    #[error("{place}: there is no element {index}")]
    NoElement {
        /// Where in the program.
        place: String,
        /// The number.
        index: u32,
    },
    /// An input that an element does not have.
    #[error("{place}: element '{element}' has no input {port}")]
    NoInput {
        /// Where in the program.
        place: String,
        /// The element's name.
        element: String,
        /// The input.
        port: u16,
    },
    /// A stage that does not exist.
    #[error("{place}: there is no stage {index}")]
    NoStage {
        /// Where in the program.
        place: String,
        /// The number.
        index: u32,
    },
    /// An action that its stage does not have.
    #[error("{place}: the stage has no action {index}")]
    NoAction {
        /// Where in the program.
        place: String,
        /// The number.
        index: u32,
    },
    /// A slot that does not exist.
    #[error("{place}: there is no slot {index}")]
    NoSlot {
        /// Where in the program.
        place: String,
        /// The number.
        index: u32,
    },
    /// A width that no value has.
    #[error("{place}: values have 1 to 128 bits, not {bits}")]
    Width {
        /// Where in the program.
        place: String,
        /// The width.
        bits: u8,
    },
    /// A position far outside any packet.
    #[error("{place}: position {at} lies outside every packet")]
    Position {
        /// Where in the program.
        place: String,
        /// The position.
        at: i64,
    },
    /// An annotation outside the annotation area.
    #[error("{place}: there is no annotation of {size} bytes at {offset}")]
    Anno {
        /// Where in the program.
        place: String,
        /// First byte.
        offset: u8,
        /// Bytes.
        size: u8,
    },
    /// A packet type that does not exist.
    #[error("{place}: there is no packet type {number}")]
    PacketType {
        /// Where in the program.
        place: String,
        /// The number.
        number: u8,
    },
    /// Stages lead back to themselves although nothing has happened to the packet in between.
    #[error("stage {stage} leads back to itself within one epoch")]
    Cycle {
        /// One of the stages of the circle.
        stage: u32,
    },
    /// Two entries for one source.
    #[error("{place}: the source has an entry already")]
    TwoEntries {
        /// Where in the program.
        place: String,
    },
    /// A fork to nowhere.
    #[error("{place}: a fork needs at least one way")]
    EmptyFork {
        /// Where in the program.
        place: String,
    },
    /// More of something than an engine takes.
    #[error("too many {what}: at most {most}")]
    TooMany {
        /// Of what.
        what: &'static str,
        /// The bound.
        most: usize,
    },
}
