//! What a relation is: its name, columns, types and key, as the stream described it.
//!
//! A relation is never taken from today's catalog. Its shape is that of the last Relation message before the row
//! at hand; only two questions always go to the catalog: what a type oid *is*, and in which order the columns of the
//! primary key or identity index stand. [`CatalogFacts`] are for schemas in which NOT NULL and defaults are wanted.

mod builtin;
pub mod catalog;
mod facts;
mod key;
mod registry;
mod shape;

use std::sync::Arc;

pub use facts::{CatalogFacts, ColumnFacts, Questions};
pub use key::CatalogKeys;
pub use registry::{Registry, RelationError, Update};
pub use shape::Shapes;

/// A relation as one Relation message described it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relation {
    /// `pg_class.oid`; survives renames.
    pub oid: u32,
    /// 1 for the first description of this oid that was seen, then one more for each that differed.
    pub version: u32,
    /// The namespace; `pg_catalog` where the wire has an empty string.
    pub schema: String,
    /// The table's name.
    pub name: String,
    /// `pg_class.relreplident`.
    pub replica_identity: ReplicaIdentity,
    /// The published columns in the order of the tuples.
    pub columns: Vec<Column>,
    /// Indexes into `columns` of the record key, in key order; empty: the records have no key.
    pub key: Vec<usize>,
}

impl Relation {
    /// `schema.name`, as logs and metrics show it.
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.schema, self.name)
    }
}

/// A published column.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Column {
    /// Its name, unescaped.
    pub name: String,
    /// Its type.
    pub ty: Arc<PgType>,
    /// `pg_attribute.atttypmod`; -1: none.
    pub typmod: i32,
    /// Whether the stream flagged it as part of the replica identity (all columns under FULL).
    pub identity: bool,
}

/// Which columns of the old row an update or delete carries (manual, ALTER TABLE, REPLICA IDENTITY).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReplicaIdentity {
    /// The primary key, if there is one.
    Default,
    /// Nothing at all.
    Nothing,
    /// The whole row.
    Full,
    /// The columns of a chosen unique index.
    Index,
}

impl ReplicaIdentity {
    /// From `pg_class.relreplident`.
    pub fn from_code(code: u8) -> Option<Self> {
        match code {
            b'd' => Some(ReplicaIdentity::Default),
            b'n' => Some(ReplicaIdentity::Nothing),
            b'f' => Some(ReplicaIdentity::Full),
            b'i' => Some(ReplicaIdentity::Index),
            _ => None,
        }
    }
}

/// A data type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PgType {
    /// `pg_type.oid`.
    pub oid: u32,
    /// Its namespace.
    pub schema: String,
    /// `pg_type.typname`.
    pub name: String,
    /// What it is made of.
    pub kind: TypeKind,
}

impl PgType {
    /// Whether it is, or is made of, a row type: the only kind of type that changes under the same oid without a word
    /// from the stream.
    pub(crate) fn has_attributes(&self) -> bool {
        match &self.kind {
            TypeKind::Composite { .. } => true,
            TypeKind::Domain { base, .. } => base.has_attributes(),
            TypeKind::Array { element, .. } => element.has_attributes(),
            TypeKind::Range { subtype } | TypeKind::Multirange { subtype } => subtype.has_attributes(),
            TypeKind::Base | TypeKind::Enum | TypeKind::Other => false,
        }
    }
}

/// An attribute of a row type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribute {
    /// Its name, unescaped.
    pub name: String,
    /// `pg_attribute.attnum`: from 1 on, in the order in which they were added. Those of dropped ones are not used again.
    pub number: i16,
    /// Its type.
    pub ty: Arc<PgType>,
    /// `pg_attribute.atttypmod`; -1: none.
    pub typmod: i32,
}

/// What a data type is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TypeKind {
    /// A base type, known by its oid (built in) or by its name (extensions).
    Base,
    /// An enum; its labels are text in both formats.
    Enum,
    /// A domain: its values are those of `base` under `typmod`, in both formats.
    Domain {
        /// The type below, which may be a domain again.
        base: Arc<PgType>,
        /// `pg_type.typtypmod`; -1: none.
        typmod: i32,
    },
    /// An array of `element`.
    Array {
        /// The element type.
        element: Arc<PgType>,
        /// `pg_type.typdelim` of the element type: what stands between two elements in text.
        delimiter: u8,
    },
    /// A row type.
    Composite {
        /// Its attributes in their order, without those that were dropped.
        attributes: Vec<Attribute>,
    },
    /// A range.
    Range {
        /// What its bounds are.
        subtype: Arc<PgType>,
    },
    /// A multirange.
    Multirange {
        /// What the bounds of its ranges are.
        subtype: Arc<PgType>,
    },
    /// A pseudo-type, or a type that the catalog no longer knows.
    Other,
}
