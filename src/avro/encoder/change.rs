//! A change → its records: one, or where its key changed, a delete and a create; with a tombstone, where that is asked for.

use std::ops::Range;

use crate::avro::EnvelopeKind;
use crate::avro::batch::Batch;
use crate::avro::binary::put_decimal;
use crate::avro::error::Reason;
use crate::envelope::{Op, Position, RowChange};
use crate::pgoutput::Tuple;

use super::{Event, Fault, Side, TableEncoder, tuple_of};

impl TableEncoder {
    pub(super) fn encode_change(
        &self,
        change: RowChange<'_>,
        event: Event<'_>,
        ordinal: &mut u64,
        out: &mut Batch,
    ) -> Result<(), Fault> {
        let mut take = || {
            let position = event.position(*ordinal);
            *ordinal = ordinal.saturating_add(1);
            position
        };
        match change {
            RowChange::Read { new, .. } => {
                self.check_count(new)?;
                let key = self.put_key(Side::After(new, None), out)?;
                self.put_record(Op::Read, key, None, Some(Side::After(new, None)), event, take(), out)
            }
            RowChange::Insert { new } => {
                self.check_count(new)?;
                let key = self.put_key(Side::After(new, None), out)?;
                self.put_record(Op::Create, key, None, Some(Side::After(new, None)), event, take(), out)
            }
            RowChange::Update { old, new } => {
                self.check_count(new)?;
                if let Some(old) = old {
                    self.check_count(tuple_of(old))?;
                }
                let after = Side::After(new, old);
                let new_key = self.put_key(after, out)?;
                let before = old.map(Side::Before);
                match self.put_changed_key(old, new_key.as_ref(), out)? {
                    None => self.put_record(Op::Update, new_key, before, Some(after), event, take(), out),
                    Some(old_key) => {
                        let names = self.key_headers(&old_key, new_key.as_ref(), out);
                        let new_name = names.as_ref().map(|(_, new)| new.as_slice());
                        self.put_delete(Some(old_key), before, new_name, event, take(), out)?;
                        if let Some((old, _)) = names {
                            out.header("__debezium.oldkey", |bytes| bytes.extend_from_slice(&old));
                        }
                        self.put_record(Op::Create, new_key, None, Some(after), event, take(), out)
                    }
                }
            }
            RowChange::Delete { old } => {
                self.check_count(tuple_of(old))?;
                let key = self.put_key(Side::Before(old), out)?;
                self.put_delete(key, Some(Side::Before(old)), None, event, take(), out)
            }
            RowChange::Truncate => self.put_record(Op::Truncate, None, None, None, event, take(), out),
        }
    }

    fn check_count(&self, tuple: Tuple<'_>) -> Result<(), Fault> {
        if tuple.len() == self.fields.len() {
            Ok(())
        } else {
            Err(Fault {
                column: None,
                reason: Reason::ColumnCount,
            })
        }
    }

    /// Old and new key as Debezium's headers name them.
    fn key_headers(&self, old: &Range<usize>, new: Option<&Range<usize>>, out: &Batch) -> Option<(Vec<u8>, Vec<u8>)> {
        let rows = self.debezium.as_ref()?;
        if self.envelope != EnvelopeKind::Debezium {
            return None;
        }
        let text = |key: &Range<usize>| {
            let avro = out.slice(key).get(self.key_header.len()..).unwrap_or_default();
            rows.key_text(avro)
        };
        Some((text(old), text(new?)))
    }

    /// Appends a delete and, where asked for, its tombstone. `new_key`: the key under which the row goes on, as a header names it.
    #[allow(clippy::too_many_arguments, reason = "the parts of one record")]
    fn put_delete(
        &self,
        key: Option<Range<usize>>,
        before: Option<Side<'_>>,
        new_key: Option<&[u8]>,
        event: Event<'_>,
        position: Position,
        out: &mut Batch,
    ) -> Result<(), Fault> {
        let tombstone = self.tombstones && key.is_some() && self.envelope == EnvelopeKind::Debezium;
        let put_new_key = |out: &mut Batch| {
            if let Some(new_key) = new_key {
                out.header("__debezium.newkey", |bytes| bytes.extend_from_slice(new_key));
            }
        };
        put_new_key(out);
        self.put_record(Op::Delete, key.clone(), before, None, event, position, out)?;
        if tombstone {
            put_new_key(out);
            let texts = out.stamp.texts;
            out.header("walferry.commit_lsn", |bytes| {
                bytes.extend_from_slice(texts.commit_lsn())
            });
            out.header("walferry.ordinal", |bytes| put_decimal(position.ordinal, bytes));
            out.push(Op::Delete, key, None, position);
        }
        Ok(())
    }
}
