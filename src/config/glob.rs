//! Patterns over `schema.table` and `schema.table.column`, read as psql reads them.
//!
//! `*` is any number of characters, `?` is one. Letters are folded to lower case, as SQL folds a name, except between
//! double quotes, where every character stands for itself (manual, psql, "Patterns"); `""` inside quotes is a quote.

/// Why a pattern cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PatternError {
    /// There is nothing before or after a dot, or nothing at all.
    #[error("has an empty name")]
    Empty,
    /// One name only.
    #[error("names no schema: write schema.table, such as public.orders or public.*")]
    NoSchema,
    /// More than two names.
    #[error("has more than one dot: put a name that contains a dot in double quotes")]
    TooManyNames,
    /// Not three names.
    #[error("names no column: write schema.table.column, with a name that contains a dot in double quotes")]
    NotAColumn,
    /// A quote was opened and not closed.
    #[error("has a double quote that is never closed")]
    OpenQuote,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    Char(char),
    One,
    Many,
}

/// A pattern over schema and table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TablePattern {
    schema: Vec<Token>,
    table: Vec<Token>,
}

impl TablePattern {
    /// Reads `schema.table`.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let mut names = names(text)?.into_iter();
        match (names.next(), names.next(), names.next()) {
            (Some(schema), Some(table), None) if !schema.is_empty() && !table.is_empty() => Ok(Self { schema, table }),
            (Some(name), None, None) if !name.is_empty() => Err(PatternError::NoSchema),
            (_, _, Some(_)) => Err(PatternError::TooManyNames),
            _ => Err(PatternError::Empty),
        }
    }

    /// Whether it covers the table.
    pub fn matches(&self, schema: &str, table: &str) -> bool {
        covers(&self.schema, schema) && covers(&self.table, table)
    }
}

/// A pattern over schema, table and column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColumnPattern {
    table: TablePattern,
    column: Vec<Token>,
}

impl ColumnPattern {
    /// Reads `schema.table.column`.
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        let names: [Vec<Token>; 3] = names(text)?.try_into().map_err(|_| PatternError::NotAColumn)?;
        if names.iter().any(Vec::is_empty) {
            return Err(PatternError::Empty);
        }
        let [schema, table, column] = names;
        Ok(Self {
            table: TablePattern { schema, table },
            column,
        })
    }

    /// Whether it covers the column.
    pub fn matches(&self, schema: &str, table: &str, column: &str) -> bool {
        self.table.matches(schema, table) && covers(&self.column, column)
    }

    /// Whether it is the name of one column.
    pub fn is_exact(&self) -> bool {
        [&self.table.schema, &self.table.table, &self.column]
            .into_iter()
            .flatten()
            .all(|token| matches!(token, Token::Char(_)))
    }
}

/// The names between the dots.
fn names(text: &str) -> Result<Vec<Vec<Token>>, PatternError> {
    let mut names: Vec<Vec<Token>> = vec![Vec::new()];
    let mut quoted = false;
    let mut chars = text.trim().chars().peekable();
    while let Some(c) = chars.next() {
        let token = match (c, quoted) {
            ('"', true) if chars.peek() == Some(&'"') => {
                chars.next();
                Token::Char('"')
            }
            ('"', _) => {
                quoted = !quoted;
                continue;
            }
            (c, true) => Token::Char(c),
            ('.', false) => {
                names.push(Vec::new());
                continue;
            }
            ('*', false) => Token::Many,
            ('?', false) => Token::One,
            // The server folds ASCII only in most encodings' locales; so does this.
            (c, false) => Token::Char(c.to_ascii_lowercase()),
        };
        if let Some(name) = names.last_mut() {
            name.push(token);
        }
    }
    match quoted {
        true => Err(PatternError::OpenQuote),
        false => Ok(names),
    }
}

/// Matches with one place to come back to (the last `*`), so that the time is at most the product of the lengths.
fn covers(pattern: &[Token], name: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let (mut at, mut token) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while let Some(&c) = name.get(at) {
        match pattern.get(token) {
            Some(Token::Many) => {
                retry = Some((at, token));
                token += 1;
                continue;
            }
            Some(Token::One) => {
                at += 1;
                token += 1;
                continue;
            }
            Some(Token::Char(expected)) if *expected == c => {
                at += 1;
                token += 1;
                continue;
            }
            _ => {}
        }
        match retry {
            Some((start, many)) => {
                retry = Some((start + 1, many));
                at = start + 1;
                token = many + 1;
            }
            None => return false,
        }
    }
    pattern
        .get(token..)
        .is_some_and(|rest| rest.iter().all(|token| *token == Token::Many))
}

/// The tables that one list of patterns covers and another does not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableFilter {
    include: Vec<TablePattern>,
    exclude: Vec<TablePattern>,
}

impl TableFilter {
    /// Reads both lists; the error comes with the pattern that it is about.
    pub fn parse(include: &[String], exclude: &[String]) -> Result<Self, (String, PatternError)> {
        let read = |list: &[String]| -> Result<Vec<TablePattern>, (String, PatternError)> {
            list.iter()
                .map(|text| TablePattern::parse(text).map_err(|error| (text.clone(), error)))
                .collect()
        };
        Ok(Self {
            include: read(include)?,
            exclude: read(exclude)?,
        })
    }

    /// Whether the table is covered by a pattern of the first list and by none of the second.
    pub fn matches(&self, schema: &str, table: &str) -> bool {
        self.include.iter().any(|pattern| pattern.matches(schema, table))
            && !self.exclude.iter().any(|pattern| pattern.matches(schema, table))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(pattern: &str, schema: &str, table: &str) -> bool {
        TablePattern::parse(pattern).unwrap().matches(schema, table)
    }

    #[test]
    fn stars_and_question_marks_stand_for_characters() {
        assert!(matches("public.*", "public", "orders"));
        assert!(!matches("public.*", "audit", "orders"));
        assert!(matches("*.*", "audit", "log"));
        assert!(matches("public.order?", "public", "orders"));
        assert!(!matches("public.order?", "public", "order"));
        assert!(matches("p*c.o*r*s", "public", "orders"));
        assert!(!matches("public.orders", "public", "orders_old"));
        assert!(matches("public.größ*", "public", "größe"));
        assert!(matches("public.a**", "public", "a"));
    }

    #[test]
    fn unquoted_letters_fold_and_quoted_ones_do_not() {
        assert!(matches("Public.Orders", "public", "orders"));
        assert!(!matches("public.Orders", "public", "Orders"));
        assert!(matches("public.\"Orders\"", "public", "Orders"));
    }

    #[test]
    fn quoted_dots_stars_and_quotes_stand_for_themselves() {
        assert!(matches("public.\"a.b\"", "public", "a.b"));
        assert!(matches("public.\"a*\"", "public", "a*"));
        assert!(!matches("public.\"a*\"", "public", "ab"));
        assert!(matches("public.\"a\"\"b\"", "public", "a\"b"));
        assert!(matches("public.\"A.\"*", "public", "A.b"));
    }

    #[test]
    fn a_pattern_that_cannot_be_read_says_why() {
        assert_eq!(TablePattern::parse("orders"), Err(PatternError::NoSchema));
        assert_eq!(TablePattern::parse(""), Err(PatternError::Empty));
        assert_eq!(TablePattern::parse("public."), Err(PatternError::Empty));
        assert_eq!(TablePattern::parse(".orders"), Err(PatternError::Empty));
        assert_eq!(
            TablePattern::parse("shop.public.orders"),
            Err(PatternError::TooManyNames)
        );
        assert_eq!(TablePattern::parse("public.\"orders"), Err(PatternError::OpenQuote));
    }

    #[test]
    fn a_column_has_three_names() {
        let covers = |pattern: &str, column: &str| {
            ColumnPattern::parse(pattern)
                .unwrap()
                .matches("public", "users", column)
        };
        assert!(covers("public.users.email", "email"));
        assert!(covers("*.*.e*l", "email"));
        assert!(covers("public.users.\"E.mail\"", "E.mail"));
        assert!(!covers("public.user.email", "email"));
        assert!(!covers("public.users.Email", "Email"));
        for (text, error) in [
            ("users.email", PatternError::NotAColumn),
            ("shop.public.users.email", PatternError::NotAColumn),
            ("public..email", PatternError::Empty),
            ("public.users.\"email", PatternError::OpenQuote),
        ] {
            assert_eq!(ColumnPattern::parse(text), Err(error), "{text}");
        }
    }

    #[test]
    fn a_pattern_is_exact_unless_a_character_stands_for_others() {
        let is_exact = |pattern| ColumnPattern::parse(pattern).unwrap().is_exact();
        assert!(is_exact("public.users.email"));
        assert!(is_exact("public.users.\"*\""));
        assert!(!is_exact("public.*.email"));
        assert!(!is_exact("public.users.e?ail"));
    }

    #[test]
    fn an_excluded_table_is_left_out() {
        let filter = TableFilter::parse(&["public.*".to_owned()], &["public.tmp_*".to_owned()]).unwrap();
        assert!(filter.matches("public", "orders"));
        assert!(!filter.matches("public", "tmp_orders"));
        assert_eq!(
            TableFilter::parse(&["public.*".to_owned()], &["orders".to_owned()]),
            Err(("orders".to_owned(), PatternError::NoSchema))
        );
    }

    proptest::proptest! {
        #[test]
        fn no_pattern_panics(pattern in ".{0,40}", schema in ".{0,10}", table in ".{0,20}") {
            if let Ok(pattern) = TablePattern::parse(&pattern) {
                pattern.matches(&schema, &table);
            }
        }

        #[test]
        fn a_quoted_name_matches_itself(schema in ".{1,10}", table in ".{1,20}") {
            let quote = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
            let pattern = TablePattern::parse(&format!("{}.{}", quote(&schema), quote(&table))).unwrap();
            proptest::prop_assert!(pattern.matches(&schema, &table));
        }
    }
}
