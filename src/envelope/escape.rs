//! One escape for names that are stricter than SQL's: `_uXXXX`, four upper-case hexadecimal digits for each UTF-16 unit of
//! a character that is not allowed.
//!
//! It is injective. An underscore that begins what would read as an escape (`_u` and four hexadecimal digits of either
//! case) is escaped itself, and the empty name is `_u0000`, as no name of SQL has a NUL in it. So `order-id` is
//! `order_u002Did`, `1st` is `_u0031st`, and a table that is really called `order_u002Did` is `order_u005Fu002Did`.

/// Appends `name`, with every character escaped for which `allowed` says no. It is given the character, and whether it is
/// the first.
pub fn escape_into(name: &str, allowed: impl Fn(char, bool) -> bool, out: &mut String) {
    if name.is_empty() {
        out.push_str("_u0000");
    }
    let mut units = [0; 2];
    for (at, character) in name.char_indices() {
        let reads_as_escape = character == '_' && name.get(at..).is_some_and(begins_with_escape);
        if allowed(character, at == 0) && !reads_as_escape {
            out.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut units) {
            out.push_str(&format!("_u{unit:04X}"));
        }
    }
}

fn begins_with_escape(text: &str) -> bool {
    text.strip_prefix("_u")
        .is_some_and(|rest| rest.len() >= 4 && rest.bytes().take(4).all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
pub(crate) mod tests {
    /// Reads escapes back; what `escape_into` wrote gives the name again.
    pub(crate) fn unescape(escaped: &str) -> String {
        let mut units = Vec::new();
        let mut rest = escaped;
        while let Some(character) = rest.chars().next() {
            if super::begins_with_escape(rest) {
                units.push(u16::from_str_radix(&rest[2..6], 16).unwrap());
                rest = &rest[6..];
            } else {
                units.extend_from_slice(character.encode_utf16(&mut [0; 2]));
                rest = &rest[character.len_utf8()..];
            }
        }
        let name = String::from_utf16(&units).unwrap();
        if name == "\0" { String::new() } else { name }
    }
}
