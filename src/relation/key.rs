//! Which columns make the record key, and in which order.

use super::{Column, ReplicaIdentity};

/// What the catalog says of a table's keys *now*: column names in key order. The stream may lag behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CatalogKeys {
    /// The primary key.
    pub primary: Option<Vec<String>>,
    /// The index chosen by `REPLICA IDENTITY USING INDEX`.
    pub identity_index: Option<Vec<String>>,
}

/// Whether the stream alone decides: a single flagged column is the key, whatever the catalog has become.
pub(super) fn needs_catalog(replica_identity: ReplicaIdentity, flagged: usize) -> bool {
    match replica_identity {
        ReplicaIdentity::Default => flagged > 1,
        ReplicaIdentity::Index | ReplicaIdentity::Full | ReplicaIdentity::Nothing => true,
    }
}

/// Chooses the key: the primary key, else the replica identity index, else none.
///
/// Every update and delete must carry its key, so a primary key that the replica identity does not contain can't be
/// it. Where the catalog's answer does not fit the columns that the stream flagged, the catalog has moved on
/// and the flags decide; their order is then that of the columns.
pub(super) fn choose(columns: &[Column], replica_identity: ReplicaIdentity, catalog: &CatalogKeys) -> Vec<usize> {
    let places = |names: &Vec<String>| -> Option<Vec<usize>> {
        names
            .iter()
            .map(|name| columns.iter().position(|column| column.name == *name))
            .collect()
    };
    let is_flagged = |at: &usize| columns.get(*at).is_some_and(|column| column.identity);
    let flagged = || -> Vec<usize> { (0..columns.len()).filter(is_flagged).collect() };
    let is_all_flagged = |places: &Vec<usize>| {
        let mut sorted = places.clone();
        sorted.sort_unstable();
        sorted == flagged()
    };
    let primary = catalog.primary.as_ref().and_then(places).filter(|key| !key.is_empty());
    match replica_identity {
        // Flags say nothing here: all columns have them, or none.
        ReplicaIdentity::Full | ReplicaIdentity::Nothing => primary.unwrap_or_default(),
        ReplicaIdentity::Default => primary.filter(is_all_flagged).unwrap_or_else(flagged),
        ReplicaIdentity::Index => primary
            .filter(|key| key.iter().all(is_flagged))
            .or_else(|| catalog.identity_index.as_ref().and_then(places).filter(is_all_flagged))
            .unwrap_or_else(flagged),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation::builtin;

    fn columns(spec: &[(&str, bool)]) -> Vec<Column> {
        let ty = builtin::by_oid(23).unwrap();
        spec.iter()
            .map(|(name, identity)| Column {
                name: (*name).into(),
                ty: ty.clone(),
                typmod: -1,
                identity: *identity,
            })
            .collect()
    }

    fn names(names: &[&str]) -> Option<Vec<String>> {
        Some(names.iter().map(|name| (*name).to_owned()).collect())
    }

    fn catalog(primary: Option<Vec<String>>, identity_index: Option<Vec<String>>) -> CatalogKeys {
        CatalogKeys {
            primary,
            identity_index,
        }
    }

    #[test]
    fn a_primary_key_keeps_its_own_order() {
        let columns = columns(&[("a", true), ("v", false), ("b", true)]);
        let keys = catalog(names(&["b", "a"]), None);
        assert_eq!(choose(&columns, ReplicaIdentity::Default, &keys), [2, 0]);
    }

    #[test]
    fn flags_decide_when_the_catalog_has_moved_on() {
        let columns = columns(&[("a", true), ("v", false), ("b", true)]);
        for moved in [names(&["a"]), names(&["v"]), names(&["gone", "a"]), None] {
            assert_eq!(
                choose(&columns, ReplicaIdentity::Default, &catalog(moved, None)),
                [0, 2]
            );
        }
    }

    #[test]
    fn without_a_primary_key_the_identity_index_is_the_key() {
        let columns = columns(&[("a", true), ("b", true), ("v", false)]);
        let keys = catalog(None, names(&["b", "a"]));
        assert_eq!(choose(&columns, ReplicaIdentity::Index, &keys), [1, 0]);
    }

    #[test]
    fn a_primary_key_outside_the_identity_index_cannot_be_the_key() {
        let columns = columns(&[("id", false), ("code", true)]);
        let keys = catalog(names(&["id"]), names(&["code"]));
        assert_eq!(choose(&columns, ReplicaIdentity::Index, &keys), [1]);
    }

    #[test]
    fn a_primary_key_inside_the_identity_index_is_the_key() {
        let columns = columns(&[("id", true), ("code", true)]);
        let keys = catalog(names(&["id"]), names(&["code", "id"]));
        assert_eq!(choose(&columns, ReplicaIdentity::Index, &keys), [0]);
    }

    #[test]
    fn under_full_the_key_is_the_primary_key_or_none() {
        let columns = columns(&[("a", true), ("b", true)]);
        assert_eq!(
            choose(&columns, ReplicaIdentity::Full, &catalog(names(&["b"]), None)),
            [1]
        );
        assert!(choose(&columns, ReplicaIdentity::Full, &CatalogKeys::default()).is_empty());
        let unpublished = catalog(names(&["b", "hidden"]), None);
        assert!(choose(&columns, ReplicaIdentity::Full, &unpublished).is_empty());
    }

    #[test]
    fn a_table_without_any_key_has_none() {
        let columns = columns(&[("a", false)]);
        assert!(choose(&columns, ReplicaIdentity::Default, &CatalogKeys::default()).is_empty());
        assert!(choose(&columns, ReplicaIdentity::Nothing, &CatalogKeys::default()).is_empty());
    }
}
