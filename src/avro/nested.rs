//! Values that hold other values: arrays, records, maps.
//!
//! An array or map is one block of all its items, with their number before it and a zero after it; an empty one is the
//! zero alone (Avro specification, "Complex Types"). Items and fields that can be NULL are `["null", T]`.

use crate::row::vector::{self, Width};
use crate::row::{ArrayKind, CompositeKind, ValueError, ValueKind, array, composite, hstore, text};

use super::binary::{put_bytes, put_length};
use super::field::{put_binary, put_text};

/// Buffers for texts whose escapes were removed, one for each level of nesting, used again and again.
#[derive(Default)]
pub(super) struct Buffers {
    free: Vec<Vec<u8>>,
}

impl Buffers {
    pub(super) fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_default()
    }

    pub(super) fn put_back(&mut self, buffer: Vec<u8>) {
        self.free.push(buffer);
    }

    /// Lets go of what a huge value once took.
    pub(super) fn shrink_to(&mut self, capacity: usize) {
        for buffer in &mut self.free {
            buffer.clear();
            buffer.shrink_to(capacity);
        }
    }
}

fn put_nullable_text(
    kind: &ValueKind,
    value: Option<&[u8]>,
    buffers: &mut Buffers,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    match value {
        None => {
            out.push(0);
            Ok(())
        }
        Some(value) => {
            out.push(2);
            put_text(kind, value, buffers, out)
        }
    }
}

fn put_nullable_binary(kind: &ValueKind, value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), ValueError> {
    match value {
        None => {
            out.push(0);
            Ok(())
        }
        Some(value) => {
            out.push(2);
            put_binary(kind, value, out)
        }
    }
}

/// Appends items, and what stands around them.
pub(super) fn put_block(
    count: usize,
    out: &mut Vec<u8>,
    items: impl FnOnce(&mut Vec<u8>) -> Result<(), ValueError>,
) -> Result<(), ValueError> {
    if count > 0 {
        put_length(count, out);
        items(out)?;
    }
    out.push(0);
    Ok(())
}

/// Appends an array that came as text.
#[inline(never)]
pub(super) fn array_from_text(
    kind: &ArrayKind,
    value: &[u8],
    buffers: &mut Buffers,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    let elements = array::elements_from_text(value, kind.delimiter)?;
    put_block(elements.remaining()?, out, |out| {
        let mut buffer = buffers.take();
        for element in elements {
            put_nullable_text(&kind.element, element?.value(&mut buffer), buffers, out)?;
        }
        buffers.put_back(buffer);
        Ok(())
    })
}

/// Appends an array that came in its binary form.
#[inline(never)]
pub(super) fn array_from_binary(kind: &ArrayKind, value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let elements = array::elements_from_binary(value, kind.oid)?;
    put_block(elements.remaining(), out, |out| {
        for element in elements {
            put_nullable_binary(&kind.element, element?, out)?;
        }
        Ok(())
    })
}

/// Appends a composite value that came as text.
#[inline(never)]
pub(super) fn composite_from_text(
    kind: &CompositeKind,
    value: &[u8],
    buffers: &mut Buffers,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    if kind.attributes.is_empty() {
        return if value == b"()" {
            Ok(())
        } else {
            Err(ValueError::Attributes)
        };
    }
    let mut pieces = composite::attributes_from_text(value)?;
    let mut buffer = buffers.take();
    for attribute in &kind.attributes {
        let piece = pieces.next().ok_or(ValueError::Attributes)??;
        put_nullable_text(&attribute.kind, piece.value(&mut buffer), buffers, out)
            .map_err(|error| attributes_or(error, kind, value))?;
    }
    buffers.put_back(buffer);
    match pieces.next() {
        None => Ok(()),
        Some(_) => Err(ValueError::Attributes),
    }
}

/// A value that has more attributes than its type, or fewer, is at fault for that, whatever the first difference looks like.
#[cold]
fn attributes_or(error: ValueError, kind: &CompositeKind, value: &[u8]) -> ValueError {
    let count = composite::attributes_from_text(value)
        .and_then(|mut pieces| pieces.try_fold(0usize, |count, piece| piece.map(|_| count.saturating_add(1))));
    match count {
        Ok(count) if count != kind.attributes.len() => ValueError::Attributes,
        _ => error,
    }
}

/// Appends a composite value that came in its binary form.
#[inline(never)]
pub(super) fn composite_from_binary(kind: &CompositeKind, value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let values = composite::attributes_from_binary(value)?;
    if values.remaining() != kind.attributes.len() {
        return Err(ValueError::Attributes);
    }
    for (attribute, value) in kind.attributes.iter().zip(values) {
        let (ty, value) = value?;
        if ty != attribute.oid {
            return Err(ValueError::Attributes);
        }
        put_nullable_binary(&attribute.kind, value, out)?;
    }
    Ok(())
}

/// Appends an hstore that came as text.
#[inline(never)]
pub(super) fn hstore_from_text(value: &[u8], buffers: &mut Buffers, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let pairs = hstore::pairs_from_text(value);
    put_block(pairs.remaining()?, out, |out| {
        let mut buffer = buffers.take();
        for pair in pairs {
            let (key, value) = pair?;
            put_key(key.value(&mut buffer).unwrap_or_default(), out)?;
            put_nullable_text(&ValueKind::Text, value.value(&mut buffer), buffers, out)?;
        }
        buffers.put_back(buffer);
        Ok(())
    })
}

/// Appends an hstore that came in its binary form.
#[inline(never)]
pub(super) fn hstore_from_binary(value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let pairs = hstore::pairs_from_binary(value)?;
    put_block(pairs.remaining(), out, |out| {
        for pair in pairs {
            let (key, value) = pair?;
            put_key(key, out)?;
            put_nullable_binary(&ValueKind::Text, value, out)?;
        }
        Ok(())
    })
}

fn put_key(key: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    put_bytes(text::checked(key)?, out);
    Ok(())
}

/// Appends a vector that came as text.
#[inline(never)]
pub(super) fn vector_from_text(value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let numbers = vector::numbers_from_text(value)?;
    put_numbers(numbers.remaining(), numbers, out)
}

/// Appends a vector that came in its binary form.
#[inline(never)]
pub(super) fn vector_from_binary(value: &[u8], width: Width, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let numbers = vector::numbers_from_binary(value, width)?;
    put_numbers(numbers.remaining(), numbers, out)
}

fn put_numbers(
    count: usize,
    numbers: impl Iterator<Item = Result<f32, ValueError>>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    put_block(count, out, |out| {
        for number in numbers {
            out.extend_from_slice(&number?.to_le_bytes());
        }
        Ok(())
    })
}
