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
        Kind::Array(element) => TypeKind::Array {
            element: Arc::new(from_builtin(element)),
        },
        Kind::Range(_) | Kind::Multirange(_) => TypeKind::Range,
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
        assert!(matches!(&array.kind, TypeKind::Array { element } if element.name == "int4"));
        assert!(by_oid(16_384).is_none(), "oids from 16384 on are the user's");
    }
}
