//! Log sequence numbers.
//!
//! An LSN is a byte position in the write-ahead log, an unsigned 64-bit number. Postgres writes it as two
//! hexadecimal halves, `16/B374D848` (manual, section 8.20 "pg_lsn Type"). As text the halves are not padded, so
//! text must never be compared; as a signed number half of the space would sort backwards.

use std::fmt;
use std::str::FromStr;

/// A position in the write-ahead log.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Lsn(u64);

impl Lsn {
    /// `0/0`, which Postgres calls invalid: no record stands there.
    pub const ZERO: Lsn = Lsn(0);

    /// The LSN at this byte position.
    pub const fn new(position: u64) -> Self {
        Lsn(position)
    }

    /// The byte position.
    pub const fn as_u64(self) -> u64 {
        self.0
    }

    /// Whether this is `0/0`.
    pub const fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Bytes of log from `earlier` to here; zero if `earlier` is in fact later.
    pub const fn bytes_since(self, earlier: Lsn) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl fmt::Display for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:X}/{:X}", self.0 >> 32, self.0 & 0xFFFF_FFFF)
    }
}

impl fmt::Debug for Lsn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lsn({self})")
    }
}

/// Text that is not an LSN.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not an LSN: expected two hexadecimal numbers of up to 8 digits, such as 16/B374D848")]
pub struct ParseLsnError(String);

impl FromStr for Lsn {
    type Err = ParseLsnError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let half = |digits: &str| {
            let plausible = (1..=8).contains(&digits.len()) && digits.bytes().all(|b| b.is_ascii_hexdigit());
            plausible.then(|| u64::from_str_radix(digits, 16).ok()).flatten()
        };
        text.split_once('/')
            .and_then(|(high, low)| Some(Lsn(half(high)? << 32 | half(low)?)))
            .ok_or_else(|| ParseLsnError(text.to_owned()))
    }
}

impl serde::Serialize for Lsn {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn text_is_two_unpadded_hexadecimal_halves() {
        assert_eq!(Lsn::new(0x16_B374_D848).to_string(), "16/B374D848");
        assert_eq!(Lsn::new(0x1_0000_000A).to_string(), "1/A");
        assert_eq!(Lsn::ZERO.to_string(), "0/0");
    }

    #[test]
    fn text_that_is_not_an_lsn_is_refused() {
        for text in [
            "",
            "/",
            "1",
            "1/",
            "/1",
            "1/2/3",
            "G/0",
            "123456789/0",
            "0/123456789",
            "+1/0",
            "-1/0",
            " 1/0",
        ] {
            assert!(text.parse::<Lsn>().is_err(), "{text:?} was accepted");
        }
    }

    #[test]
    fn the_order_is_unsigned_and_not_that_of_text() {
        assert!("9/0".parse::<Lsn>().unwrap() < "10/0".parse::<Lsn>().unwrap());
        assert!(Lsn::new(u64::MAX) > Lsn::new(1));
    }

    proptest! {
        #[test]
        fn every_lsn_survives_its_text(position: u64) {
            prop_assert_eq!(Lsn::new(position).to_string().parse::<Lsn>().unwrap(), Lsn::new(position));
        }
    }
}
