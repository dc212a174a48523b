//! Chains: elements with their classes, configuration strings and ports, and the arrows between them.

use super::Parser;
use crate::ast::*;
use crate::diag::Diagnostic;
use crate::lex::{Kind, Token};
use crate::limits::{MAX_LISTED_PORTS, MAX_PORT};

impl Parser<'_> {
    pub(super) fn chain(&mut self) -> Option<Chain> {
        let mut links: Vec<Link> = Vec::new();
        let mut arrow: Option<Arrow> = None;
        while let Some(elements) = self.elements(!links.is_empty()) {
            links.push(Link { arrow, elements });
            loop {
                let token = self.next();
                match token.kind {
                    Kind::Char(b',') | Kind::Colons => {
                        self.unexpected(token, "an arrow or ';'");
                        continue;
                    }
                    Kind::Arrow | Kind::DoubleArrow => {
                        let double = token.kind == Kind::DoubleArrow;
                        arrow = Some(Arrow {
                            double,
                            span: self.token_span(token),
                        });
                        break;
                    }
                    Kind::Char(b';') | Kind::End => {}
                    Kind::Char(b'{' | b'}' | b'[' | b')') => self.unread(token),
                    Kind::Char(_) => self.unexpected(token, "an arrow or ';'"),
                    Kind::Variable | Kind::Dots => {
                        self.unexpected(token, "an arrow or ';'");
                        self.unread(token);
                    }
                    _ => self.unread(token),
                }
                return Some(Chain {
                    links,
                    dangling: None,
                });
            }
        }
        if links.is_empty() {
            return None;
        }
        Some(Chain {
            links,
            dangling: arrow.map(|a| a.span),
        })
    }

    /// Reads elements separated by commas; `after_arrow` unless they start a chain. `None` if there are none.
    fn elements(&mut self, after_arrow: bool) -> Option<Vec<ElementUse>> {
        let mut out: Vec<ElementUse> = Vec::new();
        let mut implicit = false;
        let mut token;
        loop {
            let ports = self.ports();
            token = self.next();
            let start = token.start;
            let mut implicit_here = None;
            let what = match token.kind {
                Kind::Ident => What::Name(self.name(token)),
                Kind::Char(b'{') => What::Compound(Box::new(self.compound(token, None))),
                Kind::Char(b'(') => What::Group(Box::new(self.group(token))),
                kind => {
                    let nested = self.compounds > 0 || self.groups > 0;
                    let alone = ports.is_some() || out.is_empty();
                    let understood = nested
                        && match kind {
                            Kind::Arrow | Kind::DoubleArrow => !after_arrow && alone,
                            Kind::Char(b',') => ports.is_some(),
                            Kind::Colons => false,
                            _ => after_arrow && alone,
                        };
                    if !understood {
                        if let Some(ports) = &ports {
                            self.error(ports.span, "these ports belong to no element");
                        }
                        if !out.is_empty() {
                            break;
                        }
                        if after_arrow {
                            self.unread(token);
                        } else {
                            self.unexpected(token, "an element");
                        }
                        return None;
                    }
                    self.unread(token);
                    implicit = true;
                    let pseudo = if after_arrow {
                        Pseudo::Output
                    } else {
                        Pseudo::Input
                    };
                    implicit_here = Some(pseudo);
                    What::Implicit(pseudo)
                }
            };
            let mut element = ElementUse {
                what,
                class: None,
                config: None,
                inputs: ports,
                outputs: None,
                span: self.span(start, self.next_pos().max(start)),
            };
            if implicit_here == Some(Pseudo::Input) {
                std::mem::swap(&mut element.inputs, &mut element.outputs);
            }
            if let What::Name(name) = &element.what {
                element.span = name.span;
            }
            token = self.next();
            if implicit_here.is_none() {
                token = self.element_rest(token, &mut element);
            }
            self.node(element.span);
            out.push(element);
            if token.kind != Kind::Char(b',') {
                break;
            }
        }
        self.unread(token);
        if implicit && after_arrow && matches!(token.kind, Kind::Arrow | Kind::DoubleArrow) {
            self.error(
                self.token_span(token),
                "an element is missing between two arrows",
            );
        }
        Some(out)
    }

    /// Reads what may follow the name of an element, of which `token` is the first; returns the token after it.
    fn element_rest(&mut self, mut token: Token, element: &mut ElementUse) -> Token {
        if token.kind == Kind::Colons {
            token = self.next();
            match token.kind {
                Kind::Ident => element.class = Some(ClassRef::Name(self.name(token))),
                Kind::Char(b'{') => {
                    element.class = Some(ClassRef::Compound(Box::new(self.compound(token, None))));
                }
                _ => {
                    self.unexpected(token, "an element class");
                    self.unread(token);
                }
            }
            token = self.next();
        }
        if token.kind == Kind::Char(b'(') {
            let config = self.config();
            self.close_config(&config);
            element.config = Some(config);
            token = self.next();
        }
        if token.kind == Kind::Char(b'[') {
            self.unread(token);
            element.outputs = self.ports();
            token = self.next();
        }
        token
    }

    /// Reads `[...]`, if it is there.
    fn ports(&mut self) -> Option<PortList> {
        let first = self.next();
        if first.kind != Kind::Char(b'[') {
            self.unread(first);
            return None;
        }
        let mut list = PortList {
            ports: Vec::new(),
            open: false,
            span: self.token_span(first),
        };
        let mut last = 0;
        let mut range = false;
        loop {
            let token = self.next();
            match token.kind {
                Kind::Ident => {
                    let port = self.port(token);
                    if range {
                        self.count_ports(port.saturating_sub(last), token);
                        if !self.stopped {
                            list.ports.extend(last + 1..=port);
                        }
                        last = port.max(last) + 1;
                    } else {
                        self.count_ports(1, token);
                        list.ports.push(port);
                        last = port;
                    }
                }
                Kind::Char(b']') => {
                    if list.ports.is_empty() {
                        list.ports.push(0);
                    }
                    list.open = true;
                    list.span = list.span.to(self.token_span(token));
                    return Some(list);
                }
                _ => {
                    self.unexpected(token, "a port number");
                    self.unread(token);
                    return (!list.ports.is_empty()).then_some(list);
                }
            }
            let token = self.next();
            match token.kind {
                Kind::Char(b']') => {
                    list.span = list.span.to(self.token_span(token));
                    return Some(list);
                }
                Kind::Char(b'-') if !range => range = true,
                Kind::Char(b',') => range = false,
                _ => {
                    self.unexpected(token, "',' or ']'");
                    self.unread(token);
                }
            }
        }
    }

    fn count_ports(&mut self, n: usize, token: Token) {
        self.listed_ports = self.listed_ports.saturating_add(n);
        if self.listed_ports > MAX_LISTED_PORTS {
            let span = self.token_span(token);
            self.fatal(
                Diagnostic::error(format!("more than {MAX_LISTED_PORTS} ports in port lists"))
                    .at(&self.sources, span),
            );
        }
    }

    /// A port number, as C writes integers: 10, 0xa, 012.
    fn port(&mut self, token: Token) -> usize {
        let text = self.cursor.text(token.start, token.end);
        let hex = text.strip_prefix("0x").or_else(|| text.strip_prefix("0X"));
        let (digits, radix) = match hex {
            Some(hex) => (hex, 16),
            None if text.starts_with('0') && text.len() > 1 => (&text[1..], 8),
            None => (&text[..], 10),
        };
        let span = self.token_span(token);
        if digits.is_empty() || !digits.chars().all(|c| c.is_digit(radix)) {
            let d = Diagnostic::error(format!("'{text}' is no port number"))
                .at(&self.sources, span)
                .expected("an integer");
            self.report(d);
            return 0;
        }
        match usize::from_str_radix(digits, radix) {
            Ok(port) if port <= MAX_PORT => port,
            _ => {
                self.error(span, format!("port numbers go up to {MAX_PORT}"));
                0
            }
        }
    }
}
