//! What the stream does not say of columns, and Debezium's schemas do.

use std::collections::{BTreeMap, BTreeSet};

use super::{PgType, Relation, TypeKind};

/// What the catalog says *now*. The stream may lag behind it, so none of this may decide what a value is: a column that is NOT NULL
/// today may have been NULL in the row at hand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CatalogFacts {
    /// By column name.
    pub columns: BTreeMap<String, ColumnFacts>,
    /// The labels of enums in their order, by the type's oid.
    pub labels: BTreeMap<u32, Vec<String>>,
    /// How many decimals a `money` has (`lc_monetary`).
    pub money_places: u32,
}

impl Default for CatalogFacts {
    fn default() -> Self {
        CatalogFacts {
            columns: BTreeMap::new(),
            labels: BTreeMap::new(),
            money_places: 2,
        }
    }
}

impl CatalogFacts {
    /// The same, but for a column that is NOT NULL now and had no value in an older row. `None`: it is not NOT NULL.
    #[must_use]
    pub fn relaxed(&self, column: &str) -> Option<Self> {
        let mut facts = self.clone();
        let column = facts.columns.get_mut(column).filter(|column| column.not_null)?;
        column.not_null = false;
        Some(facts)
    }
}

/// What the catalog says of a column.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ColumnFacts {
    /// `pg_attribute.attnotnull`.
    pub not_null: bool,
    /// The default, as `pg_get_expr` prints it; `None`: none, or a generated column's expression.
    pub default: Option<String>,
    /// Whether a value may be kept apart, in TOAST, and so left out of an update (`pg_attribute.attstorage`).
    pub toasted: bool,
}

/// Which facts a relation's columns raise the question of.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Questions {
    /// The oids of all enums that values are made of.
    pub enums: Vec<u32>,
    /// Whether a value has `money` in it.
    pub money: bool,
}

impl Questions {
    /// Of a relation.
    pub fn of(relation: &Relation) -> Self {
        let mut enums = BTreeSet::new();
        let mut money = false;
        for column in &relation.columns {
            visit(&column.ty, &mut |ty| match ty.kind {
                TypeKind::Enum => {
                    enums.insert(ty.oid);
                }
                _ => money |= ty.oid == MONEY,
            });
        }
        Questions {
            enums: enums.into_iter().collect(),
            money,
        }
    }
}

const MONEY: u32 = 790;

fn visit(ty: &PgType, on: &mut impl FnMut(&PgType)) {
    on(ty);
    match &ty.kind {
        TypeKind::Domain { base, .. } => visit(base, on),
        TypeKind::Array { element, .. } => visit(element, on),
        TypeKind::Composite { .. } | TypeKind::Range { .. } | TypeKind::Multirange { .. } => {}
        TypeKind::Base | TypeKind::Enum | TypeKind::Other => {}
    }
}
