//! Which kind of value a column holds.
//!
//! Built-in types are known by their oid (`pg_type.dat` of the server's source fixes those below 10 000); `citext` by its
//! name, since an extension's oids differ from database to database. Domains are what lies below them. Whatever is not
//! listed is Postgres's text.

use crate::relation::{PgType, TypeKind};

use super::numeric::precision_and_scale;

/// What a column's bytes mean, and which function reads them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
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
    /// `jsonb`: its binary form has a version before the text.
    Jsonb,
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
    /// Known by its text only: the binary form is refused. `money` is among these, since its text depends on the server's
    /// locale and its binary form does not carry it.
    TextOnly,
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
            TypeKind::Array { .. } | TypeKind::Composite | TypeKind::Range | TypeKind::Other => ValueKind::TextOnly,
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
            // name, text, json, xml, bpchar, varchar
            19 | 25 | 114 | 142 | 1042 | 1043 => ValueKind::Text,
            700 => ValueKind::Float4,
            701 => ValueKind::Float8,
            1082 => ValueKind::Date,
            1083 => ValueKind::Time,
            1114 => ValueKind::Timestamp,
            1184 => ValueKind::TimestampTz,
            1266 => ValueKind::TimeTz,
            1700 => Self::of_numeric(typmod),
            2950 => ValueKind::Uuid,
            3802 => ValueKind::Jsonb,
            5069 => ValueKind::Xid8,
            _ if ty.name == "citext" => ValueKind::Text,
            _ => ValueKind::TextOnly,
        }
    }

    fn of_numeric(typmod: i32) -> Self {
        let shape = precision_and_scale(typmod).filter(|(precision, scale)| (0..=*precision).contains(scale));
        match shape.map(|(precision, scale)| (u32::try_from(precision), u32::try_from(scale))) {
            Some((Ok(precision @ 1..=1000), Ok(scale))) => ValueKind::Decimal { precision, scale },
            _ => ValueKind::Numeric,
        }
    }

    /// Whether the binary form can be read.
    pub const fn reads_binary(self) -> bool {
        !matches!(self, ValueKind::TextOnly)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

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
        assert_eq!(ValueKind::of(&base(869, "inet"), -1), ValueKind::TextOnly);
        assert_eq!(ValueKind::of(&base(70_002, "citext"), -1), ValueKind::Text);
        assert_eq!(ValueKind::of(&base(70_003, "hstore"), -1), ValueKind::TextOnly);
    }
}
