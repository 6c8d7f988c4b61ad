//! Relations by oid, each with the version of its last description.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::shape::{Earlier, Shapes};
use super::{CatalogKeys, Column, PgType, Relation, ReplicaIdentity, TypeKind, builtin, key};
use crate::pgoutput::{ColumnDescription, RelationMessage, TypeMessage};

/// What a Relation message did.
#[derive(Debug, Clone)]
pub enum Update {
    /// It described what was known already.
    Unchanged(Arc<Relation>),
    /// A new relation, or a new version of one.
    Changed(Arc<Relation>),
}

/// A Relation message that makes no sense.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RelationError {
    /// Not one of `d`, `n`, `f`, `i`.
    #[error("relation {oid} has the replica identity {code:?}, which no known server sends")]
    ReplicaIdentity {
        /// The relation's oid.
        oid: u32,
        /// What stood there.
        code: char,
    },
}

/// Relations and types that the stream has named so far on this connection.
#[derive(Debug, Default)]
pub struct Registry {
    relations: HashMap<u32, Arc<Relation>>,
    types: HashMap<u32, Arc<PgType>>,
    /// Namespace and name of types as the stream said them last: the catalog may have moved on.
    names: HashMap<u32, (String, String)>,
    earlier: Earlier,
}

impl Registry {
    /// The relation as it was last described.
    pub fn get(&self, oid: u32) -> Option<&Arc<Relation>> {
        self.relations.get(&oid)
    }

    /// Oids of column types to ask the catalog for: those that neither the built-in table nor anything learned so far explains,
    /// and all that are made of row types, which may have got other attributes since they were learned.
    pub fn unknown_types(&self, message: &RelationMessage<'_>) -> Vec<u32> {
        let mut unknown: Vec<u32> = message.columns.iter().map(|column| column.type_oid).collect();
        unknown.sort_unstable();
        unknown.dedup();
        unknown.retain(|oid| self.type_of(*oid).is_none_or(|ty| ty.has_attributes()));
        unknown
    }

    /// Remembers what the catalog said.
    pub fn learn_types(&mut self, types: impl IntoIterator<Item = Arc<PgType>>) {
        for ty in types {
            if let Some(known) = self.types.insert(ty.oid, Arc::clone(&ty)) {
                self.earlier.keep(&known, &ty);
            }
        }
    }

    /// Takes in a Type message. It says only a name, so a type that is remembered under another one was renamed and has
    /// to be asked for again. (Of a domain the servers send its own oid with the name of its base type, which says nothing.)
    pub fn describe_type(&mut self, message: &TypeMessage<'_>) {
        let name = (
            qualified_namespace(message.namespace).to_owned(),
            message.name.to_owned(),
        );
        self.names.insert(message.oid, name);
        let Some(known) = self.types.get(&message.oid) else {
            return;
        };
        let same = known.name == message.name && known.schema == qualified_namespace(message.namespace);
        if !same && !matches!(known.kind, TypeKind::Domain { .. }) {
            self.types.remove(&message.oid);
        }
    }

    /// Whether the order of the key's columns is a question for the catalog.
    pub fn needs_catalog_keys(&self, message: &RelationMessage<'_>) -> bool {
        let flagged = message.columns.iter().filter(|column| column.is_identity()).count();
        ReplicaIdentity::from_code(message.replica_identity)
            .is_some_and(|replica_identity| key::needs_catalog(replica_identity, flagged))
    }

    /// Takes in a Relation message.
    ///
    /// # Errors
    ///
    /// [`RelationError`] if it says what no known server says.
    pub fn describe(&mut self, message: &RelationMessage<'_>, keys: &CatalogKeys) -> Result<Update, RelationError> {
        let replica_identity =
            ReplicaIdentity::from_code(message.replica_identity).ok_or(RelationError::ReplicaIdentity {
                oid: message.oid,
                code: char::from(message.replica_identity),
            })?;
        let columns: Vec<Column> = message.columns.iter().map(|column| self.column(column)).collect();
        let known = self.relations.get(&message.oid);
        let mut relation = Relation {
            oid: message.oid,
            version: known.map_or(1, |known| known.version),
            schema: qualified_namespace(message.namespace).to_owned(),
            name: message.name.to_owned(),
            replica_identity,
            key: key::choose(&columns, replica_identity, keys),
            columns,
        };
        if let Some(known) = known {
            if **known == relation {
                return Ok(Update::Unchanged(Arc::clone(known)));
            }
            relation.version = known.version.saturating_add(1);
        }
        let relation = Arc::new(relation);
        self.relations.insert(relation.oid, Arc::clone(&relation));
        Ok(Update::Changed(relation))
    }

    /// The row types in a relation, with the attributes that the catalog gave last.
    pub fn shapes(&self, relation: &Relation) -> Shapes {
        let types: Vec<_> = relation
            .columns
            .iter()
            .map(|column| self.types.get(&column.ty.oid).unwrap_or(&column.ty))
            .collect();
        Shapes::of(types)
    }

    /// What else the row types of one column may have been.
    pub fn other_shapes(&self, shapes: &Shapes, column: &Column) -> Vec<Shapes> {
        shapes.others(&column.ty, &self.earlier)
    }

    /// Takes a relation with other shapes for the present version.
    pub fn reshape(&mut self, mut relation: Relation) -> Arc<Relation> {
        relation.version = relation.version.saturating_add(1);
        let relation = Arc::new(relation);
        self.relations.insert(relation.oid, Arc::clone(&relation));
        relation
    }

    /// The oids of all relations.
    pub fn oids(&self) -> Vec<u32> {
        self.relations.keys().copied().collect()
    }

    /// How many relations there are.
    pub fn len(&self) -> usize {
        self.relations.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.relations.is_empty()
    }

    /// Forgets these relations, and the types that no other one has.
    pub fn forget(&mut self, relations: &[u32]) {
        for oid in relations {
            self.relations.remove(oid);
        }
        let columns = || self.relations.values().flat_map(|relation| &relation.columns);
        let used: HashSet<u32> = columns().map(|column| column.ty.oid).collect();
        let shapes = Shapes::of(columns().map(|column| &column.ty));
        self.types.retain(|oid, _| used.contains(oid));
        self.names.retain(|oid, _| used.contains(oid));
        self.earlier.retain(&shapes);
    }

    fn type_of(&self, oid: u32) -> Option<Arc<PgType>> {
        self.types.get(&oid).cloned().or_else(|| builtin::by_oid(oid))
    }

    fn as_named_by_the_stream(&self, ty: Arc<PgType>) -> Arc<PgType> {
        match self.names.get(&ty.oid) {
            Some((schema, name))
                if !matches!(ty.kind, TypeKind::Domain { .. }) && (*schema != ty.schema || *name != ty.name) =>
            {
                Arc::new(PgType {
                    schema: schema.clone(),
                    name: name.clone(),
                    ..PgType::clone(&ty)
                })
            }
            _ => ty,
        }
    }

    fn column(&self, described: &ColumnDescription<'_>) -> Column {
        let ty = self.type_of(described.type_oid).map_or_else(
            // A type that the catalog no longer knows was dropped after the row was written; its values are text.
            || {
                let name = format!("type {}", described.type_oid);
                Arc::new(PgType {
                    oid: described.type_oid,
                    schema: String::new(),
                    name,
                    kind: TypeKind::Other,
                })
            },
            |ty| self.as_named_by_the_stream(ty),
        );
        Column {
            name: described.name.to_owned(),
            ty,
            typmod: described.typmod,
            identity: described.is_identity(),
        }
    }
}

/// The wire says "" for pg_catalog.
fn qualified_namespace(namespace: &str) -> &str {
    if namespace.is_empty() { "pg_catalog" } else { namespace }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation::Attribute;

    fn message<'a>(columns: &[(&'a str, u32, bool)]) -> RelationMessage<'a> {
        let columns = columns
            .iter()
            .map(|(name, type_oid, identity)| ColumnDescription {
                flags: u8::from(*identity),
                name,
                type_oid: *type_oid,
                typmod: -1,
            })
            .collect();
        RelationMessage {
            xid: None,
            oid: 16_400,
            namespace: "public",
            name: "t",
            replica_identity: b'd',
            columns,
        }
    }

    fn version(update: Update) -> (bool, u32) {
        match update {
            Update::Unchanged(relation) => (false, relation.version),
            Update::Changed(relation) => (true, relation.version),
        }
    }

    #[test]
    fn a_message_that_changes_nothing_makes_no_new_version() {
        let mut registry = Registry::default();
        let keys = CatalogKeys::default();
        let narrow = message(&[("id", 23, true)]);
        let wide = message(&[("id", 23, true), ("v", 25, false)]);
        assert_eq!(version(registry.describe(&narrow, &keys).unwrap()), (true, 1));
        assert_eq!(version(registry.describe(&narrow, &keys).unwrap()), (false, 1));
        assert_eq!(version(registry.describe(&wide, &keys).unwrap()), (true, 2));
        assert_eq!(version(registry.describe(&wide, &keys).unwrap()), (false, 2));
        assert_eq!(version(registry.describe(&narrow, &keys).unwrap()), (true, 3));
        assert_eq!(registry.get(16_400).unwrap().columns.len(), 1);
    }

    #[test]
    fn a_new_key_is_a_new_version_though_the_message_is_the_same() {
        let mut registry = Registry::default();
        let mut full = message(&[("a", 23, true), ("b", 23, true)]);
        full.replica_identity = b'f';
        assert!(registry.needs_catalog_keys(&full));
        registry.describe(&full, &CatalogKeys::default()).unwrap();
        let keys = CatalogKeys {
            primary: Some(vec!["b".into()]),
            identity_index: None,
        };
        assert_eq!(version(registry.describe(&full, &keys).unwrap()), (true, 2));
        assert_eq!(registry.get(16_400).unwrap().key, [1]);
    }

    #[test]
    fn only_unknown_types_are_asked_for_and_only_once() {
        let mut registry = Registry::default();
        let described = message(&[("id", 23, true), ("mood", 20_001, false), ("other", 20_001, false)]);
        assert_eq!(registry.unknown_types(&described), [20_001]);
        let mood = PgType {
            oid: 20_001,
            schema: "public".into(),
            name: "mood".into(),
            kind: TypeKind::Enum,
        };
        registry.learn_types([Arc::new(mood)]);
        assert!(registry.unknown_types(&described).is_empty());

        let same = TypeMessage {
            xid: None,
            oid: 20_001,
            namespace: "public",
            name: "mood",
        };
        registry.describe_type(&same);
        assert!(registry.unknown_types(&described).is_empty());
        registry.describe_type(&TypeMessage { name: "humour", ..same });
        assert_eq!(
            registry.unknown_types(&described),
            [20_001],
            "a renamed type is asked for again"
        );
    }

    #[test]
    fn a_row_type_is_asked_for_again_and_new_attributes_are_a_new_version() {
        let address = |attributes: &[&str]| {
            let attributes = attributes.iter().zip(1..).map(|(name, number)| Attribute {
                name: (*name).into(),
                number,
                ty: builtin::by_oid(25).unwrap(),
                typmod: -1,
            });
            let composite = Arc::new(PgType {
                oid: 20_002,
                schema: "public".into(),
                name: "address".into(),
                kind: TypeKind::Composite {
                    attributes: attributes.collect(),
                },
            });
            Arc::new(PgType {
                oid: 20_003,
                schema: "public".into(),
                name: "_address".into(),
                kind: TypeKind::Array {
                    element: composite,
                    delimiter: b',',
                },
            })
        };
        let mut registry = Registry::default();
        let keys = CatalogKeys::default();
        let described = message(&[("id", 23, true), ("homes", 20_003, false)]);
        registry.learn_types([address(&["street"])]);
        assert_eq!(version(registry.describe(&described, &keys).unwrap()), (true, 1));
        assert_eq!(registry.unknown_types(&described), [20_003]);
        registry.learn_types([address(&["street"])]);
        assert_eq!(version(registry.describe(&described, &keys).unwrap()), (false, 1));
        registry.learn_types([address(&["street", "city"])]);
        assert_eq!(version(registry.describe(&described, &keys).unwrap()), (true, 2));
    }

    #[test]
    fn a_renamed_type_has_the_name_that_the_stream_said() {
        let mut registry = Registry::default();
        let described = message(&[("id", 23, true), ("mood", 20_001, false), ("age", 20_004, false)]);
        let ty = |oid, name: &str, kind| {
            Arc::new(PgType {
                oid,
                schema: "public".into(),
                name: name.into(),
                kind,
            })
        };
        let domain = TypeKind::Domain {
            base: builtin::by_oid(23).unwrap(),
            typmod: -1,
        };
        // The catalog is ahead; of a domain the stream says the base type's name.
        for (oid, name) in [(20_001, "mood"), (20_004, "int4")] {
            registry.describe_type(&TypeMessage {
                xid: None,
                oid,
                namespace: "public",
                name,
            });
        }
        registry.learn_types([ty(20_001, "humour", TypeKind::Enum), ty(20_004, "age", domain)]);
        registry.describe(&described, &CatalogKeys::default()).unwrap();
        let columns = &registry.get(16_400).unwrap().columns;
        assert_eq!(
            (columns[1].ty.name.as_str(), columns[2].ty.name.as_str()),
            ("mood", "age")
        );
    }

    #[test]
    fn a_forgotten_relation_takes_its_types_with_it() {
        let mut registry = Registry::default();
        for n in 0..10_000_u32 {
            let described = RelationMessage {
                oid: 30_000 + n,
                ..message(&[("id", 23, true), ("mood", 50_000 + n, false)])
            };
            registry.describe_type(&TypeMessage {
                xid: None,
                oid: 50_000 + n,
                namespace: "public",
                name: "mood",
            });
            registry.learn_types([Arc::new(PgType {
                oid: 50_000 + n,
                schema: "public".into(),
                name: "mood".into(),
                kind: TypeKind::Enum,
            })]);
            registry.describe(&described, &CatalogKeys::default()).unwrap();
        }
        let gone: Vec<u32> = registry.oids().into_iter().filter(|oid| *oid != 30_007).collect();
        registry.forget(&gone);
        assert_eq!(registry.oids(), [30_007]);
        assert_eq!((registry.types.len(), registry.names.len()), (1, 1));
        assert!(registry.types.contains_key(&50_007));
    }

    #[test]
    fn an_empty_namespace_is_pg_catalog() {
        let mut registry = Registry::default();
        let described = RelationMessage {
            namespace: "",
            ..message(&[("id", 23, true)])
        };
        registry.describe(&described, &CatalogKeys::default()).unwrap();
        assert_eq!(registry.get(16_400).unwrap().full_name(), "pg_catalog.t");
    }

    #[test]
    fn an_unknown_replica_identity_is_refused() {
        let described = RelationMessage {
            replica_identity: b'x',
            ..message(&[])
        };
        let error = Registry::default()
            .describe(&described, &CatalogKeys::default())
            .unwrap_err();
        assert_eq!(
            error.to_string(),
            "relation 16400 has the replica identity 'x', which no known server sends"
        );
    }
}
