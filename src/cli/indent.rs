//! JSON text for people: what fits on a line stands on one, the rest is indented. Nothing is moved: the order of fields
//! is a part of an Avro schema.

/// What a line may hold.
const WIDTH: usize = 100;

/// Breaks JSON text without white space into lines. Other text comes back as it is, in some shape.
pub(super) fn indent(json: &str) -> String {
    let mut out = String::new();
    put(json, 0, &mut out);
    out
}

/// Writes one value, `depth` levels in.
fn put(value: &str, depth: usize, out: &mut String) {
    let inner = match value.as_bytes() {
        [b'{', .., b'}'] | [b'[', .., b']'] => value.get(1..value.len().saturating_sub(1)),
        _ => None,
    };
    let line = one_line(value);
    let Some(inner) = inner.filter(|inner| !inner.is_empty() && line.len() + 2 * depth > WIDTH) else {
        out.push_str(&line);
        return;
    };
    out.push_str(&value[..1]);
    for (index, member) in members(inner).enumerate() {
        if index > 0 {
            out.push(',');
        }
        out.push('\n');
        out.push_str(&"  ".repeat(depth + 1));
        match key_and_value(member) {
            Some((key, value)) => {
                out.push_str(key);
                out.push_str(": ");
                put(value, depth + 1, out);
            }
            None => put(member, depth + 1, out),
        }
    }
    out.push('\n');
    out.push_str(&"  ".repeat(depth));
    out.push_str(&value[value.len() - 1..]);
}

/// Where a text is not inside of a string: each such character with its place and the depth of brackets there, after it.
fn structure(text: &str) -> impl Iterator<Item = (usize, char, usize)> + '_ {
    let (mut quoted, mut escaped, mut depth) = (false, false, 0usize);
    text.char_indices().filter_map(move |(at, c)| {
        if quoted {
            quoted = escaped || c != '"';
            escaped = c == '\\' && !escaped;
            return None;
        }
        match c {
            '"' => quoted = true,
            '{' | '[' => depth += 1,
            '}' | ']' => depth = depth.saturating_sub(1),
            _ => {}
        }
        Some((at, c, depth))
    })
}

/// The parts between the commas.
fn members(inner: &str) -> impl Iterator<Item = &str> {
    let commas = structure(inner).filter(|(_, c, depth)| *c == ',' && *depth == 0);
    let mut start = 0;
    let ends: Vec<usize> = commas.map(|(at, ..)| at).chain([inner.len()]).collect();
    ends.into_iter().map(move |end| {
        let member = inner.get(start..end).unwrap_or_default();
        start = end + 1;
        member
    })
}

fn key_and_value(member: &str) -> Option<(&str, &str)> {
    let (at, ..) = structure(member).find(|(_, c, depth)| *c == ':' && *depth == 0)?;
    Some((member.get(..at)?, member.get(at + 1..)?))
}

/// The whole on one line, with a space where one helps.
fn one_line(value: &str) -> String {
    let mut line = String::with_capacity(value.len() + 16);
    let mut end = 0;
    let mut before = '\0';
    for (at, c, _) in structure(value) {
        line.push_str(value.get(end..at).unwrap_or_default());
        let opens_nothing = (before, c) == ('{', '}');
        if c == '}' && !opens_nothing {
            line.push(' ');
        }
        line.push(c);
        if matches!(c, ',' | ':') || (c == '{' && value.as_bytes().get(at + 1) != Some(&b'}')) {
            line.push(' ');
        }
        before = c;
        end = at + c.len_utf8();
    }
    line.push_str(value.get(end..).unwrap_or_default());
    line
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::Value;

    #[test]
    fn what_fits_stands_on_a_line_and_the_rest_is_indented() {
        let schema = concat!(
            r#"{"type":"record","name":"Value","namespace":"shop.public.orders","fields":["#,
            r#"{"name":"id","type":"int"},{"name":"a","type":["null","string"],"default":null,"walferry.name":"{\"a\": [1]}"}],"#,
            r#""walferry.table":"orders","empty":{},"none":[]}"#
        );
        assert_eq!(
            indent(schema),
            r#"{
  "type": "record",
  "name": "Value",
  "namespace": "shop.public.orders",
  "fields": [
    { "name": "id", "type": "int" },
    { "name": "a", "type": ["null", "string"], "default": null, "walferry.name": "{\"a\": [1]}" }
  ],
  "walferry.table": "orders",
  "empty": {},
  "none": []
}"#
        );
    }

    /// The white space that stands outside of strings, gone.
    fn without_space(text: &str) -> String {
        let (mut quoted, mut escaped) = (false, false);
        let kept = text.chars().filter(|c| {
            let keep = quoted || !c.is_whitespace();
            if quoted {
                quoted = escaped || *c != '"';
                escaped = *c == '\\' && !escaped;
            } else if *c == '"' {
                quoted = true;
            }
            keep
        });
        kept.collect()
    }

    fn json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i32>().prop_map(Value::from),
            "([a\"\\\\{}\\[\\],: ö]|\\PC){0,30}".prop_map(Value::from),
        ];
        leaf.prop_recursive(5, 60, 6, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
                prop::collection::btree_map("[a\"\\\\:{ ]{0,8}", inner, 0..6)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn only_white_space_is_added(value in json()) {
            let text = value.to_string();
            prop_assert_eq!(without_space(&indent(&text)), text);
        }

        #[test]
        fn no_text_panics(text in "[{}\\[\\]\",:a\\\\ö]{0,200}") {
            let _ = indent(&text);
        }
    }
}
