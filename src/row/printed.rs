//! Binary forms of types that are carried as Postgres's text: each is printed as the type's output function does.

use std::io::Write;

use super::geometric::{self, Shape};
use super::integer::{bool_from_binary, exact, i16_from_binary, i32_from_binary, i64_from_binary, u32_from_binary};
use super::kind::ValueKind;
use super::wire::Wire;
use super::{ValueError, array, calendar, float, interval, network, numeric, range, search, temporal, text, uuid};
use crate::lsn::Lsn;

/// A built-in type that is text for us, and whose binary form we can print.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Printed {
    /// `bit`, `varbit`: the number of bits in four bytes, then the bits from the highest of each byte on.
    Bits,
    /// `inet`, `cidr`.
    Inet,
    /// `macaddr`.
    MacAddr,
    /// `macaddr8`.
    MacAddr8,
    /// The geometric types.
    Geometric(Shape),
    /// `tsvector`.
    TsVector,
    /// `tsquery`.
    TsQuery,
    /// `xid`, `cid`: four bytes without a sign.
    Unsigned,
    /// `tid`: the block in four bytes and the place in it in two.
    Tid,
    /// `pg_snapshot`, `txid_snapshot`: a count in four bytes, then xmin, xmax and as many transaction ids in eight.
    Snapshot,
    /// `int2vector`: sent as an array from 0 on, printed with blanks between.
    Int2Vector,
    /// `oidvector`: likewise.
    OidVector,
}

/// Appends the text of a binary value.
pub fn text_from_binary(printed: Printed, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    match printed {
        Printed::Bits => bits(bytes, out),
        Printed::Inet => network::inet_text(bytes, out),
        Printed::MacAddr => network::macaddr_text(bytes, out),
        Printed::MacAddr8 => network::macaddr8_text(bytes, out),
        Printed::Geometric(shape) => geometric::text_from_binary(shape, bytes, out),
        Printed::TsVector => search::tsvector_text(bytes, out),
        Printed::TsQuery => search::tsquery_text(bytes, out),
        Printed::Unsigned => decimal(u32_from_binary(bytes)?, out),
        Printed::Tid => {
            let [a, b, c, d, e, f]: [u8; 6] = exact(bytes)?;
            let _infallible = write!(
                out,
                "({},{})",
                u32::from_be_bytes([a, b, c, d]),
                u16::from_be_bytes([e, f])
            );
            Ok(())
        }
        Printed::Snapshot => snapshot(bytes, out),
        Printed::Int2Vector => vector(bytes, 21, |value, out| decimal(i16_from_binary(value)?, out), out),
        Printed::OidVector => vector(bytes, 26, |value, out| decimal(u32_from_binary(value)?, out), out),
    }
}

fn decimal(value: impl std::fmt::Display, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let _infallible = write!(out, "{value}");
    Ok(())
}

fn bits(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut wire = Wire::new(bytes);
    let count = usize::try_from(wire.i32()?).map_err(|_| ValueError::Malformed)?;
    let bytes = wire.bytes(count.div_ceil(8))?;
    wire.end()?;
    let digits = bytes
        .iter()
        .flat_map(|byte| (0..8u32).rev().map(|bit| b'0'.wrapping_add(byte.wrapping_shr(bit) & 1)));
    out.extend(digits.take(count));
    Ok(())
}

fn snapshot(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut wire = Wire::new(bytes);
    let count = wire.count(8)?;
    let (xmin, xmax) = (wire.i64()?, wire.i64()?);
    let _infallible = write!(out, "{xmin}:{xmax}:");
    for at in 0..count {
        if at > 0 {
            out.push(b',');
        }
        decimal(wire.i64()?, out)?;
    }
    wire.end()
}

fn vector(
    bytes: &[u8],
    element: u32,
    print: impl Fn(&[u8], &mut Vec<u8>) -> Result<(), ValueError>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    for (at, value) in array::elements_of_vector(bytes, element)?.enumerate() {
        if at > 0 {
            out.push(b' ');
        }
        print(value?.ok_or(ValueError::Malformed)?, out)?;
    }
    Ok(())
}

/// The text of a `pg_lsn` in either form: two hexadecimal numbers without zeros before them, which servers from 19 on print.
pub fn lsn_from_text(bytes: &[u8]) -> Result<Lsn, ValueError> {
    text::utf8(bytes)?.parse().map_err(|_| ValueError::Malformed)
}

/// Reads the binary form of a `pg_lsn`.
pub fn lsn_from_binary(bytes: &[u8]) -> Result<Lsn, ValueError> {
    Ok(Lsn::new(u64::from_be_bytes(exact(bytes)?)))
}

/// Whether [`plain_text`] can print this kind.
pub(super) fn is_printable(kind: &ValueKind) -> bool {
    !matches!(
        kind,
        ValueKind::TextOnly
            | ValueKind::Ruled(_)
            | ValueKind::Array(_)
            | ValueKind::Composite(_)
            | ValueKind::Hstore
            | ValueKind::Vector(_)
    ) && kind.reads_binary()
}

/// Appends the text that Postgres prints for a binary value of any type that has one. It is UTF-8 if the value's own text is.
///
/// # Errors
/// [`ValueError::NoBinaryForm`] for types that are not carried as text, too.
pub fn plain_text(kind: &ValueKind, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    match kind {
        ValueKind::Bool => out.push(if bool_from_binary(bytes)? { b't' } else { b'f' }),
        ValueKind::Int2 => decimal(i16_from_binary(bytes)?, out)?,
        ValueKind::Int4 => decimal(i32_from_binary(bytes)?, out)?,
        ValueKind::Int8 => decimal(i64_from_binary(bytes)?, out)?,
        ValueKind::Oid => decimal(u32_from_binary(bytes)?, out)?,
        ValueKind::Xid8 => decimal(u64::from_be_bytes(exact(bytes)?), out)?,
        ValueKind::Float4 => float::put_f32_text(float::f32_from_binary(bytes)?, out),
        ValueKind::Float8 => float::put_f64_text(float::f64_from_binary(bytes)?, out),
        ValueKind::Decimal { .. } | ValueKind::Numeric => numeric::text_from_binary(bytes, out)?,
        ValueKind::Text => out.extend_from_slice(text::utf8(bytes)?.as_bytes()),
        ValueKind::Versioned => out.extend_from_slice(text::versioned_from_binary(bytes)?.as_bytes()),
        ValueKind::Char => out.extend_from_slice(text::char_from_binary(bytes)?.as_bytes()),
        ValueKind::Bytea => {
            out.extend_from_slice(b"\\x");
            for byte in bytes {
                let _infallible = write!(out, "{byte:02x}");
            }
        }
        ValueKind::Uuid => out.extend_from_slice(&uuid::text_from_binary(bytes)?),
        ValueKind::Date => calendar::date_text(bytes, out)?,
        ValueKind::Time => calendar::time_text(bytes, out)?,
        ValueKind::TimeTz => temporal::timetz_from_binary(bytes, out)?,
        ValueKind::Timestamp => calendar::timestamp_text(bytes, false, out)?,
        ValueKind::TimestampTz => calendar::timestamp_text(bytes, true, out)?,
        ValueKind::Interval => interval::text_from_binary(bytes, out)?,
        ValueKind::Lsn => decimal(lsn_from_binary(bytes)?, out)?,
        ValueKind::Printed(printed) => text_from_binary(*printed, bytes, out)?,
        ValueKind::Range(subtype) => range::range_text(subtype, bytes, out)?,
        ValueKind::Multirange(subtype) => range::multirange_text(subtype, bytes, out)?,
        ValueKind::TextOnly
        | ValueKind::Ruled(_)
        | ValueKind::Array(_)
        | ValueKind::Composite(_)
        | ValueKind::Hstore
        | ValueKind::Vector(_) => return Err(ValueError::NoBinaryForm),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::bytes;

    fn printed(printed: Printed, hexadecimal: &str) -> Result<String, ValueError> {
        let mut out = Vec::new();
        text_from_binary(printed, &bytes(hexadecimal), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn system_types_are_printed_as_postgres_does() {
        for (kind, sent, text) in [
            (Printed::Bits, "00000009a080", "101000001"),
            (Printed::Bits, "0000000801", "00000001"),
            (Printed::Bits, "00000000", ""),
            (Printed::Bits, "0000000180", "1"),
            (Printed::Unsigned, "ffffffff", "4294967295"),
            (Printed::Tid, "000000050006", "(5,6)"),
            (
                Printed::Snapshot,
                "00000003000000000000000a0000000000000014000000000000000a000000000000000e000000000000000f",
                "10:20:10,14,15",
            ),
            (Printed::Snapshot, "00000000000000000000000a000000000000000a", "10:10:"),
            (
                Printed::Int2Vector,
                "000000010000000000000015000000030000000000000002000100000002000200000002fffd",
                "1 2 -3",
            ),
            (Printed::Int2Vector, "0000000100000000000000150000000000000000", ""),
            (
                Printed::OidVector,
                "00000001000000000000001a00000003000000000000000400000001000000040000000200000004ffffffff",
                "1 2 4294967295",
            ),
        ] {
            assert_eq!(printed(kind, sent).as_deref(), Ok(text));
        }
    }

    #[test]
    fn anything_else_is_malformed() {
        for (kind, sent) in [
            (Printed::Bits, ""),
            (Printed::Bits, "ffffffff"),
            (Printed::Bits, "00000009a0"),
            (Printed::Bits, "00000008a080"),
            (Printed::Tid, "0000000500"),
            (Printed::Snapshot, "7fffffff"),
            (Printed::Int2Vector, "00000002000000000000001500000000"),
            (Printed::OidVector, "0000000100000000000000150000000000000000"),
        ] {
            assert_eq!(printed(kind, sent), Err(ValueError::Malformed), "{kind:?} {sent}");
        }
    }

    #[test]
    fn an_lsn_is_printed_alike_by_every_server() {
        let expected = Ok(Lsn::new(0x16_0374_D848));
        assert_eq!(lsn_from_text(b"16/374D848"), expected);
        assert_eq!(lsn_from_text(b"16/0374D848"), expected);
        assert_eq!(lsn_from_binary(&bytes("000000160374d848")), expected);
        assert_eq!(lsn_from_text(b"16"), Err(ValueError::Malformed));
        assert_eq!(lsn_from_binary(&[0; 7]), Err(ValueError::Malformed));
    }
}
