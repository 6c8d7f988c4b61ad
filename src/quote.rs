//! Names and values, written so that SQL takes them for what they are (manual, section 4.1 "Lexical Structure").

/// An identifier, in double quotes.
pub fn quote_identifier(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A table's name with its schema's.
pub fn qualified(schema: &str, name: &str) -> String {
    format!("{}.{}", quote_identifier(schema), quote_identifier(name))
}

/// A string constant that means the same whatever `standard_conforming_strings` is: with a backslash in it, it says itself that
/// backslashes are escapes.
pub fn quote_literal(value: &str) -> String {
    let quoted = value.replace('\'', "''");
    match quoted.contains('\\') {
        true => format!("E'{}'", quoted.replace('\\', "\\\\")),
        false => format!("'{quoted}'"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_quoted() {
        assert_eq!(quote_identifier("a\"b"), "\"a\"\"b\"");
        assert_eq!(quote_identifier("a'b\\"), "\"a'b\\\"");
    }

    #[test]
    fn literals_are_quoted_whatever_backslashes_mean() {
        assert_eq!(quote_literal(""), "''");
        assert_eq!(quote_literal("a'b"), "'a''b'");
        assert_eq!(quote_literal("a\\"), "E'a\\\\'");
        assert_eq!(quote_literal("\\'; DROP TABLE t; --"), "E'\\\\''; DROP TABLE t; --'");
    }
}
