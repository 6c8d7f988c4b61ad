//! Values that are texts with rules of their own.

use fastrand::Rng;

pub const EDGES: &[&str] = &[
    "",
    " ",
    "NULL",
    "null",
    "\\N",
    "{}",
    "()",
    "\"",
    "'",
    "\\",
    "\t\r\n",
    "größe 渡し船 🚢",
    "e\u{301}",
];

const PIECES: &[&str] = &[
    "a",
    "Z",
    "0",
    "ö",
    "渡",
    "🚢",
    "e\u{301}",
    " ",
    "\t",
    "\n",
    "\r",
    "\u{b}",
    "\u{c}",
    "\"",
    "'",
    "\\",
    "{",
    "}",
    "(",
    ")",
    "[",
    "]",
    ",",
    ";",
    ":",
    "=>",
    "NULL",
    "\\N",
    "\\.",
    "$1",
    "%",
    "\u{1}",
    "\u{7f}",
    "\u{a0}",
    "\u{feff}",
    "\u{10ffff}",
    "--",
    "/*",
    "<&>",
];

fn pieces(rng: &mut Rng, count: usize) -> String {
    (0..count).map(|_| PIECES[rng.usize(..PIECES.len())]).collect()
}

/// Some long enough for TOAST.
pub fn text(rng: &mut Rng) -> String {
    let count = match rng.u32(..20) {
        0 => rng.usize(1_000..4_000),
        _ => rng.usize(..12),
    };
    pieces(rng, count)
}

/// At most so many characters.
pub fn short(rng: &mut Rng, characters: usize) -> String {
    let count = rng.usize(..characters);
    pieces(rng, count).chars().take(characters).collect()
}

pub const JSON: &[&str] = &[
    "null",
    " {\"a\": 1,  \"a\": 2} ",
    "\"\\u0000\"",
    "[9007199254740993, 12345678901234567890.0123456789, 1e999999, -0, 1.10]",
    "\"\\ud83d\\udea2 \\/ \\u00e9\"",
    "{\"\": {}}",
    "\"größe 🚢\"",
    "[]",
];

pub const JSONB: &[&str] = &[
    "null",
    " {\"b\": 1,  \"a\": 2, \"a\": 1e2} ",
    "[9007199254740993, 12345678901234567890.0123456789, 1e400, -0, 1.10, -0.0]",
    "\"\\ud83d\\udea2 \\/ \\u00e9 \\u0001\"",
    "{\"\": {}}",
    "[]",
];

/// Of so many levels; `nul`: with `\u0000`, which jsonb refuses.
pub fn json(rng: &mut Rng, levels: u32, nul: bool) -> String {
    let kinds = if levels == 0 { 4 } else { 6 };
    match rng.u32(..kinds) {
        0 => ["null", "true", "false"][rng.usize(..3)].to_owned(),
        1 => rng.i64(..).to_string(),
        2 => format!("{}.{}E{}", rng.i32(..), rng.u32(..), rng.i16(-99..99)),
        3 => json_string(rng, nul),
        4 => {
            let items: Vec<String> = (0..rng.usize(..4)).map(|_| json(rng, levels - 1, nul)).collect();
            format!("[{}]", items.join([",", ", ", " ,\n\t"][rng.usize(..3)]))
        }
        _ => {
            let pairs: Vec<String> = (0..rng.usize(..4))
                .map(|_| format!("{} :{}", json_string(rng, nul), json(rng, levels - 1, nul)))
                .collect();
            format!("{{{}}}", pairs.join(", "))
        }
    }
}

fn json_string(rng: &mut Rng, nul: bool) -> String {
    let count = rng.usize(..6);
    let mut out = String::from("\"");
    for character in pieces(rng, count).chars() {
        match character {
            '"' | '\\' => out.extend(['\\', character]),
            '\0'..='\x1f' => out.push_str(&format!("\\u{:04x}", u32::from(character))),
            'a' => out.push_str("\\u0061"),
            _ => out.push(character),
        }
    }
    if nul && rng.u32(..5) == 0 {
        out.push_str("\\u0000");
    }
    out.push('"');
    out
}

pub const JSONPATHS: &[&str] = &[
    "$",
    "strict $.\"x y\"[*]",
    "$.a[*] ? (@.b > 1 && exists(@.c))",
    "$.* ? (@ like_regex \"^a\\\\\\\\\" flag \"i\")",
    "($.a + 1).size()",
    "$.größe ? (@ == \"ü\")",
];

pub const XML: &[&str] = &[
    "<a/>",
    "<?xml version=\"1.0\" encoding=\"UTF-8\"?><größe a=\"1\">ü</größe>",
    "text alone",
    "<a><![CDATA[ <&> ]]></a><!-- two roots --><b/>",
];

pub fn xml(rng: &mut Rng) -> String {
    let count = rng.usize(..10);
    let content: String = pieces(rng, count)
        .chars()
        .filter(|character| !matches!(character, '\0'..='\x08' | '\x0b' | '\x0c' | '\x0e'..='\x1f'))
        .flat_map(|character| match character {
            '<' => "&lt;".chars().collect::<Vec<_>>(),
            '>' => "&gt;".chars().collect(),
            '&' => "&amp;".chars().collect(),
            '"' => "&quot;".chars().collect(),
            other => vec![other],
        })
        .collect();
    format!("<e a=\"{content}\">{content}</e>")
}

pub const TSVECTORS: &[&str] = &[
    "",
    "'a':1A,2B,3C,4 'b\\\\c' 'it''s':5 'sp ace':16383",
    "a b c",
    "':':1 ',':2",
];

fn lexeme(rng: &mut Rng) -> String {
    let count = rng.usize(1..4);
    let text = pieces(rng, count);
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

pub fn tsvector(rng: &mut Rng) -> String {
    let lexemes: Vec<String> = (0..rng.usize(..6))
        .map(|_| {
            let places: Vec<String> = (0..rng.usize(..4))
                .map(|_| format!("{}{}", rng.u32(1..16_384), ["", "A", "B", "C", "D"][rng.usize(..5)]))
                .collect();
            match places.as_slice() {
                [] => lexeme(rng),
                _ => format!("{}:{}", lexeme(rng), places.join(",")),
            }
        })
        .collect();
    lexemes.join(" ")
}

pub const TSQUERIES: &[&str] = &[
    "",
    "'a' & 'b' | !'c'",
    "'a' & ( 'b' | 'c' )",
    "'a' <-> 'b' <3> 'c'",
    "'a' <-> ( 'b' <-> 'c' )",
    "'it''s':*AB & 'b\\\\c'",
    "!!'a'",
    "!( 'a' <0> 'b' )",
];

/// Of so many levels. The right operand of `&` is no other `&`, nor is it so with `|`: Postgres prints these without
/// parentheses, and reads them as another tree.
pub fn tsquery(rng: &mut Rng, levels: u32) -> String {
    tsquery_but(rng, levels, "")
}

fn tsquery_but(rng: &mut Rng, levels: u32, not: &str) -> String {
    let operator = match rng.u32(..if levels == 0 { 2 } else { 8 }) {
        0 => return lexeme(rng),
        1 => {
            let prefix = if rng.bool() { "*" } else { "" };
            return format!("{}:{prefix}{}", lexeme(rng), ["A", "BD", "CA", "ABCD"][rng.usize(..4)]);
        }
        2 => return format!("!( {} )", tsquery(rng, levels - 1)),
        3 => "<->".to_owned(),
        4 => format!("<{}>", rng.u32(..16_384)),
        5 if not != "&" => "&".to_owned(),
        6 if not != "|" => "|".to_owned(),
        _ => return lexeme(rng),
    };
    let (left, right) = (tsquery(rng, levels - 1), tsquery_but(rng, levels - 1, &operator));
    format!("( {left} ) {operator} ( {right} )")
}

pub fn hstore(rng: &mut Rng) -> String {
    let quoted = |text: String| format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\""));
    let pairs: Vec<String> = (0..rng.usize(..6))
        .map(|_| {
            let (key, value) = (text(rng), (rng.u32(..4) != 0).then(|| text(rng)));
            format!("{}=>{}", quoted(key), value.map_or("NULL".to_owned(), quoted))
        })
        .collect();
    pairs.join(", ")
}

pub fn ltree(rng: &mut Rng) -> String {
    let labels: Vec<String> = (0..rng.usize(1..5))
        .map(|_| (0..rng.usize(1..6)).map(|_| rng.alphanumeric()).collect())
        .collect();
    labels.join(".")
}
