//! Which kind of value a column holds.
//!
//! Built-in types are known by their oid (`pg_type.dat` of the server's source fixes those below 10 000); those of
//! extensions by their name, since their oids differ from database to database. Domains are what lies below them, arrays and
//! composites what they are made of. Whatever is not listed is Postgres's text.

use std::sync::Arc;

use crate::relation::{PgType, TypeKind};

use super::geometric::Shape;
use super::numeric::precision_and_scale;
use super::printed::{Printed, is_printable};
use super::rule::Ruled;
use super::vector::Width;

/// What a column's bytes mean, and which function reads them.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ValueKind {
    /// `bool`.
    Bool,
    /// `int2`.
    Int2,
    /// `int4`.
    Int4,
    /// `int8`.
    Int8,
    /// `oid`.
    Oid,
    /// `xid8`.
    Xid8,
    /// `float4`.
    Float4,
    /// `float8`.
    Float8,
    /// `numeric(precision, scale)` with 0 ≤ scale ≤ precision.
    Decimal {
        /// Digits in all, 1 to 1000.
        precision: u32,
        /// Digits after the point.
        scale: u32,
    },
    /// Any other `numeric`.
    Numeric,
    /// Text in both forms: the text types, `json`, `xml`, enums.
    Text,
    /// `jsonb`, `jsonpath`, `ltree`: the binary form has a version before the text.
    Versioned,
    /// `"char"`.
    Char,
    /// `bytea`.
    Bytea,
    /// `uuid`.
    Uuid,
    /// `date`.
    Date,
    /// `time`.
    Time,
    /// `timetz`.
    TimeTz,
    /// `timestamp`.
    Timestamp,
    /// `timestamptz`.
    TimestampTz,
    /// `interval`.
    Interval,
    /// `pg_lsn`.
    Lsn,
    /// Postgres's text; the binary form is printed.
    Printed(Printed),
    /// A range over this.
    Range(Arc<ValueKind>),
    /// A multirange over this.
    Multirange(Arc<ValueKind>),
    /// `hstore`.
    Hstore,
    /// `vector`, `halfvec`; the width is that of the binary form.
    Vector(Width),
    /// An array.
    Array(Arc<ArrayKind>),
    /// A row type.
    Composite(Arc<CompositeKind>),
    /// A column under a rule; never within another kind.
    Ruled(Arc<Ruled>),
    /// Known by its text only: the binary form is refused. `money` is among these, since its text depends on the server's
    /// locale and its binary form does not carry it.
    TextOnly,
}

/// An array's elements.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ArrayKind {
    /// What each element is.
    pub element: ValueKind,
    /// Its type's oid.
    pub oid: u32,
    /// What stands between two elements in text.
    pub delimiter: u8,
}

/// A row type's attributes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct CompositeKind {
    /// The type's namespace.
    pub schema: String,
    /// The type's name.
    pub name: String,
    /// The attributes in the order of its values.
    pub attributes: Vec<AttributeKind>,
}

/// An attribute of a row type.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct AttributeKind {
    /// Its name, unescaped.
    pub name: String,
    /// Its type's oid.
    pub oid: u32,
    /// What it is.
    pub kind: ValueKind,
}

impl ValueKind {
    /// The kind of a column of this type and modifier.
    pub fn of(ty: &PgType, typmod: i32) -> Self {
        match &ty.kind {
            TypeKind::Domain {
                base,
                typmod: of_domain,
            } => {
                // A column of a domain type has no modifier of its own.
                Self::of(base, if *of_domain >= 0 { *of_domain } else { typmod })
            }
            TypeKind::Enum => ValueKind::Text,
            TypeKind::Base => Self::of_base(ty, typmod),
            // The modifier of an array column is that of its elements.
            TypeKind::Array { element, delimiter } => ValueKind::Array(Arc::new(ArrayKind {
                element: Self::of(element, typmod),
                oid: element.oid,
                delimiter: *delimiter,
            })),
            TypeKind::Composite { attributes } => {
                let attributes = attributes.iter().map(|attribute| AttributeKind {
                    name: attribute.name.clone(),
                    oid: attribute.ty.oid,
                    kind: Self::of(&attribute.ty, attribute.typmod),
                });
                ValueKind::Composite(Arc::new(CompositeKind {
                    schema: ty.schema.clone(),
                    name: ty.name.clone(),
                    attributes: attributes.collect(),
                }))
            }
            TypeKind::Range { subtype } => ValueKind::Range(Arc::new(Self::of(subtype, -1))),
            TypeKind::Multirange { subtype } => ValueKind::Multirange(Arc::new(Self::of(subtype, -1))),
            TypeKind::Other => ValueKind::TextOnly,
        }
    }

    fn of_base(ty: &PgType, typmod: i32) -> Self {
        match ty.oid {
            16 => ValueKind::Bool,
            17 => ValueKind::Bytea,
            18 => ValueKind::Char,
            20 => ValueKind::Int8,
            21 => ValueKind::Int2,
            23 => ValueKind::Int4,
            26 => ValueKind::Oid,
            22 => ValueKind::Printed(Printed::Int2Vector),
            27 => ValueKind::Printed(Printed::Tid),
            // xid, cid
            28 | 29 => ValueKind::Printed(Printed::Unsigned),
            30 => ValueKind::Printed(Printed::OidVector),
            600 => ValueKind::Printed(Printed::Geometric(Shape::Point)),
            601 => ValueKind::Printed(Printed::Geometric(Shape::Segment)),
            602 => ValueKind::Printed(Printed::Geometric(Shape::Path)),
            603 => ValueKind::Printed(Printed::Geometric(Shape::Box)),
            604 => ValueKind::Printed(Printed::Geometric(Shape::Polygon)),
            628 => ValueKind::Printed(Printed::Geometric(Shape::Line)),
            718 => ValueKind::Printed(Printed::Geometric(Shape::Circle)),
            // cidr, inet
            650 | 869 => ValueKind::Printed(Printed::Inet),
            774 => ValueKind::Printed(Printed::MacAddr8),
            829 => ValueKind::Printed(Printed::MacAddr),
            1186 => ValueKind::Interval,
            // bit, varbit
            1560 | 1562 => ValueKind::Printed(Printed::Bits),
            // txid_snapshot, pg_snapshot
            2970 | 5038 => ValueKind::Printed(Printed::Snapshot),
            3220 => ValueKind::Lsn,
            3614 => ValueKind::Printed(Printed::TsVector),
            3615 => ValueKind::Printed(Printed::TsQuery),
            // name, text, json, xml, bpchar, varchar, refcursor
            19 | 25 | 114 | 142 | 1042 | 1043 | 1790 => ValueKind::Text,
            700 => ValueKind::Float4,
            701 => ValueKind::Float8,
            1082 => ValueKind::Date,
            1083 => ValueKind::Time,
            1114 => ValueKind::Timestamp,
            1184 => ValueKind::TimestampTz,
            1266 => ValueKind::TimeTz,
            1700 => Self::of_numeric(typmod),
            2950 => ValueKind::Uuid,
            // jsonb, jsonpath
            3802 | 4072 => ValueKind::Versioned,
            5069 => ValueKind::Xid8,
            _ => match ty.name.as_str() {
                "citext" => ValueKind::Text,
                "ltree" | "lquery" | "ltxtquery" => ValueKind::Versioned,
                "hstore" => ValueKind::Hstore,
                "vector" => ValueKind::Vector(Width::Single),
                "halfvec" => ValueKind::Vector(Width::Half),
                _ => ValueKind::TextOnly,
            },
        }
    }

    /// The kind of a numeric of this modifier.
    pub fn of_numeric(typmod: i32) -> Self {
        let shape = precision_and_scale(typmod).filter(|(precision, scale)| (0..=*precision).contains(scale));
        match shape.map(|(precision, scale)| (u32::try_from(precision), u32::try_from(scale))) {
            Some((Ok(precision @ 1..=1000), Ok(scale))) => ValueKind::Decimal { precision, scale },
            _ => ValueKind::Numeric,
        }
    }

    /// Whether a rule leaves the column out.
    pub fn is_excluded(&self) -> bool {
        matches!(self, ValueKind::Ruled(ruled) if ruled.is_excluded())
    }

    /// Whether the binary form can be read.
    pub fn reads_binary(&self) -> bool {
        match self {
            ValueKind::TextOnly => false,
            ValueKind::Ruled(ruled) => ruled.reads_binary(),
            ValueKind::Array(array) => array.element.reads_binary(),
            ValueKind::Composite(composite) => composite
                .attributes
                .iter()
                .all(|attribute| attribute.kind.reads_binary()),
            ValueKind::Range(subtype) | ValueKind::Multirange(subtype) => is_printable(subtype),
            _ => true,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn base(oid: u32, name: &str) -> PgType {
        PgType {
            oid,
            schema: "pg_catalog".into(),
            name: name.into(),
            kind: TypeKind::Base,
        }
    }

    #[test]
    fn a_domain_is_what_lies_below_it_with_the_domains_modifier() {
        let price = PgType {
            oid: 70_000,
            schema: "public".into(),
            name: "price".into(),
            kind: TypeKind::Domain {
                base: Arc::new(base(1700, "numeric")),
                typmod: ((12 << 16) | 2) + 4,
            },
        };
        assert_eq!(
            ValueKind::of(&price, -1),
            ValueKind::Decimal {
                precision: 12,
                scale: 2
            }
        );
        let discount = PgType {
            oid: 70_001,
            schema: "public".into(),
            name: "discount".into(),
            kind: TypeKind::Domain {
                base: Arc::new(price),
                typmod: -1,
            },
        };
        assert_eq!(
            ValueKind::of(&discount, -1),
            ValueKind::Decimal {
                precision: 12,
                scale: 2
            }
        );
    }

    #[test]
    fn numeric_is_a_decimal_only_when_its_digits_fit_one() {
        let numeric = base(1700, "numeric");
        let of = |precision: i32, scale: i32| ValueKind::of(&numeric, (precision << 16 | (scale & 0x7ff)) + 4);
        assert_eq!(of(5, 5), ValueKind::Decimal { precision: 5, scale: 5 });
        assert_eq!(
            of(1000, 0),
            ValueKind::Decimal {
                precision: 1000,
                scale: 0
            }
        );
        assert_eq!(of(5, -2), ValueKind::Numeric);
        assert_eq!(of(3, 5), ValueKind::Numeric);
        assert_eq!(ValueKind::of(&numeric, -1), ValueKind::Numeric);
    }

    #[test]
    fn types_without_a_reader_are_text() {
        assert_eq!(ValueKind::of(&base(790, "money"), -1), ValueKind::TextOnly);
        assert_eq!(ValueKind::of(&base(2205, "regclass"), -1), ValueKind::TextOnly);
        assert_eq!(ValueKind::of(&base(70_004, "cube"), -1), ValueKind::TextOnly);
    }

    #[test]
    fn types_of_extensions_are_known_by_their_name() {
        assert_eq!(ValueKind::of(&base(70_002, "citext"), -1), ValueKind::Text);
        assert_eq!(ValueKind::of(&base(70_003, "hstore"), -1), ValueKind::Hstore);
        assert_eq!(ValueKind::of(&base(70_005, "ltree"), -1), ValueKind::Versioned);
        assert_eq!(
            ValueKind::of(&base(70_006, "halfvec"), -1),
            ValueKind::Vector(Width::Half)
        );
    }

    #[test]
    fn what_is_made_of_text_only_has_no_binary_form() {
        let array_of = |element: PgType| PgType {
            oid: 70_010,
            schema: "public".into(),
            name: "_t".into(),
            kind: TypeKind::Array {
                element: Arc::new(element),
                delimiter: b',',
            },
        };
        assert!(ValueKind::of(&array_of(base(23, "int4")), -1).reads_binary());
        assert!(!ValueKind::of(&array_of(base(790, "money")), -1).reads_binary());
        let range_over = |subtype: PgType| PgType {
            oid: 70_011,
            schema: "public".into(),
            name: "r".into(),
            kind: TypeKind::Range {
                subtype: Arc::new(subtype),
            },
        };
        assert!(ValueKind::of(&range_over(base(869, "inet")), -1).reads_binary());
        assert!(!ValueKind::of(&range_over(array_of(base(23, "int4"))), -1).reads_binary());
    }

    #[test]
    fn the_modifier_of_an_array_is_that_of_its_elements() {
        let numerics = PgType {
            oid: 1231,
            schema: "pg_catalog".into(),
            name: "_numeric".into(),
            kind: TypeKind::Array {
                element: Arc::new(base(1700, "numeric")),
                delimiter: b',',
            },
        };
        let ValueKind::Array(array) = ValueKind::of(&numerics, ((5 << 16) | 2) + 4) else {
            panic!("an array")
        };
        assert_eq!(array.element, ValueKind::Decimal { precision: 5, scale: 2 });
    }
}
