//! `hstore` as JSON.
//!
//! The pairs stand in the order in which a Java `HashMap` gives them: by bucket, and within a bucket as they came. The text
//! is that of Jackson: no white space, a backslash before quotation marks and backslashes, control characters escaped, all else as
//! it is.

use crate::row::{ValueError, hstore, text};

use super::super::nested::Buffers;

/// A pair as texts.
struct Pair {
    key: String,
    value: Option<String>,
}

/// Appends the JSON of an hstore in text.
pub(super) fn json_from_text(value: &[u8], buffers: &mut Buffers, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut buffer = buffers.take();
    let mut pairs = Vec::new();
    for pair in hstore::pairs_from_text(value) {
        let (key, value) = pair?;
        pairs.push(Pair {
            key: owned(key.value(&mut buffer).unwrap_or_default())?,
            value: value.value(&mut buffer).map(owned).transpose()?,
        });
    }
    buffers.put_back(buffer);
    put_json(pairs, out);
    Ok(())
}

/// Appends the JSON of an hstore in its binary form.
pub(super) fn json_from_binary(value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut pairs = Vec::new();
    for pair in hstore::pairs_from_binary(value)? {
        let (key, value) = pair?;
        pairs.push(Pair {
            key: owned(key)?,
            value: value.map(owned).transpose()?,
        });
    }
    put_json(pairs, out);
    Ok(())
}

fn owned(bytes: &[u8]) -> Result<String, ValueError> {
    text::utf8(bytes).map(str::to_owned)
}

fn put_json(mut pairs: Vec<Pair>, out: &mut Vec<u8>) {
    let buckets = buckets(pairs.len());
    pairs.sort_by_cached_key(|pair| bucket(&pair.key, buckets));
    out.push(b'{');
    for (at, pair) in pairs.iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        put_string(&pair.key, out);
        out.push(b':');
        match &pair.value {
            Some(value) => put_string(value, out),
            None => out.extend_from_slice(b"null"),
        }
    }
    out.push(b'}');
}

/// How many buckets a `HashMap` has that so many entries were put into: 16, doubled whenever more than three quarters are full.
fn buckets(entries: usize) -> u32 {
    let mut buckets = 16u32;
    while usize::try_from(buckets.wrapping_div(4).wrapping_mul(3)).is_ok_and(|limit| entries > limit)
        && buckets < 1 << 30
    {
        buckets = buckets.wrapping_mul(2);
    }
    buckets
}

fn bucket(key: &str, buckets: u32) -> u32 {
    // String.hashCode, its upper half folded into the lower.
    let hash = key
        .encode_utf16()
        .fold(0u32, |hash, unit| hash.wrapping_mul(31).wrapping_add(u32::from(unit)));
    (hash ^ hash.wrapping_shr(16)) & buckets.wrapping_sub(1)
}

fn put_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..=0x1f => out.extend_from_slice(format!("\\u{byte:04X}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(text: &str) -> String {
        let mut out = Vec::new();
        json_from_text(text.as_bytes(), &mut Buffers::default(), &mut out).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn pairs_stand_in_the_order_of_a_hash_map() {
        assert_eq!(json(""), "{}");
        assert_eq!(json(r#""a"=>"1", "b"=>NULL"#), r#"{"a":"1","b":null}"#);
        // "Aa" and "BB" have one hash; it and that of "p" fall into bucket 0, that of "q" into bucket 1.
        assert_eq!(
            json(r#""q"=>"3", "BB"=>"2", "Aa"=>"1", "p"=>"4""#),
            r#"{"BB":"2","Aa":"1","p":"4","q":"3"}"#
        );
    }

    #[test]
    fn texts_are_escaped_as_jackson_does() {
        assert_eq!(
            json("\"q\\\"\\\\\"=>\"line\nbreak\t\u{1}\u{1f}/ü\""),
            r#"{"q\"\\":"line\nbreak\t\u0001\u001F/ü"}"#
        );
    }
}
