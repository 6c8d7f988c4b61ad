//! `tsvector` and `tsquery` in their binary form, printed as Postgres prints them (manual, section 8.11;
//! `utils/adt/tsvector.c`, `tsquery.c`).

use std::io::Write;

use super::ValueError;
use super::wire::Wire;

/// Appends the text of a `tsvector`: the number of lexemes, then each up to a NUL, with the number of its positions and the
/// positions in two bytes each. The two highest bits of a position are its weight: 3 is A and 0 is D, which is not printed.
pub fn tsvector_text(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut wire = Wire::new(bytes);
    for at in 0..wire.count(3)? {
        if at > 0 {
            out.push(b' ');
        }
        put_lexeme(wire.until_nul()?, out);
        for at in 0..wire.u16()? {
            out.push(if at == 0 { b':' } else { b',' });
            let position = wire.u16()?;
            let _infallible = write!(out, "{}", position & 0x3fff);
            match position.wrapping_shr(14) {
                3 => out.push(b'A'),
                2 => out.push(b'B'),
                1 => out.push(b'C'),
                _ => {}
            }
        }
    }
    wire.end()
}

/// In quotation marks; these and backslashes are doubled.
fn put_lexeme(lexeme: &[u8], out: &mut Vec<u8>) {
    out.push(b'\'');
    for &byte in lexeme {
        if matches!(byte, b'\'' | b'\\') {
            out.push(byte);
        }
        out.push(byte);
    }
    out.push(b'\'');
}

/// A node of a query.
#[derive(Clone, Copy)]
enum Node<'a> {
    Lexeme { weights: u8, prefix: bool, text: &'a [u8] },
    Not,
    And,
    Or,
    Phrase { distance: u16 },
}

impl Node<'_> {
    fn priority(self) -> u8 {
        match self {
            Node::Or => 1,
            Node::And => 2,
            Node::Phrase { .. } => 3,
            Node::Not => 4,
            Node::Lexeme { .. } => 5,
        }
    }
}

/// What is left to print.
#[derive(Debug, Clone, Copy)]
enum Task {
    /// The node at this index, below an operator of this priority; `right_of_phrase`: as the right operand of a phrase.
    Print {
        at: usize,
        parent: u8,
        right_of_phrase: bool,
    },
    /// The operator at this index.
    Operator(usize),
    Close,
}

/// Appends the text of a `tsquery`: the number of nodes, then the nodes in prefix order, the right operand before the left.
/// A lexeme is 1, its weights, whether it is a prefix, and its text up to a NUL; an operator is 2 and which one it is (1 not, 2
/// and, 3 or, 4 phrase, which has its distance in two bytes after it).
pub fn tsquery_text(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut wire = Wire::new(bytes);
    let count = wire.count(2)?;
    let mut nodes = Vec::with_capacity(count);
    for _ in 0..count {
        nodes.push(node(&mut wire)?);
    }
    wire.end()?;
    if nodes.is_empty() {
        return Ok(());
    }
    let ends = ends(&nodes)?;
    // A stack of its own: how deep a query is nested is the row's choice.
    let mut tasks = vec![Task::Print {
        at: 0,
        parent: 0,
        right_of_phrase: false,
    }];
    while let Some(task) = tasks.pop() {
        let (at, parent, right_of_phrase) = match task {
            Task::Print {
                at,
                parent,
                right_of_phrase,
            } => (at, parent, right_of_phrase),
            Task::Operator(at) => {
                put_operator(nodes.get(at).copied(), out);
                continue;
            }
            Task::Close => {
                out.extend_from_slice(b" )");
                continue;
            }
        };
        let node = nodes.get(at).copied().ok_or(ValueError::Malformed)?;
        let priority = node.priority();
        if let Node::Lexeme { weights, prefix, text } = node {
            put_operand(weights, prefix, text, out);
            continue;
        }
        let is_phrase = matches!(node, Node::Phrase { .. });
        if priority < parent || (is_phrase && right_of_phrase) {
            out.extend_from_slice(b"( ");
            tasks.push(Task::Close);
        }
        let right = at.saturating_add(1);
        if let Node::Not = node {
            out.push(b'!');
            tasks.push(Task::Print {
                at: right,
                parent: priority,
                right_of_phrase: false,
            });
            continue;
        }
        let left = ends.get(right).copied().ok_or(ValueError::Malformed)?;
        tasks.push(Task::Print {
            at: right,
            parent: priority,
            right_of_phrase: is_phrase,
        });
        tasks.push(Task::Operator(at));
        tasks.push(Task::Print {
            at: left,
            parent: priority,
            right_of_phrase: false,
        });
    }
    Ok(())
}

fn node<'a>(wire: &mut Wire<'a>) -> Result<Node<'a>, ValueError> {
    match wire.u8()? {
        1 => {
            let (weights, prefix) = (wire.u8()?, wire.u8()?);
            if weights > 15 {
                return Err(ValueError::Malformed);
            }
            Ok(Node::Lexeme {
                weights,
                prefix: prefix != 0,
                text: wire.until_nul()?,
            })
        }
        2 => match wire.u8()? {
            1 => Ok(Node::Not),
            2 => Ok(Node::And),
            3 => Ok(Node::Or),
            4 => Ok(Node::Phrase { distance: wire.u16()? }),
            _ => Err(ValueError::Malformed),
        },
        _ => Err(ValueError::Malformed),
    }
}

/// For each node, the index behind its last descendant. The whole must be one tree.
fn ends(nodes: &[Node<'_>]) -> Result<Vec<usize>, ValueError> {
    let mut ends = vec![0usize; nodes.len()];
    for (at, node) in nodes.iter().enumerate().rev() {
        let operands = match node {
            Node::Lexeme { .. } => 0,
            Node::Not => 1,
            Node::And | Node::Or | Node::Phrase { .. } => 2,
        };
        let mut end = at.saturating_add(1);
        for _ in 0..operands {
            end = ends.get(end).copied().ok_or(ValueError::Malformed)?;
        }
        if let Some(place) = ends.get_mut(at) {
            *place = end;
        }
    }
    if ends.first() == Some(&nodes.len()) {
        Ok(ends)
    } else {
        Err(ValueError::Malformed)
    }
}

fn put_operator(node: Option<Node<'_>>, out: &mut Vec<u8>) {
    match node {
        Some(Node::And) => out.extend_from_slice(b" & "),
        Some(Node::Or) => out.extend_from_slice(b" | "),
        Some(Node::Phrase { distance: 1 }) => out.extend_from_slice(b" <-> "),
        Some(Node::Phrase { distance }) => {
            let _infallible = write!(out, " <{distance}> ");
        }
        Some(Node::Not | Node::Lexeme { .. }) | None => {}
    }
}

fn put_operand(weights: u8, prefix: bool, text: &[u8], out: &mut Vec<u8>) {
    put_lexeme(text, out);
    if weights == 0 && !prefix {
        return;
    }
    out.push(b':');
    if prefix {
        out.push(b'*');
    }
    for (bit, weight) in [(8, b'A'), (4, b'B'), (2, b'C'), (1, b'D')] {
        if weights & bit != 0 {
            out.push(weight);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::bytes;
    use proptest::prelude::*;

    fn vector(hexadecimal: &str) -> Result<String, ValueError> {
        let mut out = Vec::new();
        tsvector_text(&bytes(hexadecimal), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    fn query(hexadecimal: &str) -> Result<String, ValueError> {
        let mut out = Vec::new();
        tsquery_text(&bytes(hexadecimal), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn vectors_are_printed_as_postgres_does() {
        let sent = "0000000461000004c001800240030004625c630000006974277300000100057370206163650000013fff";
        assert_eq!(
            vector(sent).as_deref(),
            Ok(r"'a':1A,2B,3C,4 'b\\c' 'it''s':5 'sp ace':16383")
        );
        assert_eq!(vector("00000000").as_deref(), Ok(""));
    }

    #[test]
    fn queries_are_printed_as_postgres_does() {
        for (text, sent) in [
            ("'a' & 'b' | !'c'", "00000006020302010100006300020201000062000100006100"),
            ("'a' & ( 'b' | 'c' )", "0000000502020203010000630001000062000100006100"),
            (
                "'a' <-> 'b' <3> 'c'",
                "000000050204000301000063000204000101000062000100006100",
            ),
            (r"'it''s':*AB & 'b\\c'", "000000030202010000625c6300010c016974277300"),
            ("!( 'a' & 'b' )", "000000040201020201000062000100006100"),
            (
                "'a' <-> ( 'b' & 'c' )",
                "00000005020400010202010000630001000062000100006100",
            ),
            ("!!'a'", "00000003020102010100006100"),
            ("'a' | 'b' | 'c'", "0000000502030100006300020301000062000100006100"),
            ("'a' | 'b' | 'c'", "0000000502030203010000630001000062000100006100"),
            (
                "'a' <-> ( 'b' <-> 'c' )",
                "000000050204000102040001010000630001000062000100006100",
            ),
            (
                "'a' <-> 'b' | 'c'",
                "00000005020301000063000204000101000062000100006100",
            ),
            ("", "00000000"),
            ("!'a' <-> 'b'", "0000000402040001010000620002010100006100"),
            (
                "( !'a' & 'b' ) <-> 'c'",
                "000000060204000101000063000202010000620002010100006100",
            ),
        ] {
            assert_eq!(query(sent).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_query_nested_deeper_than_any_stack_is_printed() {
        let depth = 200_000u32;
        let mut sent = (depth + 1).to_be_bytes().to_vec();
        for _ in 0..depth {
            sent.extend([2, 1]);
        }
        sent.extend([1, 0, 0, b'a', 0]);
        let mut out = Vec::new();
        tsquery_text(&sent, &mut out).unwrap();
        assert_eq!(out.len(), 200_003);
    }

    #[test]
    fn anything_else_is_malformed() {
        for sent in [
            "",
            "00000001",
            "ffffffff",
            "7fffffff",
            "0000000161",
            "000000016100",
            "0000000161000001",
            "0000000000",
        ] {
            assert_eq!(vector(sent), Err(ValueError::Malformed), "{sent}");
        }
        for sent in [
            "",
            "000000010201",
            "00000002020201000061",
            "0000000201000061000100006100",
            "000000010301",
            "00000001011000610000",
            "00000001020500",
        ] {
            assert_eq!(query(sent), Err(ValueError::Malformed), "{sent}");
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(noise: Vec<u8>, nodes in "(0201|0202|0203|02040001|0100006100){0,12}", count in 0u8..12) {
            let _ = tsvector_text(&noise, &mut Vec::new());
            let _ = tsquery_text(&noise, &mut Vec::new());
            let _ = query(&format!("000000{count:02x}{nodes}"));
        }
    }
}
