//! The values of a column that take a few bytes, as nearly all do: the same bytes as [`field`](super::field) writes.

use crate::row::{ValueKind, float, integer, numeric, temporal, text, uuid};

use super::binary::long;
use super::stage::Room;

/// The longest string or bytes whose length takes one byte.
const ONE_BYTE_LENGTH: usize = 63;

/// Writes a value in text. `None`: it takes more, or is none of its kind.
#[inline]
pub(super) fn from_text(kind: &ValueKind, value: &[u8], room: &mut Room) -> Option<usize> {
    match kind {
        ValueKind::Text => put_text(value, room),
        ValueKind::Int8 => put_long(integer::short_i64(value)?, room),
        ValueKind::Int2 | ValueKind::Int4 => {
            let value = integer::short_i64(value)?;
            put_long(i32::try_from(value).ok()?.into(), room)
        }
        ValueKind::Bool => put([integer::bool_from_text(value).ok()?.into()], room),
        ValueKind::Decimal { precision, scale } => {
            put_unscaled(numeric::short_from_text(value, *precision, *scale)?, room)
        }
        ValueKind::TimestampTz => put_long(temporal::short_timestamp(value, true)?, room),
        ValueKind::Timestamp => put_long(temporal::short_timestamp(value, false)?, room),
        ValueKind::Date => put_long(temporal::short_date(value.try_into().ok()?)?, room),
        ValueKind::Time => put_long(temporal::time_from_text(value).ok()?, room),
        ValueKind::Float8 => put(float::short_f64(value)?.to_le_bytes(), room),
        ValueKind::Float4 => put(float::f32_from_text(value).ok()?.to_le_bytes(), room),
        ValueKind::Numeric => put_text(numeric::check_text(value).ok()?, room),
        ValueKind::Uuid => put_uuid(uuid::check_text(value).ok()?, room),
        ValueKind::Versioned | ValueKind::Printed(_) | ValueKind::TextOnly => put_text(value, room),
        _ => None,
    }
}

/// Writes a value in its binary form. `None`: it takes more, or is none of its kind.
#[inline]
pub(super) fn from_binary(kind: &ValueKind, value: &[u8], room: &mut Room) -> Option<usize> {
    match kind {
        ValueKind::Text => put_text(value, room),
        ValueKind::Int8 => put_long(integer::i64_from_binary(value).ok()?, room),
        ValueKind::Int4 => put_long(integer::i32_from_binary(value).ok()?.into(), room),
        ValueKind::Int2 => put_long(integer::i16_from_binary(value).ok()?.into(), room),
        ValueKind::Bool => put([integer::bool_from_binary(value).ok()?.into()], room),
        ValueKind::Decimal { precision, scale } => {
            put_unscaled(numeric::short_from_binary(value, *precision, *scale)?, room)
        }
        ValueKind::Timestamp | ValueKind::TimestampTz => put_long(temporal::timestamp_from_binary(value).ok()?, room),
        ValueKind::Date => put_long(temporal::date_from_binary(value).ok()?.into(), room),
        ValueKind::Time => put_long(temporal::time_from_binary(value).ok()?, room),
        ValueKind::Float8 => put(float::f64_from_binary(value).ok()?.to_le_bytes(), room),
        ValueKind::Float4 => put(float::f32_from_binary(value).ok()?.to_le_bytes(), room),
        ValueKind::Uuid => put_uuid(&uuid::text_from_binary(value).ok()?, room),
        _ => None,
    }
}

#[inline]
fn put<const N: usize>(bytes: [u8; N], room: &mut Room) -> Option<usize> {
    *room.first_chunk_mut()? = bytes;
    Some(N)
}

#[inline]
fn put_long(value: i64, room: &mut Room) -> Option<usize> {
    Some(long(value).put(room, 0))
}

#[inline]
fn put_text(value: &[u8], room: &mut Room) -> Option<usize> {
    let length = u8::try_from(value.len()).ok()?;
    if value.len() > ONE_BYTE_LENGTH {
        return None;
    }
    let [first, rest @ ..] = room;
    *first = length.wrapping_shl(1);
    rest.get_mut(..value.len())?.copy_from_slice(text::checked(value).ok()?);
    Some(value.len().wrapping_add(1))
}

#[inline]
fn put_uuid(value: &[u8; 36], room: &mut Room) -> Option<usize> {
    let [first, rest @ ..] = room;
    *first = 72;
    *rest.first_chunk_mut()? = *value;
    Some(37)
}

/// Writes the two's complement in as few bytes as hold it, their number before them.
#[inline]
fn put_unscaled(value: i64, room: &mut Room) -> Option<usize> {
    let (bytes, length) = numeric::shortest(value);
    let [first, rest @ ..] = room;
    *first = length.wrapping_shl(1);
    *rest.first_chunk_mut()? = bytes;
    Some(usize::from(length).wrapping_add(1))
}

#[cfg(test)]
mod tests {
    use super::super::field;
    use super::super::nested::Buffers;
    use super::*;
    use proptest::prelude::*;

    const DECIMAL: ValueKind = ValueKind::Decimal { precision: 9, scale: 2 };

    /// Whether what is written is what `field` writes, and `None` where that has an error.
    fn agrees(kind: &ValueKind, text: bool, value: &[u8]) -> bool {
        let mut room = [0xaa; super::super::stage::ROOM];
        let (mut buffers, mut any) = (Buffers::default(), Vec::new());
        let (length, put) = if text {
            (
                from_text(kind, value, &mut room),
                field::put_text(kind, value, &mut buffers, &mut any),
            )
        } else {
            (
                from_binary(kind, value, &mut room),
                field::put_binary(kind, value, &mut any),
            )
        };
        length.is_none_or(|length| put.is_ok() && room[..length] == any)
    }

    #[test]
    fn ordinary_values_are_short() {
        let mut room = [0; super::super::stage::ROOM];
        for (kind, value, expected) in [
            (ValueKind::Int8, "-64", &b"\x7f"[..]),
            (
                ValueKind::Int8,
                "9223372036854775807",
                b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            ),
            (ValueKind::Int4, "42", b"\x54"),
            (ValueKind::Bool, "t", b"\x01"),
            (ValueKind::Text, "", b"\x00"),
            (ValueKind::Text, "gr\u{f6}\u{df}e", b"\x0egr\xc3\xb6\xc3\x9fe"),
            (DECIMAL, "-1.29", b"\x04\xff\x7f"),
            (ValueKind::Date, "1970-01-02", b"\x02"),
            (ValueKind::TimestampTz, "1970-01-01 00:00:00.000064+00", b"\x80\x01"),
            (ValueKind::Float8, "1.5", b"\0\0\0\0\0\0\xf8\x3f"),
        ] {
            let length = from_text(&kind, value.as_bytes(), &mut room).unwrap();
            assert_eq!(&room[..length], expected, "{value}");
        }
        assert_eq!(from_text(&ValueKind::Text, &[b'x'; 63], &mut room), Some(64));
        assert_eq!(from_text(&ValueKind::Text, &[b'x'; 64], &mut room), None);
        assert_eq!(from_text(&ValueKind::Text, b"gr\xf6\xdfe", &mut room), None);
        assert_eq!(from_binary(&ValueKind::Int4, &[0; 8], &mut room), None);
        assert_eq!(from_text(&ValueKind::Hstore, b"", &mut room), None);
    }

    fn kinds() -> impl Strategy<Value = ValueKind> {
        proptest::sample::select(vec![
            ValueKind::Bool,
            ValueKind::Int2,
            ValueKind::Int4,
            ValueKind::Int8,
            ValueKind::Float4,
            ValueKind::Float8,
            ValueKind::Numeric,
            ValueKind::Time,
            DECIMAL,
            ValueKind::Text,
            ValueKind::Versioned,
            ValueKind::Uuid,
            ValueKind::Date,
            ValueKind::Timestamp,
            ValueKind::TimestampTz,
            ValueKind::TextOnly,
        ])
    }

    proptest! {
        #[test]
        fn what_is_short_is_what_a_field_writes(
            kind in kinds(),
            text in "-?[0-9]{1,20}|-?[0-9]{1,7}\\.[0-9]{2}|\\PC{0,70}|[tf]|[0-9]{4}-0[0-9]-[0-2][0-9]( [0-2][0-9]:[0-5][0-9]:[0-9]{2}(\\.[0-9]{1,6})?(\\+00)?)?|[0-9a-g]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}",
            bytes in proptest::collection::vec(any::<u8>(), 0..70),
            number: i64,
            shift in 0u32..64,
        ) {
            let number = number >> shift;
            prop_assert!(agrees(&kind, true, text.as_bytes()));
            prop_assert!(agrees(&kind, true, number.to_string().as_bytes()));
            prop_assert!(agrees(&kind, true, &bytes));
            prop_assert!(agrees(&kind, false, text.as_bytes()));
            prop_assert!(agrees(&kind, false, &bytes));
            prop_assert!(agrees(&kind, false, &bytes[..bytes.len().min(16)]));
            prop_assert!(agrees(&kind, false, &number.to_be_bytes()));
            prop_assert!(agrees(&kind, false, &number.to_be_bytes()[4..]));
        }
    }
}
