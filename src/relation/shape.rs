//! The attributes of row types, when they are others than the catalog has now.
//!
//! `ALTER TYPE … ADD`, `DROP` and `RENAME ATTRIBUTE` change what the values of a row type hold, and the stream says nothing of it: a
//! table's description names the type, not its attributes. So a value may have the attributes of before or after what was
//! last asked, and which ones only the value itself can say. The shapes that it may have are these:
//!
//! - what the catalog says now;
//! - what it said earlier, as far as it was asked;
//! - the first of what it says now. Attributes are numbered in the order in which they were added, and a number is never used
//!   again, so as long as the numbers from 1 on have no hole, a value with fewer attributes is from the time before the last
//!   ones were added.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Attribute, PgType, Relation, TypeKind};

/// No value was ever worth more tries than this.
const MOST: usize = 64;

/// The attributes of each row type in a relation, by the type's oid. One type has one shape, wherever it is used: a schema
/// defines its record once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Shapes(BTreeMap<u32, Vec<Attribute>>);

impl Shapes {
    /// Of all row types that these types are made of.
    pub fn of<'a>(types: impl IntoIterator<Item = &'a Arc<PgType>>) -> Self {
        let mut shapes = Shapes::default();
        for ty in types {
            shapes.collect(ty);
        }
        shapes
    }

    fn collect(&mut self, ty: &PgType) {
        match &ty.kind {
            TypeKind::Composite { attributes } => {
                self.0.insert(ty.oid, attributes.clone());
                for attribute in attributes {
                    self.collect(&attribute.ty);
                }
            }
            TypeKind::Domain { base, .. } => self.collect(base),
            TypeKind::Array { element, .. } => self.collect(element),
            TypeKind::Range { subtype } | TypeKind::Multirange { subtype } => self.collect(subtype),
            TypeKind::Base | TypeKind::Enum | TypeKind::Other => (),
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (u32, &Vec<Attribute>)> {
        self.0.iter().map(|(oid, attributes)| (*oid, attributes))
    }

    /// The relation with these shapes in all of its columns.
    pub fn apply(&self, relation: &Relation) -> Relation {
        let mut relation = relation.clone();
        for column in &mut relation.columns {
            if column.ty.has_attributes() {
                column.ty = self.applied(&column.ty);
            }
        }
        relation
    }

    fn applied(&self, ty: &Arc<PgType>) -> Arc<PgType> {
        let kind = match &ty.kind {
            TypeKind::Composite { attributes } => TypeKind::Composite {
                attributes: self
                    .0
                    .get(&ty.oid)
                    .unwrap_or(attributes)
                    .iter()
                    .map(|attribute| Attribute {
                        ty: self.applied(&attribute.ty),
                        ..attribute.clone()
                    })
                    .collect(),
            },
            TypeKind::Domain { base, typmod } => TypeKind::Domain {
                base: self.applied(base),
                typmod: *typmod,
            },
            TypeKind::Array { element, delimiter } => TypeKind::Array {
                element: self.applied(element),
                delimiter: *delimiter,
            },
            TypeKind::Range { subtype } => TypeKind::Range {
                subtype: self.applied(subtype),
            },
            TypeKind::Multirange { subtype } => TypeKind::Multirange {
                subtype: self.applied(subtype),
            },
            TypeKind::Base | TypeKind::Enum | TypeKind::Other => return Arc::clone(ty),
        };
        Arc::new(PgType {
            kind,
            ..PgType::clone(ty)
        })
    }

    /// The shapes that differ from these in one of the row types that `ty` is made of: those that it had `earlier` (newest
    /// last), then those before its last attributes were added.
    pub(super) fn others(&self, ty: &Arc<PgType>, earlier: &Earlier) -> Vec<Shapes> {
        let within = Shapes::of([&self.applied(ty)]);
        let mut others = Vec::new();
        for (oid, attributes) in within.iter() {
            let known = earlier.of(oid).rev().filter(|known| *known != attributes).cloned();
            let added = (1..=leading(attributes).min(attributes.len().saturating_sub(1))).rev();
            let before = added.filter_map(|count| Some(attributes.get(..count)?.to_vec()));
            for shape in known.chain(before) {
                let mut other = self.clone();
                other.0.insert(oid, shape);
                others.push(other);
            }
        }
        others.truncate(MOST);
        others
    }
}

/// How many attributes from the first on have no dropped one between them.
fn leading(attributes: &[Attribute]) -> usize {
    attributes
        .iter()
        .zip(1..)
        .take_while(|(attribute, number)| attribute.number == *number)
        .count()
}

/// Attributes that row types had earlier.
#[derive(Debug, Default)]
pub(super) struct Earlier(BTreeMap<u32, Vec<Vec<Attribute>>>);

impl Earlier {
    /// As many versions of a type are kept.
    const KEPT: usize = 8;

    fn of(&self, oid: u32) -> impl DoubleEndedIterator<Item = &Vec<Attribute>> {
        self.0.get(&oid).into_iter().flatten()
    }

    /// Keeps what a type had where it has something else now.
    pub(super) fn keep(&mut self, known: &Arc<PgType>, now: &Arc<PgType>) {
        let now = Shapes::of([now]);
        for (oid, attributes) in Shapes::of([known]).iter() {
            if now.0.get(&oid) == Some(attributes) {
                continue;
            }
            let versions = self.0.entry(oid).or_default();
            versions.retain(|version| version != attributes);
            versions.push(attributes.clone());
            if versions.len() > Self::KEPT {
                versions.remove(0);
            }
        }
    }

    /// Forgets the types that are in none of these.
    pub(super) fn retain(&mut self, types: &Shapes) {
        self.0.retain(|oid, _| types.0.contains_key(oid));
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relation::{Column, ReplicaIdentity, builtin};

    fn attribute(name: &str, number: i16, ty: &Arc<PgType>) -> Attribute {
        Attribute {
            name: name.into(),
            number,
            ty: ty.clone(),
            typmod: -1,
        }
    }

    fn composite(oid: u32, name: &str, attributes: &[(&str, i16)]) -> Arc<PgType> {
        let text = builtin::by_oid(25).unwrap();
        composite_of(
            oid,
            name,
            attributes
                .iter()
                .map(|(name, number)| attribute(name, *number, &text))
                .collect(),
        )
    }

    fn composite_of(oid: u32, name: &str, attributes: Vec<Attribute>) -> Arc<PgType> {
        Arc::new(PgType {
            oid,
            schema: "public".into(),
            name: name.into(),
            kind: TypeKind::Composite { attributes },
        })
    }

    fn array(of: &Arc<PgType>) -> Arc<PgType> {
        Arc::new(PgType {
            oid: of.oid + 1,
            schema: "public".into(),
            name: format!("_{}", of.name),
            kind: TypeKind::Array {
                element: of.clone(),
                delimiter: b',',
            },
        })
    }

    fn names(shapes: &Shapes, oid: u32) -> String {
        let names: Vec<&str> = shapes.0[&oid].iter().map(|attribute| attribute.name.as_str()).collect();
        names.join(",")
    }

    fn others(ty: &Arc<PgType>, earlier: &Earlier, oid: u32) -> Vec<String> {
        let others = Shapes::of([ty]).others(ty, earlier);
        others.iter().map(|shapes| names(shapes, oid)).collect()
    }

    #[test]
    fn a_shorter_value_is_from_before_the_last_attributes_were_added() {
        let ty = composite(1, "c", &[("a", 1), ("b", 2), ("c", 3)]);
        assert_eq!(others(&array(&ty), &Earlier::default(), 1), ["a,b", "a"]);
        // After a hole nobody knows.
        let holed = composite(1, "c", &[("a", 1), ("b", 2), ("d", 4), ("e", 5)]);
        assert_eq!(others(&holed, &Earlier::default(), 1), ["a,b", "a"]);
        let headless = composite(1, "c", &[("b", 2), ("c", 3)]);
        assert_eq!(others(&headless, &Earlier::default(), 1), [""; 0]);
    }

    #[test]
    fn what_was_known_earlier_comes_first_newest_before_oldest() {
        let versions = [
            composite(1, "c", &[("a", 1), ("b", 2)]),
            composite(1, "c", &[("a", 1), ("b", 2), ("c", 3)]),
            composite(1, "c", &[("b", 2), ("c", 3)]),
        ];
        let mut earlier = Earlier::default();
        for pair in versions.windows(2) {
            earlier.keep(&pair[0], &pair[1]);
        }
        earlier.keep(&versions[2], &versions[2]);
        assert_eq!(others(&versions[2], &earlier, 1), ["a,b,c", "a,b"]);
        // Back to the second: it is no earlier one now.
        assert_eq!(others(&versions[1], &earlier, 1), ["a,b", "a,b", "a"]);
    }

    #[test]
    fn a_type_has_one_shape_wherever_it_is_used() {
        let inner = composite(10, "inner", &[("x", 1), ("y", 2)]);
        let outer = composite_of(
            20,
            "outer",
            vec![attribute("i", 1, &inner), attribute("is", 2, &array(&inner))],
        );
        let column = |name: &str, ty: &Arc<PgType>| Column {
            name: name.into(),
            ty: ty.clone(),
            typmod: -1,
            identity: false,
        };
        let relation = Relation {
            oid: 1,
            version: 1,
            schema: "public".into(),
            name: "t".into(),
            replica_identity: ReplicaIdentity::Default,
            columns: vec![
                column("o", &outer),
                column("i", &inner),
                column("n", &builtin::by_oid(23).unwrap()),
            ],
            key: vec![2],
        };
        let shapes = Shapes::of(relation.columns.iter().map(|column| &column.ty));
        assert_eq!(shapes.apply(&relation), relation);
        let others = shapes.others(&outer, &Earlier::default());
        let cut = others.iter().find(|shapes| names(shapes, 10) == "x").unwrap();
        let found = Shapes::of(cut.apply(&relation).columns.iter().map(|column| &column.ty));
        assert_eq!((names(&found, 10), names(&found, 20)), ("x".into(), "i,is".into()));
        let applied = cut.apply(&relation);
        for column in &applied.columns[..2] {
            assert_eq!(names(&Shapes::of([&column.ty]), 10), "x");
        }
        assert_eq!(applied.columns[2], relation.columns[2]);
    }

    #[test]
    fn few_versions_of_a_type_are_kept() {
        let mut earlier = Earlier::default();
        for n in 0..1000 {
            let version = |n: i32| composite(1, "c", &[(format!("a{n}").as_str(), 1)]);
            earlier.keep(&version(n), &version(n + 1));
        }
        assert_eq!(earlier.len(), Earlier::KEPT);
        earlier.retain(&Shapes::default());
        assert_eq!(earlier.len(), 0);
    }
}
