//! Resize: adds bytes to packets, or takes bytes away, at both ends (Click element).
//!
//! Different from Click: added bytes are zero, or what was taken away there before; more than [`MAX`] bytes are
//! refused.

use super::one_to_one;
use onefold_element::args::Args;
use onefold_element::handler::{HandlerError, HandlerInfo, HandlerResult};
use onefold_element::model::build::Cases;
use onefold_element::model::{Cond, Exit, Model, ModelCx, Op, Read};
use onefold_element::{
    ConfigCx, ConfigErrors, Cx, Effect, Element, ElementClass, Port, element_any,
};
use onefold_packet::Pkt;

/// `Resize`.
pub const RESIZE: ElementClass = one_to_one(
    "Resize",
    Effect::Pure,
    "[HEAD, TAIL]",
    "adds bytes at the head and the tail of packets, or removes them (negative numbers)",
    || Box::new(Resize::default()),
);

/// Most bytes that are added or removed at one end.
const MAX: i32 = 1 << 20;

#[derive(Debug, Clone, Default)]
struct Resize {
    head: i32,
    tail: i32,
}

impl Element for Resize {
    fn configure(&mut self, args: &mut Args<'_>, _: &mut ConfigCx<'_>) -> Result<(), ConfigErrors> {
        self.head = args.optional("HEAD").unwrap_or(0);
        self.tail = args.optional("TAIL").unwrap_or(0);
        for (name, n) in [("HEAD", self.head), ("TAIL", self.tail)] {
            if !(-MAX..=MAX).contains(&n) {
                args.error(format!("{name}: expected at most {MAX} bytes, found {n}"));
            }
        }
        args.finish()
    }
    fn model(&self, _: Port, _: &ModelCx<'_>) -> Model {
        let head = u16::try_from(self.head.unsigned_abs());
        let Some(n) = head.ok().filter(|_| self.tail == 0) else {
            return Model::None("Resize: adds or removes bytes at the end");
        };
        match self.head {
            0 => Model::pass([]),
            1.. => Model::pass([Op::Unpull(n)]),
            _ => Cases::new()
                .punt(Cond::less(Read::Len, n.into()), "strips more than there is")
                .otherwise([Op::Pull(n)], Exit::Port(0)),
        }
    }
    fn push(&mut self, _: Port, mut p: Pkt, cx: &mut Cx<'_>) {
        let (head, tail) = (
            self.head.unsigned_abs() as usize,
            self.tail.unsigned_abs() as usize,
        );
        match self.head {
            0.. => p.push(head),
            _ => p.pull(head.min(p.len())),
        }
        match self.tail {
            0.. => p.put(tail),
            _ => p.take(tail.min(p.len())),
        }
        cx.emit(0, p);
    }
    fn handlers(&self) -> &'static [HandlerInfo] {
        const H: &[HandlerInfo] = &[HandlerInfo::rw("head"), HandlerInfo::rw("tail")];
        H
    }
    fn read(&mut self, name: &str, _: &str, _: &mut Cx<'_>) -> HandlerResult {
        match name {
            "head" => Ok(self.head.to_string()),
            "tail" => Ok(self.tail.to_string()),
            _ => Err(HandlerError::NoSuchHandler(name.to_string())),
        }
    }
    fn write(&mut self, name: &str, value: &str, cx: &mut Cx<'_>) -> Result<(), HandlerError> {
        let to = match name {
            "head" => &mut self.head,
            "tail" => &mut self.tail,
            _ => return Err(HandlerError::NoSuchHandler(name.to_string())),
        };
        let n: i32 = cx.value(name, value)?;
        if !(-MAX..=MAX).contains(&n) {
            let m = format!("{name}: expected at most {MAX} bytes, found {n}");
            return Err(HandlerError::BadValue(m));
        }
        *to = n;
        Ok(())
    }
    element_any!();
}

#[cfg(test)]
mod tests {
    use crate::testing::Bench;

    fn resized(config: &str, data: &[u8]) -> Vec<u8> {
        let mut b = Bench::new("Resize", config, 1, 1).unwrap();
        b.push(0, data)[0].1.data().to_vec()
    }

    #[test]
    fn both_ends() {
        assert_eq!(resized("", b"ABCD"), b"ABCD");
        assert_eq!(resized("HEAD -2", b"ABCD"), b"CD");
        assert_eq!(resized("+2, -2", b"ABCD"), b"\0\0AB");
        assert_eq!(resized("0, 3", b"ABCD"), b"ABCD\0\0\0");
        assert_eq!(resized("-1, TAIL -1", b"ABCD"), b"BC");
        assert_eq!(resized("HEAD -8", b"ABCD"), b"");
        assert_eq!(resized("-3, -3", b"ABCD"), b"");
    }

    #[test]
    fn handlers_and_errors() {
        let mut b = Bench::new("Resize", "1, -1", 1, 1).unwrap();
        assert_eq!(
            (b.read("head").unwrap(), b.read("tail").unwrap()),
            ("1".into(), "-1".into())
        );
        b.write("head", "-3").unwrap();
        b.write("tail", "1").unwrap();
        assert_eq!(b.push(0, b"abcd")[0].1.data(), b"d\0");
        assert!(b.write("head", "2000000").is_err() && b.write("head", "x").is_err());
        assert_eq!(b.read("head").unwrap(), "-3");
        let e = Bench::new("Resize", "-2000000, x", 1, 1).err().unwrap();
        assert_eq!(e.len(), 2, "{e:?}");
    }
}
