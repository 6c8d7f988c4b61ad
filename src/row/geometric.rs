//! The geometric types in their binary form, printed as Postgres prints them (manual, section 8.8; `utils/adt/geo_ops.c`).
//! Coordinates are `float8`; counts have four bytes.

use super::ValueError;
use super::float::put_f64_text;
use super::wire::Wire;

/// A geometric type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Shape {
    /// `(x,y)`.
    Point,
    /// `[(x1,y1),(x2,y2)]`.
    Segment,
    /// `(x1,y1),(x2,y2)`, the upper right corner first.
    Box,
    /// `((x1,y1),…)` if closed, `[(x1,y1),…]` if open.
    Path,
    /// `((x1,y1),…)`.
    Polygon,
    /// `{A,B,C}`.
    Line,
    /// `<(x,y),r>`.
    Circle,
}

/// Appends the text of a shape.
pub fn text_from_binary(shape: Shape, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut wire = Wire::new(bytes);
    match shape {
        Shape::Point => put_points(1, &mut wire, out)?,
        Shape::Segment => {
            out.push(b'[');
            put_points(2, &mut wire, out)?;
            out.push(b']');
        }
        Shape::Box => put_points(2, &mut wire, out)?,
        Shape::Path => {
            let (open, close) = match wire.u8()? {
                0 => (b'[', b']'),
                1 => (b'(', b')'),
                _ => return Err(ValueError::Malformed),
            };
            out.push(open);
            put_points(wire.count(16)?, &mut wire, out)?;
            out.push(close);
        }
        Shape::Polygon => {
            out.push(b'(');
            put_points(wire.count(16)?, &mut wire, out)?;
            out.push(b')');
        }
        Shape::Line => {
            for before in [b'{', b',', b','] {
                out.push(before);
                put_f64_text(wire.f64()?, out);
            }
            out.push(b'}');
        }
        Shape::Circle => {
            out.push(b'<');
            put_points(1, &mut wire, out)?;
            out.push(b',');
            put_f64_text(wire.f64()?, out);
            out.push(b'>');
        }
    }
    wire.end()
}

fn put_points(count: usize, wire: &mut Wire<'_>, out: &mut Vec<u8>) -> Result<(), ValueError> {
    for at in 0..count {
        if at > 0 {
            out.push(b',');
        }
        out.push(b'(');
        put_f64_text(wire.f64()?, out);
        out.push(b',');
        put_f64_text(wire.f64()?, out);
        out.push(b')');
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::bytes;

    fn printed(shape: Shape, hexadecimal: &str) -> Result<String, ValueError> {
        let mut out = Vec::new();
        text_from_binary(shape, &bytes(hexadecimal), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    const FOUR: &str = "3ff0000000000000400000000000000040080000000000004010000000000000";

    #[test]
    fn shapes_are_printed_as_postgres_does() {
        for (shape, sent, text) in [
            (Shape::Point, "3ff80000000000008000000000000000", "(1.5,-0)"),
            (Shape::Point, "430c6bf5263400003ee4f8b588e368f1", "(1e+15,1e-05)"),
            (Shape::Point, "7ff80000000000007ff0000000000000", "(NaN,Infinity)"),
            (Shape::Segment, FOUR, "[(1,2),(3,4)]"),
            (
                Shape::Box,
                "400800000000000040100000000000003ff00000000000004000000000000000",
                "(3,4),(1,2)",
            ),
            (Shape::Path, &format!("0100000002{FOUR}"), "((1,2),(3,4))"),
            (Shape::Path, &format!("0000000002{FOUR}"), "[(1,2),(3,4)]"),
            (
                Shape::Polygon,
                &format!("00000003{FOUR}40140000000000004018000000000000"),
                "((1,2),(3,4),(5,6))",
            ),
            (
                Shape::Line,
                "3ff0000000000000bff00000000000003fe0000000000000",
                "{1,-1,0.5}",
            ),
            (
                Shape::Circle,
                "3ff000000000000040000000000000004008000000000000",
                "<(1,2),3>",
            ),
        ] {
            assert_eq!(printed(shape, sent).as_deref(), Ok(text));
        }
    }

    #[test]
    fn anything_else_is_malformed() {
        for (shape, sent) in [
            (Shape::Point, FOUR),
            (Shape::Point, ""),
            (Shape::Circle, FOUR),
            (Shape::Path, "0200000000"),
            (Shape::Path, "0100000001"),
            (Shape::Polygon, "ffffffff"),
            (Shape::Polygon, "7fffffff"),
            (Shape::Line, "00"),
        ] {
            assert_eq!(printed(shape, sent), Err(ValueError::Malformed), "{shape:?} {sent}");
        }
    }
}
