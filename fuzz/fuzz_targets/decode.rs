//! No input panics, and whatever is accepted is accepted whole: written again it gives the same bytes.
//!
//! `cargo fuzz run decode`; on a stable toolchain `cargo fuzz run --sanitizer none decode`. The first byte of an input chooses how
//! the rest is to be read. `fuzz/seed` makes a corpus of the recorded messages.
#![no_main]

use libfuzzer_sys::fuzz_target;
use walferry::pgoutput;

#[path = "../../src/pgoutput/tests/encode.rs"]
mod encode;

fuzz_target!(|input: &[u8]| {
    let Some((choice, bytes)) = input.split_first() else { return };
    let context = pgoutput::Context {
        protocol_version: u32::from(choice & 3) + 1,
        in_stream: choice & 4 != 0,
        parallel_streaming: choice & 8 != 0,
    };
    if let Ok(message) = pgoutput::decode(bytes, context) {
        assert_eq!(encode::encode(&message), bytes);
    }
});
