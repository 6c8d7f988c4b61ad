//! The letter's schema. It is the same for every table: what differs is data.

/// The full name of the value's record.
pub(super) const RECORD_NAME: &str = "walferry.DeadLetter";

/// The value's schema.
pub(super) const SCHEMA: &str = concat!(
    r#"{"type":"record","name":"DeadLetter","namespace":"walferry","fields":["#,
    r#"{"name":"pipeline","type":"string"},"#,
    r#"{"name":"version","type":"string"},"#,
    r#"{"name":"database","type":"string"},"#,
    r#"{"name":"schema","type":["null","string"],"default":null},"#,
    r#"{"name":"table","type":["null","string"],"default":null},"#,
    r#"{"name":"topic","type":"string"},"#,
    r#"{"name":"reason","type":"string"},"#,
    r#"{"name":"error","type":"string"},"#,
    r#"{"name":"column","type":["null","string"],"default":null},"#,
    r#"{"name":"column_type","type":["null","string"],"default":null},"#,
    r#"{"name":"complete","type":"boolean"},"#,
    r#"{"name":"op","type":"string"},"#,
    r#"{"name":"commit_lsn","type":"long"},"#,
    r#"{"name":"ordinal","type":"long"},"#,
    r#"{"name":"changes","type":"long"},"#,
    r#"{"name":"lsn","type":"long"},"#,
    r#"{"name":"xid","type":["null","long"],"default":null},"#,
    r#"{"name":"previous_commit_lsn","type":["null","long"],"default":null},"#,
    r#"{"name":"commit_time","type":{"type":"long","logicalType":"timestamp-micros"}},"#,
    r#"{"name":"received_time","type":{"type":"long","logicalType":"timestamp-micros"}},"#,
    r#"{"name":"relation","type":["null",{"type":"record","name":"Relation","fields":["#,
    r#"{"name":"oid","type":"long"},"#,
    r#"{"name":"version","type":"long"},"#,
    r#"{"name":"replica_identity","type":"string"},"#,
    r#"{"name":"columns","type":{"type":"array","items":{"type":"record","name":"Column","fields":["#,
    r#"{"name":"name","type":"string"},"#,
    r#"{"name":"type","type":{"type":"record","name":"Type","fields":["#,
    r#"{"name":"oid","type":"long"},"#,
    r#"{"name":"schema","type":"string"},"#,
    r#"{"name":"name","type":"string"},"#,
    r#"{"name":"kind","type":"string"},"#,
    r#"{"name":"of","type":["null","Type"],"default":null},"#,
    r#"{"name":"typmod","type":["null","int"],"default":null},"#,
    r#"{"name":"delimiter","type":["null","string"],"default":null},"#,
    r#"{"name":"attributes","type":["null",{"type":"array","items":{"type":"record","name":"Attribute","fields":["#,
    r#"{"name":"name","type":"string"},"#,
    r#"{"name":"type","type":"Type"},"#,
    r#"{"name":"typmod","type":"int"}]}}],"default":null}]}},"#,
    r#"{"name":"typmod","type":"int"},"#,
    r#"{"name":"identity","type":"boolean"},"#,
    r#"{"name":"key","type":["null","int"],"default":null}]}}}]}],"default":null},"#,
    r#"{"name":"old","type":["null",{"type":"record","name":"OldRow","fields":["#,
    r#"{"name":"kind","type":"string"},"#,
    r#"{"name":"values","type":{"type":"array","items":{"type":"record","name":"Datum","fields":["#,
    r#"{"name":"kind","type":"string"},"#,
    r#"{"name":"value","type":["null","bytes"],"default":null},"#,
    r#"{"name":"size","type":["null","long"],"default":null}]}}}]}],"default":null},"#,
    r#"{"name":"new","type":["null",{"type":"array","items":"Datum"}],"default":null},"#,
    r#"{"name":"message","type":["null",{"type":"record","name":"LogicalMessage","fields":["#,
    r#"{"name":"prefix","type":"string"},"#,
    r#"{"name":"content","type":"Datum"}]}],"default":null}]}"#,
);

/// The kinds of a stored value.
pub(super) mod kind {
    pub(in super::super) const NULL: &str = "null";
    pub(in super::super) const UNCHANGED: &str = "unchanged";
    pub(in super::super) const TEXT: &str = "text";
    pub(in super::super) const BINARY: &str = "binary";
    /// Left out, since the letter would not fit.
    pub(in super::super) const CUT: &str = "cut";
    /// The text that a rule writes in the place of the value.
    pub(in super::super) const MASKED: &str = "masked";
    /// Left out, since a rule keeps the column's values from being shown.
    pub(in super::super) const HIDDEN: &str = "hidden";
}

/// The kinds of a stored type.
pub(super) mod type_kind {
    pub(in super::super) const BASE: &str = "base";
    pub(in super::super) const ENUM: &str = "enum";
    pub(in super::super) const DOMAIN: &str = "domain";
    pub(in super::super) const ARRAY: &str = "array";
    pub(in super::super) const COMPOSITE: &str = "composite";
    pub(in super::super) const RANGE: &str = "range";
    pub(in super::super) const MULTIRANGE: &str = "multirange";
    pub(in super::super) const OTHER: &str = "other";
}
