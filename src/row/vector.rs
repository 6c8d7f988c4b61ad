//! pgvector's `vector` and `halfvec` (`src/vector.c`, `src/halfvec.c` there).
//!
//! Text: `[1,2.5,-3]`, each number in the shortest digits that read back as the same `float4`. Binary: the number of
//! dimensions and an unused zero in two bytes each, then the numbers, in IEEE 754 of four bytes or of two.

use super::ValueError;
use super::float::{f32_from_binary, f32_from_text};
use super::wire::Wire;

/// The numbers of a vector in text.
#[derive(Clone)]
pub struct TextNumbers<'a> {
    /// `None`: there are no more.
    rest: Option<&'a [u8]>,
}

/// Opens the text of a vector.
pub fn numbers_from_text(text: &[u8]) -> Result<TextNumbers<'_>, ValueError> {
    match text {
        [b'[', b']'] => Ok(TextNumbers { rest: None }),
        [b'[', inner @ .., b']'] => Ok(TextNumbers { rest: Some(inner) }),
        _ => Err(ValueError::Malformed),
    }
}

impl TextNumbers<'_> {
    /// How many numbers are left.
    pub fn remaining(&self) -> usize {
        self.rest.map_or(0, |rest| {
            rest.iter().filter(|byte| **byte == b',').count().saturating_add(1)
        })
    }
}

impl Iterator for TextNumbers<'_> {
    type Item = Result<f32, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        let text = self.rest.take()?;
        let end = text.iter().position(|byte| *byte == b',');
        let (number, after) = text.split_at_checked(end.unwrap_or(text.len())).unwrap_or((text, &[]));
        self.rest = after.strip_prefix(b",");
        Some(f32_from_text(number))
    }
}

/// How wide the numbers of a binary vector are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Width {
    /// `halfvec`: two bytes.
    Half,
    /// `vector`: four bytes.
    Single,
}

/// The numbers of a vector in its binary form.
#[derive(Clone)]
pub struct BinaryNumbers<'a> {
    wire: Wire<'a>,
    width: Width,
    left: usize,
}

/// Opens the binary form of a vector.
pub fn numbers_from_binary(bytes: &[u8], width: Width) -> Result<BinaryNumbers<'_>, ValueError> {
    let mut wire = Wire::new(bytes);
    let left = usize::from(wire.u16()?);
    let unused = wire.u16()?;
    let size = match width {
        Width::Half => 2,
        Width::Single => 4,
    };
    if unused != 0 || left.checked_mul(size) != Some(wire.len()) {
        return Err(ValueError::Malformed);
    }
    Ok(BinaryNumbers { wire, width, left })
}

impl BinaryNumbers<'_> {
    /// How many numbers are left.
    pub fn remaining(&self) -> usize {
        self.left
    }
}

impl Iterator for BinaryNumbers<'_> {
    type Item = Result<f32, ValueError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        Some(match self.width {
            Width::Half => self.wire.u16().map(half_to_single),
            Width::Single => self.wire.array::<4>().and_then(|bytes| f32_from_binary(&bytes)),
        })
    }
}

/// The same number in four bytes; any NaN becomes the one that the text form gives.
fn half_to_single(bits: u16) -> f32 {
    let sign = u32::from(bits & 0x8000).wrapping_shl(16);
    let exponent = u32::from(bits & 0x7c00).wrapping_shr(10);
    let fraction = u32::from(bits & 0x03ff);
    match exponent {
        // A subnormal number: the fraction in units of 2^-24.
        0 => {
            let magnitude = f32::from(bits & 0x03ff) * f32::from_bits(0x3380_0000);
            f32::from_bits(magnitude.to_bits() | sign)
        }
        0x1f if fraction != 0 => f32::NAN,
        0x1f => f32::from_bits(sign | 0x7f80_0000),
        // The exponents' biases are 15 and 127.
        _ => f32::from_bits(sign | exponent.wrapping_add(112).wrapping_shl(23) | fraction.wrapping_shl(13)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::bytes;
    use proptest::prelude::*;

    fn text(text: &str) -> Result<Vec<f32>, ValueError> {
        let numbers = numbers_from_text(text.as_bytes())?;
        let count = numbers.remaining();
        let read: Vec<f32> = numbers.collect::<Result<_, _>>()?;
        assert_eq!(read.len(), count);
        Ok(read)
    }

    fn binary(hexadecimal: &str, width: Width) -> Result<Vec<f32>, ValueError> {
        numbers_from_binary(&bytes(hexadecimal), width)?.collect()
    }

    #[test]
    fn both_forms_and_both_widths_give_the_same_numbers() {
        let expected = [1.0, 2.5, -3.0];
        assert_eq!(text("[1,2.5,-3]").unwrap(), expected);
        assert_eq!(
            binary("000300003f80000040200000c0400000", Width::Single).unwrap(),
            expected
        );
        assert_eq!(binary("000300003c004100c200", Width::Half).unwrap(), expected);
        let extreme = [1e-7, 3.4e38, -0.0];
        assert_eq!(text("[1e-07,3.4e+38,-0]").unwrap(), extreme);
        assert_eq!(
            binary("0003000033d6bf957f7fc99e80000000", Width::Single).unwrap(),
            extreme
        );
    }

    #[test]
    fn halves_are_the_numbers_that_their_text_shows() {
        for (sent, printed) in [
            ("0003000000017bff8000", "[5.9604645e-08,65504,-0]"),
            ("000300002e66040003ef", "[0.099975586,6.1035156e-05,6.0021877e-05]"),
            ("000100003554", "[0.3330078]"),
        ] {
            assert_eq!(binary(sent, Width::Half), text(printed));
        }
    }

    #[test]
    fn halves_of_every_kind_keep_their_value() {
        for (bits, value) in [
            (0x0000, 0.0f32),
            (0x0001, 5.960_464_5e-8),
            (0x03ff, 6.097_555e-5),
            (0x0400, 6.103_515_6e-5),
            (0x3555, 0.333_251_95),
            (0x7bff, 65504.0),
            (0x7c00, f32::INFINITY),
            (0xfc00, f32::NEG_INFINITY),
            (0xbc00, -1.0),
        ] {
            assert_eq!(half_to_single(bits), value, "{bits:04x}");
        }
        assert_eq!(half_to_single(0x8000).to_bits(), 0x8000_0000);
        assert_eq!(half_to_single(0xfe01).to_bits(), f32::NAN.to_bits());
    }

    #[test]
    fn anything_else_is_malformed() {
        for wrong in ["", "[", "[1", "1,2", "[1,]", "[,1]", "{1}"] {
            assert_eq!(text(wrong), Err(ValueError::Malformed), "{wrong}");
        }
        for wrong in [
            "",
            "0001",
            "00010000",
            "000100013f800000",
            "000100003f80000000",
            "ffff0000",
        ] {
            assert_eq!(binary(wrong, Width::Single), Err(ValueError::Malformed), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn text_gives_the_same_bits_as_binary(numbers in prop::collection::vec(any::<f32>(), 1..5)) {
            let written: Vec<_> = numbers.iter().map(|number| format!("{number:e}")).collect();
            let read = text(&format!("[{}]", written.join(","))).unwrap();
            let mut sent = vec![0, u8::try_from(numbers.len()).unwrap(), 0, 0];
            sent.extend(numbers.iter().flat_map(|number| number.to_be_bytes()));
            let received: Vec<f32> = numbers_from_binary(&sent, Width::Single).unwrap().collect::<Result<_, _>>().unwrap();
            let bits = |numbers: &[f32]| numbers.iter().map(|number| number.to_bits()).collect::<Vec<_>>();
            prop_assert_eq!(bits(&read), bits(&numbers));
            prop_assert_eq!(bits(&received), bits(&numbers));
        }
    }
}
