// Counting and slicing of test data; a panic here is a failed test.
#![allow(clippy::arithmetic_side_effects)]

mod encode;
mod faults;
mod golden;
mod properties;

use super::Context;

/// Every form that a message can be read in.
const CONTEXTS: [Context; 6] = [
    Context {
        protocol_version: 1,
        in_stream: false,
        parallel_streaming: false,
    },
    Context {
        protocol_version: 2,
        in_stream: false,
        parallel_streaming: false,
    },
    Context {
        protocol_version: 2,
        in_stream: true,
        parallel_streaming: false,
    },
    Context {
        protocol_version: 3,
        in_stream: false,
        parallel_streaming: false,
    },
    Context {
        protocol_version: 4,
        in_stream: false,
        parallel_streaming: true,
    },
    Context {
        protocol_version: 4,
        in_stream: true,
        parallel_streaming: true,
    },
];

/// `1`, `4p`, `2s`, `4ps`: the protocol version, then `p` for parallel streaming and `s` within a streamed block.
fn context(flags: &str) -> Context {
    let (version, flags) = flags.split_at(1);
    Context {
        protocol_version: version.parse().unwrap(),
        in_stream: flags.contains('s'),
        parallel_streaming: flags.contains('p'),
    }
}

/// Bytes from hexadecimal digits; white space between them is for the reader.
fn hex(digits: &str) -> Vec<u8> {
    let digits: Vec<u8> = digits.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let (pairs, odd) = digits.as_chunks::<2>();
    assert!(odd.is_empty(), "an odd number of digits");
    pairs
        .iter()
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}
