//! Names of ICMP types and codes, as configurations write them and as they are printed (RFC 792, RFC 950, RFC 1256, RFC
//! 1812).

use onefold_element::args::{ArgScope, FromArg};

/// (name, type), sorted by name.
const TYPES: &[(&str, u8)] = &[
    ("echo", 8),
    ("echo-reply", 0),
    ("inforeq", 15),
    ("inforeq-reply", 16),
    ("maskreq", 17),
    ("maskreq-reply", 18),
    ("parameterproblem", 12),
    ("redirect", 5),
    ("routeradvert", 9),
    ("routersolicit", 10),
    ("sourcequench", 4),
    ("timeexceeded", 11),
    ("timestamp", 13),
    ("timestamp-reply", 14),
    ("unreachable", 3),
];

/// (type, name, code).
const CODES: &[(u8, &str, u8)] = &[
    (3, "net", 0),
    (3, "host", 1),
    (3, "protocol", 2),
    (3, "port", 3),
    (3, "needfrag", 4),
    (3, "srcroutefail", 5),
    (3, "netunknown", 6),
    (3, "hostunknown", 7),
    (3, "isolated", 8),
    (3, "netprohibited", 9),
    (3, "hostprohibited", 10),
    (3, "tosnet", 11),
    (3, "toshost", 12),
    (3, "filterprohibited", 13),
    (3, "hostprecedence", 14),
    (3, "precedencecutoff", 15),
    (5, "net", 0),
    (5, "host", 1),
    (5, "tosnet", 2),
    (5, "toshost", 3),
    (11, "transit", 0),
    (11, "reassembly", 1),
    (12, "erroratptr", 0),
    (12, "missingopt", 1),
    (12, "length", 2),
];

/// The number of a named ICMP type.
pub fn icmp_type(name: &str) -> Option<u8> {
    TYPES.iter().find(|t| t.0 == name).map(|t| t.1)
}

/// The number of a named code of ICMP type `kind`.
pub fn icmp_code(kind: u8, name: &str) -> Option<u8> {
    let mut codes = CODES.iter();
    codes.find(|c| c.0 == kind && c.1 == name).map(|c| c.2)
}

/// The name of an ICMP type.
pub fn type_name(kind: u8) -> Option<&'static str> {
    TYPES.iter().find(|t| t.1 == kind).map(|t| t.0)
}

/// The name of a code of ICMP type `kind`.
pub fn code_name(kind: u8, code: u8) -> Option<&'static str> {
    let mut codes = CODES.iter();
    codes.find(|c| c.0 == kind && c.2 == code).map(|c| c.1)
}

/// An ICMP type argument, by number or name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IcmpType(pub u8);

impl FromArg for IcmpType {
    const WANTS: &'static str =
        "an ICMP type, a number from 0 to 255 or a name such as 'unreachable'";
    fn from_arg(s: &str, scope: &ArgScope<'_>) -> Result<Self, Option<String>> {
        match icmp_type(s) {
            Some(t) => Ok(IcmpType(t)),
            None => u8::from_arg(s, scope).map(IcmpType),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        assert_eq!(icmp_type("timeexceeded"), Some(11));
        assert_eq!(icmp_code(3, "needfrag"), Some(4));
        assert_eq!(icmp_code(5, "needfrag"), None);
        assert_eq!(icmp_code(5, "host"), Some(1));
        assert_eq!(
            (type_name(8), code_name(3, 4)),
            (Some("echo"), Some("needfrag"))
        );
        assert_eq!((type_name(99), code_name(8, 4)), (None, None));
        let mut sorted = TYPES.to_vec();
        sorted.sort();
        assert_eq!(sorted, TYPES);
    }
}
