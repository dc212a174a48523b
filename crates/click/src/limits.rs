//! The bounds that keep hostile configurations harmless. Exceeding one is an error that names it.

/// Compound elements and groups inside one another, in the text.
pub const MAX_NESTING: usize = 100;

/// Compound elements inside one another, after classes are expanded.
pub const MAX_EXPANSION_DEPTH: usize = 100;

/// Statements, elements and parameters in the text of a configuration, its libraries included.
pub const MAX_NODES: usize = 1 << 19;

/// Commas in one configuration string, and so one less than its arguments.
pub const MAX_ARGUMENTS: usize = 1 << 20;

/// Variants of a compound element class, those of the class that it extends included.
pub const MAX_VARIANTS: usize = 1000;

/// Elements of the flat graph, the ends of compound elements and groups counted too.
pub const MAX_ELEMENTS: usize = 1 << 18;

/// Connections of the flat graph, and those that are followed through compound elements to get there.
pub const MAX_CONNECTIONS: usize = 1 << 20;

/// The highest port number.
pub const MAX_PORT: usize = 65_535;

/// Ports in all port lists of a configuration, ranges such as `[0-9]` counted port by port.
pub const MAX_LISTED_PORTS: usize = 1 << 20;

/// Memory for configuration strings and values of parameters while parameters are substituted, in bytes.
pub const MAX_CONFIG_BYTES: usize = 256 << 20;

/// Bytes of all element names.
pub const MAX_NAME_BYTES: usize = 256 << 20;

/// Values of parameters inside values of parameters: deeper references stay as they are, as in Click.
pub const MAX_VARIABLE_DEPTH: usize = 10;

/// Parameter references that are substituted.
pub const MAX_SUBSTITUTIONS: usize = 1 << 22;

/// Parameters of a compound element.
pub const MAX_FORMALS: usize = 200;

/// Libraries that are included, and library files inside one another.
pub const MAX_LIBRARIES: usize = 64;

/// Errors after which reading stops.
pub const MAX_ERRORS: usize = 100;
