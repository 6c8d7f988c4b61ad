//! `inet`, `cidr`, `macaddr` and `macaddr8` in their binary form, printed as Postgres prints them (manual, section 8.9;
//! `utils/adt/network.c`, `inet_net_ntop.c`, `mac.c`).

use std::io::Write;

use super::ValueError;
use super::integer::exact;
use super::wire::Wire;

/// Appends the text of an `inet` or a `cidr`: the family (2: IPv4, 3: IPv6), the bits of the netmask, whether it is a
/// `cidr`, and the address with its length before it, one byte each.
pub fn inet_text(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let mut wire = Wire::new(bytes);
    let (family, bits, is_cidr, length) = (wire.u8()?, wire.u8()?, wire.u8()?, wire.u8()?);
    let all_bits = match (family, length) {
        (2, 4) => {
            let address: [u8; 4] = wire.array()?;
            put_ipv4(address, out);
            32
        }
        (3, 16) => {
            put_ipv6(wire.array()?, out);
            128
        }
        _ => return Err(ValueError::Malformed),
    };
    wire.end()?;
    if bits > all_bits || is_cidr > 1 {
        return Err(ValueError::Malformed);
    }
    if is_cidr == 1 || bits != all_bits {
        let _infallible = write!(out, "/{bits}");
    }
    Ok(())
}

fn put_ipv4([a, b, c, d]: [u8; 4], out: &mut Vec<u8>) {
    let _infallible = write!(out, "{a}.{b}.{c}.{d}");
}

/// The longest run of two zero words or more, the first of equals, is `::`. An address of which only the last two words
/// are not zero, or only the last three with `ffff` as the first of them, ends in dotted decimals.
fn put_ipv6(address: [u8; 16], out: &mut Vec<u8>) {
    let [.., e, f, g, h] = address;
    let mut words = [0u16; 8];
    for (word, pair) in words.iter_mut().zip(address.as_chunks::<2>().0) {
        *word = u16::from_be_bytes(*pair);
    }
    let (start, length) = longest_zeros(&words);
    let end = start.saturating_add(length);
    let dotted = start == 0 && (length == 6 || (length == 5 && words.get(5) == Some(&0xffff)));
    for (at, word) in words.into_iter().enumerate() {
        if at == start && length > 0 {
            out.push(b':');
        }
        if (start..end).contains(&at) {
            continue;
        }
        if at > 0 {
            out.push(b':');
        }
        if dotted && at == 6 {
            put_ipv4([e, f, g, h], out);
            return;
        }
        let _infallible = write!(out, "{word:x}");
    }
    if length > 0 && end == 8 {
        out.push(b':');
    }
}

/// Where the longest run of zeros starts, and its length, or 0 if it is shorter than two.
fn longest_zeros(words: &[u16; 8]) -> (usize, usize) {
    let (mut best, mut run) = ((0usize, 0usize), (0usize, 0usize));
    for (at, word) in words.iter().enumerate() {
        run = match (word, run.1) {
            (0, 0) => (at, 1),
            (0, length) => (run.0, length.saturating_add(1)),
            _ => (0, 0),
        };
        if run.1 > best.1 {
            best = run;
        }
    }
    if best.1 < 2 { (0, 0) } else { best }
}

/// Appends the text of a `macaddr`.
pub fn macaddr_text(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    put_octets(&exact::<6>(bytes)?, out);
    Ok(())
}

/// Appends the text of a `macaddr8`.
pub fn macaddr8_text(bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    put_octets(&exact::<8>(bytes)?, out);
    Ok(())
}

fn put_octets(octets: &[u8], out: &mut Vec<u8>) {
    for (at, octet) in octets.iter().enumerate() {
        if at > 0 {
            out.push(b':');
        }
        let _infallible = write!(out, "{octet:02x}");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::row::tests::bytes;
    use proptest::prelude::*;

    fn inet(hexadecimal: &str) -> Result<String, ValueError> {
        let mut out = Vec::new();
        inet_text(&bytes(hexadecimal), &mut out)?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn addresses_are_printed_as_postgres_does() {
        for (text, sent) in [
            ("192.168.0.1/24", "02180004c0a80001"),
            ("10.0.0.1", "022000040a000001"),
            ("::1", "0380001000000000000000000000000000000001"),
            ("::ffff:1.2.3.4", "0380001000000000000000000000ffff01020304"),
            ("::1.2.3.4/96", "0360001000000000000000000000000001020304"),
            ("2001:db8::1:0:0:1/64", "0340001020010db8000000000001000000000001"),
            ("::", "0380001000000000000000000000000000000000"),
            ("1::", "0380001000010000000000000000000000000000"),
            ("1:0:2:0:3:0:4:0", "0380001000010000000200000003000000040000"),
            ("::ffff:0.0.0.0", "0380001000000000000000000000ffff00000000"),
            ("::ffff", "038000100000000000000000000000000000ffff"),
            ("::1:0:0", "0380001000000000000000000000000100000000"),
            ("1:2:3:4:5:6::", "0380001000010002000300040005000600000000"),
            ("192.168.0.0/24", "02180104c0a80000"),
            ("10.0.0.1/32", "022001040a000001"),
            ("::/0", "0300011000000000000000000000000000000000"),
            ("2001:db8::/32", "0320011020010db8000000000000000000000000"),
            ("10.0.0.0/8", "020801040a000000"),
        ] {
            assert_eq!(inet(sent).as_deref(), Ok(text));
        }
        let mut out = Vec::new();
        macaddr_text(&bytes("08002b01020f"), &mut out).unwrap();
        out.push(b' ');
        macaddr8_text(&bytes("08002b01020fff00"), &mut out).unwrap();
        assert_eq!(out, b"08:00:2b:01:02:0f 08:00:2b:01:02:0f:ff:00");
    }

    #[test]
    fn anything_else_is_malformed() {
        for sent in [
            "",
            "0218",
            "01180004c0a80001",
            "02210004c0a80001",
            "02180204c0a80001",
            "03180004c0a80001",
            "02180004c0a8000100",
            "02180004c0a800",
        ] {
            assert_eq!(inet(sent), Err(ValueError::Malformed), "{sent}");
        }
        assert_eq!(macaddr_text(&[0; 8], &mut Vec::new()), Err(ValueError::Malformed));
        assert_eq!(macaddr8_text(&[0; 6], &mut Vec::new()), Err(ValueError::Malformed));
    }

    /// The bytes of an IPv6 address (RFC 4291, section 2.2).
    fn read(text: &str) -> Vec<u8> {
        let groups = |text: &str| -> Vec<u8> {
            let groups = text.split(':').filter(|group| !group.is_empty());
            groups
                .flat_map(|group| match group.split_once('.') {
                    None => u16::from_str_radix(group, 16).unwrap().to_be_bytes().to_vec(),
                    Some(_) => group.split('.').map(|byte| byte.parse().unwrap()).collect(),
                })
                .collect()
        };
        match text.split_once("::") {
            None => groups(text),
            Some((before, after)) => {
                let (mut address, after) = (groups(before), groups(after));
                address.resize(16 - after.len(), 0);
                [address, after].concat()
            }
        }
    }

    proptest! {
        #[test]
        fn any_address_is_read_back(address: [u8; 16], mask: [bool; 16]) {
            let mut address = address;
            for (byte, zero) in address.iter_mut().zip(mask) {
                if zero {
                    *byte = 0;
                }
            }
            let mut sent = vec![3, 128, 0, 16];
            sent.extend(address);
            let mut out = Vec::new();
            inet_text(&sent, &mut out).unwrap();
            let text = String::from_utf8(out).unwrap();
            prop_assert_eq!(read(&text), address.to_vec(), "{}", text);
        }
    }
}
