//! Types whose oids are the same in every Postgres.

use std::sync::Arc;

use postgres_types::{Kind, Type};

use super::{PgType, TypeKind};

/// The built-in type of this oid.
pub(super) fn by_oid(oid: u32) -> Option<Arc<PgType>> {
    Type::from_oid(oid).map(|builtin| Arc::new(from_builtin(&builtin)))
}

fn from_builtin(builtin: &Type) -> PgType {
    let kind = match builtin.kind() {
        Kind::Simple => TypeKind::Base,
        // int2vector and oidvector have elements, but are not the array types of these: their text is another, and they begin at 0.
        Kind::Array(_) if matches!(*builtin, Type::INT2_VECTOR | Type::OID_VECTOR) => TypeKind::Base,
        Kind::Array(element) => TypeKind::Array {
            element: Arc::new(from_builtin(element)),
            delimiter: if *element == Type::BOX { b';' } else { b',' },
        },
        Kind::Range(subtype) => TypeKind::Range {
            subtype: Arc::new(from_builtin(subtype)),
        },
        Kind::Multirange(subtype) => TypeKind::Multirange {
            subtype: Arc::new(from_builtin(subtype)),
        },
        _ => TypeKind::Other,
    };
    PgType {
        oid: builtin.oid(),
        schema: builtin.schema().to_owned(),
        name: builtin.name().to_owned(),
        kind,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_types_need_no_catalog() {
        let numeric = by_oid(1700).unwrap();
        assert_eq!(
            (numeric.schema.as_str(), numeric.name.as_str()),
            ("pg_catalog", "numeric")
        );
        assert_eq!(numeric.kind, TypeKind::Base);
        let array = by_oid(1007).unwrap();
        assert!(matches!(&array.kind, TypeKind::Array { element, delimiter: b',' } if element.name == "int4"));
        let boxes = by_oid(1020).unwrap();
        assert!(matches!(&boxes.kind, TypeKind::Array { element, delimiter: b';' } if element.name == "box"));
        assert_eq!(by_oid(22).unwrap().kind, TypeKind::Base);
        assert_eq!(by_oid(30).unwrap().kind, TypeKind::Base);
        let range = by_oid(3910).unwrap();
        assert!(matches!(&range.kind, TypeKind::Range { subtype } if subtype.name == "timestamptz"));
        let multirange = by_oid(4451).unwrap();
        assert!(matches!(&multirange.kind, TypeKind::Multirange { subtype } if subtype.name == "int4"));
        assert!(by_oid(16_384).is_none(), "oids from 16384 on are the user's");
    }
}
