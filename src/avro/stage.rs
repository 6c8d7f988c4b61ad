//! Small values on their way into a batch.
//!
//! What is appended to a `Vec` loads and stores its length, for which the next that is appended waits. Most of a record is values of a
//! few bytes each: so they are put side by side in space of a fixed size, where the place of the next is in a register, and go to the
//! batch together. Each is written with as many bytes as the longest of its kind has, of which those beyond its own length are
//! overwritten by the next.

/// The bytes that a small value can be written to.
pub(super) const ROOM: usize = 128;

/// Where a small value is written to.
pub(super) type Room = [u8; ROOM];

/// How many bytes are gathered at most.
const SIZE: usize = 1024;

/// The last place with room for a value and the byte before it that says which branch of a union it is.
const LAST: usize = SIZE - ROOM - 1;

/// The space, used again and again.
pub(super) struct Stage {
    space: Box<[u8; SIZE]>,
}

impl Default for Stage {
    fn default() -> Self {
        Stage {
            space: Box::new([0; SIZE]),
        }
    }
}

impl Stage {
    /// Appends to `out` by way of the stage. What was written is there once it is flushed.
    #[inline]
    pub(super) fn writer<'a>(&'a mut self, out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer {
            space: &mut self.space,
            used: 0,
            out,
        }
    }
}

/// What is on the stage, and where it goes. It is not to be passed to a function that is not inlined: it would live in memory.
pub(super) struct Writer<'a> {
    space: &'a mut [u8; SIZE],
    used: usize,
    out: &'a mut Vec<u8>,
}

impl Writer<'_> {
    /// How many bytes were written, with those that were there before.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.out.len().wrapping_add(self.used)
    }

    /// Hands over what is on the stage.
    #[inline(always)]
    pub(super) fn flush(&mut self) {
        self.out
            .extend_from_slice(self.space.get(..self.used).unwrap_or_default());
        self.used = 0;
    }

    /// Where everything went, for what is written without the stage.
    #[inline(always)]
    pub(super) fn flushed(&mut self) -> &mut Vec<u8> {
        self.flush();
        self.out
    }

    #[inline(always)]
    fn make_room(&mut self) {
        if self.used > LAST {
            hand_over(self.space, self.used, self.out);
            self.used = 0;
        }
    }

    #[inline(always)]
    fn room(&mut self, at: usize) -> Option<&mut Room> {
        self.space.get_mut(at..).and_then(<[u8]>::first_chunk_mut)
    }

    /// Writes one byte.
    #[inline(always)]
    pub(super) fn byte(&mut self, byte: u8) {
        self.bytes(&[byte]);
    }

    /// Writes bytes.
    #[inline(always)]
    pub(super) fn bytes(&mut self, bytes: &[u8]) {
        self.make_room();
        let at = self.used;
        match self.room(at).and_then(|room| room.get_mut(..bytes.len())) {
            Some(place) => {
                place.copy_from_slice(bytes);
                self.used = at.wrapping_add(bytes.len());
            }
            None => {
                hand_over(self.space, at, self.out);
                self.used = 0;
                self.out.extend_from_slice(bytes);
            }
        }
    }

    /// Writes a short.
    #[inline(always)]
    pub(super) fn short<const N: usize>(&mut self, short: &Short<N>) {
        self.small(|room| short.put(room, 0));
    }

    /// Writes what `write` puts into the room that it gets, of which it gives the length.
    #[inline(always)]
    pub(super) fn small(&mut self, write: impl FnOnce(&mut Room) -> usize) {
        self.make_room();
        let at = self.used;
        if let Some(room) = self.room(at) {
            self.used = at.wrapping_add(write(room));
        }
    }

    /// Writes a value: the branch of its union if it is `nullable`, then what `small` makes of it, or what `any` does where it takes
    /// more.
    #[inline(always)]
    pub(super) fn value<E>(
        &mut self,
        nullable: bool,
        small: impl FnOnce(&mut Room) -> Option<usize>,
        any: impl FnOnce(&mut Vec<u8>) -> Result<(), E>,
    ) -> Result<(), E> {
        self.make_room();
        if let Some(branch) = self.space.get_mut(self.used) {
            *branch = 2;
        }
        let at = self.used.wrapping_add(usize::from(nullable));
        self.used = at;
        match self.room(at).and_then(small) {
            Some(length) => {
                self.used = at.wrapping_add(length);
                Ok(())
            }
            None => {
                hand_over(self.space, at, self.out);
                self.used = 0;
                any(self.out)
            }
        }
    }
}

#[cold]
fn hand_over(space: &[u8; SIZE], used: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(space.get(..used).unwrap_or_default());
}

/// A few bytes, with space for the longest that there can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Short<const N: usize> {
    bytes: [u8; N],
    length: usize,
}

impl<const N: usize> Short<N> {
    /// Nothing.
    pub(super) const EMPTY: Self = Short {
        bytes: [0; N],
        length: 0,
    };

    /// These bytes.
    pub(super) const fn new(bytes: [u8; N]) -> Self {
        Short { bytes, length: N }
    }

    /// Appends the first `length` bytes of a word, the least of them first. There is space for eight.
    #[inline(always)]
    pub(super) fn push_word(&mut self, word: u64, length: usize) {
        if let Some(place) = self.bytes.get_mut(self.length..).and_then(<[u8]>::first_chunk_mut) {
            *place = word.to_le_bytes();
            self.length = self.length.wrapping_add(length);
        }
    }

    /// Appends bytes. There is space for them.
    #[inline(always)]
    pub(super) fn push(&mut self, bytes: &[u8]) {
        let end = self.length.wrapping_add(bytes.len());
        if let Some(place) = self.bytes.get_mut(self.length..end) {
            place.copy_from_slice(bytes);
            self.length = end;
        }
    }

    /// Puts it into a room, at a place that has N bytes after it, and gives where it ends.
    #[inline(always)]
    pub(super) fn put(&self, room: &mut [u8], at: usize) -> usize {
        if let Some(place) = room.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
            *place = self.bytes;
        }
        at.wrapping_add(self.length)
    }

    /// Appends it: all the space, of which what is over is cut off.
    #[inline]
    pub(super) fn append(&self, out: &mut Vec<u8>) {
        let end = out.len().wrapping_add(self.length);
        out.extend_from_slice(&self.bytes);
        out.truncate(end);
    }

    /// The bytes.
    #[inline]
    pub(super) fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_value_that_is_not_small_follows_those_that_are() {
        let mut stage = Stage::default();
        let mut out = b"-".to_vec();
        let mut writer = stage.writer(&mut out);
        writer.byte(b'a');
        let any: Result<(), ()> = writer.value(
            true,
            |_| None,
            |out| {
                out.extend_from_slice(b"any");
                Ok(())
            },
        );
        assert_eq!(any, Ok(()));
        let refused = writer.value(false, |_| None, |_| Err("refused"));
        assert_eq!(refused, Err("refused"));
        let mut short = Short::<24>::EMPTY;
        short.push(b"sho");
        short.push_word(u64::from_le_bytes(*b"rt______"), 2);
        writer.short(&short);
        assert_eq!(writer.len(), 11);
        writer.flush();
        assert_eq!(out, b"-a\x02anyshort");
        short.append(&mut out);
        assert_eq!(out, b"-a\x02anyshortshort");
    }

    proptest! {
        #[test]
        fn whatever_is_written_arrives_in_its_order(
            pieces in proptest::collection::vec((0usize..300, any::<u8>(), any::<bool>()), 0..40),
        ) {
            let mut stage = Stage::default();
            let (mut out, mut expected) = (Vec::new(), Vec::new());
            let mut writer = stage.writer(&mut out);
            for (length, byte, nullable) in pieces {
                let piece = vec![byte; length];
                if length % 2 == 0 {
                    writer.bytes(&piece);
                } else {
                    let put: Result<(), ()> = writer.value(
                        nullable,
                        |room| {
                            room.get_mut(..length)?.copy_from_slice(&piece);
                            Some(length)
                        },
                        |out| {
                            out.extend_from_slice(&piece);
                            Ok(())
                        },
                    );
                    prop_assert_eq!(put, Ok(()));
                    expected.extend(nullable.then_some(2));
                }
                expected.extend_from_slice(&piece);
                prop_assert_eq!(writer.len(), expected.len());
            }
            writer.flush();
            prop_assert_eq!(out, expected);
        }
    }
}
