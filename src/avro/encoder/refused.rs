//! What can still be said of a change that cannot be published: its key, and how many places it takes in its transaction.

use crate::avro::batch::Batch;
use crate::avro::dead_letter::Shown;
use crate::envelope::RowChange;
use crate::pgoutput::{Datum, OldTuple, Tuple};
use crate::row::ValueKind;
use crate::row::rule::Form;

use super::{Side, TableEncoder, tuple_of};

impl TableEncoder {
    /// How many changes this one publishes, or would: two where the key changed, else one. Where a key cannot be encoded, it
    /// has changed if its values differ as they were sent. `scratch` is as it was.
    #[cold]
    pub fn places(&self, change: RowChange<'_>, scratch: &mut Batch) -> u64 {
        match change {
            RowChange::Update { old: Some(old), new } if self.key_changes(old, new, scratch) => 2,
            _ => 1,
        }
    }

    /// The key, in Confluent's wire format, of the new row, or of the old one where there is no other; `None`: there is none, or
    /// it cannot be encoded. `scratch` is as it was.
    #[cold]
    pub fn key_of(&self, change: RowChange<'_>, scratch: &mut Batch) -> Option<Vec<u8>> {
        let side = match change {
            RowChange::Read { new, .. } | RowChange::Insert { new } => Side::After(new, None),
            RowChange::Update { old, new } => Side::After(new, old),
            RowChange::Delete { old } => Side::Before(old),
            RowChange::Truncate => return None,
        };
        let mark = scratch.mark();
        let key = self.put_key(side, scratch).ok().flatten();
        let key = key.map(|range| scratch.slice(&range).to_vec());
        scratch.roll_back(mark);
        key
    }

    /// What may be written down of a value as it was sent: of one that a rule hides, what the rule makes of it, or nothing.
    #[cold]
    pub fn shown(&self, column: usize, datum: Datum<'_>) -> Shown {
        if self.may_show(column) {
            return Shown::AsSent;
        }
        let ruled = match self.fields.get(column).map(|field| &field.kind) {
            Some(ValueKind::Ruled(ruled)) if !ruled.is_excluded() => ruled,
            _ => return Shown::Nothing,
        };
        let form = match datum {
            Datum::Null | Datum::Unchanged => return Shown::AsSent,
            Datum::Text(value) => Form::Text(value),
            Datum::Binary(value) => Form::Binary(value),
        };
        let mut masked = Vec::new();
        match ruled.put(form, &mut masked) {
            Ok(()) => Shown::Masked(masked),
            Err(_) => Shown::Nothing,
        }
    }

    fn key_changes(&self, old: OldTuple<'_>, new: Tuple<'_>, scratch: &mut Batch) -> bool {
        if self.key_column_outside(old).is_some() {
            return false;
        }
        let mark = scratch.mark();
        let changed = self
            .put_key(Side::After(new, Some(old)), scratch)
            .and_then(|new_key| self.put_changed_key(Some(old), new_key.as_ref(), scratch));
        scratch.roll_back(mark);
        match changed {
            Ok(old_key) => old_key.is_some(),
            Err(_) => self.key.iter().any(|&column| {
                let after = new.iter().nth(column);
                after != Some(Datum::Unchanged) && after != tuple_of(old).iter().nth(column)
            }),
        }
    }
}
