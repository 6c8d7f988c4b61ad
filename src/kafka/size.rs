//! How large a record is for Kafka.
//!
//! A broker judges batches, not records: `max.message.bytes` bounds a batch as it is stored (Kafka's documentation, "Topic
//! Configs"). A record is judged here by the batch that it makes when it is alone and not compressed, so whether it
//! passes never depends on its neighbours or on how well it compresses. Batches of several are bounded by `batch.size`.
//!
//! The layout is that of "Record Batch" and "Record" in the documentation's "Message Format", which all brokers since 0.11 keep:
//! a header of 61 bytes; then the record's length, attributes, timestamp delta, offset delta, key length, key, value
//! length, value, header count and headers, with zigzag varints for all numbers.

/// The header of a record batch.
const BATCH_HEADER: u64 = 61;

/// Attributes, and the deltas of a batch's first record, which are 0.
const ATTRIBUTES_AND_DELTAS: u64 = 3;

/// What a batch of one record takes at most beside key, value and headers.
pub const MAX_OVERHEAD: u64 = BATCH_HEADER + ATTRIBUTES_AND_DELTAS + 4 * MAX_VARINT;

/// What a header takes at most beside its name and value.
pub const MAX_HEADER_OVERHEAD: u64 = 2 * MAX_VARINT;

/// The longest varint of a length.
const MAX_VARINT: u64 = 5;

/// Bytes of a length as a zigzag varint.
fn varint(length: u64) -> u64 {
    let bits = u64::from(64 - (length << 1).leading_zeros());
    bits.div_ceil(7).max(1)
}

fn with_length(length: u64) -> u64 {
    varint(length) + length
}

/// Bytes of the uncompressed batch that holds one record with these lengths alone. `headers`: of their names and values. A
/// length of −1, which is null, takes one byte, like 0.
pub(super) fn batch_of_one(key: usize, value: usize, headers: impl Iterator<Item = (usize, usize)>) -> u64 {
    let mut count = 0;
    let mut bytes = 0;
    for (name, value) in headers {
        count += 1;
        bytes += with_length(name as u64) + with_length(value as u64);
    }
    let body = ATTRIBUTES_AND_DELTAS + with_length(key as u64) + with_length(value as u64) + varint(count) + bytes;
    BATCH_HEADER + with_length(body)
}

#[cfg(test)]
mod tests {
    use super::super::OutRecord;
    use super::*;

    #[test]
    fn lengths_are_zigzag_varints() {
        for (length, bytes) in [
            (0, 1),
            (63, 1),
            (64, 2),
            (8_191, 2),
            (8_192, 3),
            (1_048_575, 3),
            (1_048_576, 4),
            (134_217_727, 4),
            (134_217_728, 5),
            (2_147_483_647, 5),
        ] {
            assert_eq!(varint(length), bytes, "{length}");
        }
    }

    #[test]
    fn a_record_is_as_large_as_the_batch_that_holds_it_alone() {
        let mut record = OutRecord {
            key: None,
            value: None,
            headers: &[],
            timestamp_ms: 1,
        };
        // The header, the record's length, attributes and deltas, the lengths of key and value, the number of headers.
        assert_eq!(record.batch_size(), 61 + 1 + 3 + 1 + 1 + 1);
        record.key = Some(b"key");
        assert_eq!(record.batch_size(), 61 + 1 + 3 + (1 + 3) + 1 + 1);
        let value = vec![0; 70];
        record.value = Some(&value);
        assert_eq!(record.batch_size(), 61 + 2 + 3 + (1 + 3) + (2 + 70) + 1);
        let headers: [(&str, &[u8]); 2] = [("a", b"bc"), ("d", b"")];
        record.headers = &headers;
        assert_eq!(
            record.batch_size(),
            61 + 2 + 3 + (1 + 3) + (2 + 70) + 1 + (1 + 1 + 1 + 2) + (1 + 1 + 1)
        );
        assert!(record.batch_size() <= MAX_OVERHEAD + 3 + 70 + 4 + 2 * MAX_HEADER_OVERHEAD);
    }
}
