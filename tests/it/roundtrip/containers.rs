//! Types that are made of others: domains, composite types, ranges.

use super::types::{Bounds, Type, row};
use fastrand::Rng;

/// What must be created before these types can be used.
pub struct Made {
    pub ddl: Vec<String>,
    pub types: Vec<Type>,
}

/// A domain over each, and one over that; over arrays and composites too.
pub fn domains(of: &[Type]) -> Made {
    let mut made = Made {
        ddl: Vec::new(),
        types: Vec::new(),
    };
    for (n, base) in of.iter().enumerate() {
        let (name, above) = (format!("dom_{n}"), format!("dom_{n}_above"));
        made.ddl.push(format!("CREATE DOMAIN {name} AS {}", base.name));
        made.types.push(base.under(&name));
        if n % 8 == 0 {
            made.ddl.push(format!("CREATE DOMAIN {above} AS {name}"));
            made.types.push(base.under(&above));
            made.types.push(base.under(&above).array());
            made.ddl.push(format!("CREATE DOMAIN {name}_list AS {}[]", base.name));
            made.types.push(base.array().under(&format!("{name}_list")));
            made.types.push(base.array().under(&format!("{name}_list")).array());
        }
    }
    made
}

/// A composite type of these attributes.
fn composite(name: &str, attributes: Vec<Type>) -> Type {
    let nulls: Vec<Option<String>> = vec![None; attributes.len()];
    Type::new(name, &[], move |rng| {
        let values: Vec<_> = attributes.iter().map(|attribute| attribute.any_or_null(rng)).collect();
        row(&values)
    })
    .with(row(&nulls))
}

/// One of all scalars; others of one attribute, of none, of a table's row, with names that Avro forbids, nested, with dropped
/// attributes; all within arrays, some within domains.
pub fn composites(scalars: &[Type]) -> Made {
    let attributes: Vec<String> = scalars
        .iter()
        .enumerate()
        .map(|(n, ty)| format!("a{n} {}", ty.name))
        .collect();
    let named = |name: &str| scalars.iter().find(|ty| ty.name == name).unwrap().clone();
    let (text, decimal) = (named("text"), named("numeric(12,2)"));
    let whole = composite("whole", scalars.to_vec());
    let one = composite("one", vec![text.clone()]);
    let nothing = Type::new("nothing", &["()"], |_| "()".to_owned());
    let rows = composite("a_row", vec![decimal.clone(), text.array()]);
    let pair = composite("\"the pair-\"", vec![text.clone(), decimal.clone()]);
    let outer = composite(
        "\"Outer\"",
        vec![
            whole.clone(),
            pair.array(),
            rows.clone(),
            named("mood").array(),
            pair.under("dom_pair"),
            nothing.clone(),
        ],
    );
    let ddl = vec![
        format!("CREATE TYPE whole AS ({})", attributes.join(", ")),
        "CREATE TYPE one AS (a text)".to_owned(),
        "CREATE TYPE nothing AS ()".to_owned(),
        "CREATE TABLE a_row (n numeric(12,2), gone int, texts text[]); ALTER TABLE a_row DROP COLUMN gone".to_owned(),
        "CREATE TYPE \"the pair-\" AS (\"1st größe\" text, n numeric(12,2))".to_owned(),
        "CREATE DOMAIN dom_pair AS \"the pair-\"".to_owned(),
        "CREATE TYPE \"Outer\" AS (w whole, first int, pairs \"the pair-\"[], r a_row, m mood[], d dom_pair, gone whole, n nothing); \
         ALTER TYPE \"Outer\" DROP ATTRIBUTE first; ALTER TYPE \"Outer\" DROP ATTRIBUTE gone"
            .to_owned(),
    ];
    let mut types = vec![whole, one, nothing, rows, pair.clone(), pair.under("dom_pair"), outer];
    let arrays: Vec<Type> = types.iter().map(Type::array).collect();
    types.extend(arrays);
    Made { ddl, types }
}

fn sorted<T: Ord>(mut values: Vec<T>) -> Vec<T> {
    values.sort_unstable();
    values
}

fn each<T: Ord>(
    rng: &mut Rng,
    count: usize,
    mut make: impl FnMut(&mut Rng) -> T,
    write: impl Fn(T) -> String,
) -> Vec<String> {
    let values = (0..count).map(|_| make(rng)).collect();
    sorted(values).into_iter().map(write).collect()
}

/// The ranges of the server and others over subtypes of every form. Multiranges too where there are any.
pub fn ranges(version: u32) -> Made {
    let custom = [
        ("textrange", "text, collation = \"C\""),
        ("floatrange", "float8"),
        ("realrange", "float4"),
        ("timerange", "time"),
        ("intervalrange", "interval"),
        ("inetrange", "inet"),
        ("uuidrange", "uuid"),
        ("byterange", "bytea"),
        ("moodrange", "mood"),
        ("pricerange", "price"),
        ("bitrange", "varbit"),
        ("jsonrange", "jsonb"),
        ("lsnrange", "pg_lsn"),
    ];
    let bounds = vec![
        Bounds::new("int4range", |rng, n| {
            each(rng, n, |r| r.i32(-1_000_000..1_000_000), |v| v.to_string())
        }),
        Bounds::new("int8range", |rng, n| {
            each(rng, n, |r| r.i64(..) >> 1, |v| v.to_string())
        }),
        Bounds::new("numrange", |rng, n| each(rng, n, |r| r.i32(..), |v| format!("{v}e-5"))),
        Bounds::new("daterange", |rng, n| {
            each(rng, n, |r| r.u32(1..109_000_000), |v| format!("J{v}"))
        }),
        Bounds::new("tsrange", |rng, n| {
            each(rng, n, |r| r.u32(1..109_203_000), |v| format!("J{v} 01:02:03.4"))
        }),
        Bounds::new("tstzrange", |rng, n| {
            each(rng, n, |r| r.u32(1..109_203_000), |v| format!("J{v} 01:02:03.4+05:30"))
        }),
        Bounds::new("textrange", |rng, n| each(rng, n, super::text::text, |v| v)),
        Bounds::new("floatrange", |rng, n| {
            let mut values: Vec<f64> = (0..n).map(|_| super::scalars::double(rng)).collect();
            values.sort_by(f64::total_cmp);
            values.iter().map(f64::to_string).collect()
        }),
        Bounds::of(
            "realrange",
            &["-Infinity", "-1e-45", "0", "0.1", "16777216", "3.4028235e38", "NaN"],
        ),
        Bounds::of("timerange", &["00:00", "00:00:00.000001", "12:34:56.7", "24:00:00"]),
        Bounds::of(
            "intervalrange",
            &[
                "-13 mons",
                "-00:00:00.5",
                "0",
                "1 day",
                "1 mon",
                "1 year 2 mons 3 days 04:05:06.7",
            ],
        ),
        Bounds::of(
            "inetrange",
            &[
                "10.0.0.0/8",
                "10.0.0.1",
                "192.168.0.1/24",
                "192.168.0.2",
                "::1",
                "2001:db8::/32",
            ],
        ),
        Bounds::new("uuidrange", |rng, n| {
            each(rng, n, |r| r.u128(..), |v| format!("{v:032x}"))
        }),
        Bounds::new("byterange", |rng, n| {
            each(rng, n, |r| r.u64(..), |v| format!("\\x{v:016x}"))
        }),
        Bounds::of("moodrange", super::MOODS),
        Bounds::of("pricerange", &["-1", "0.00", "0.01", "99999.99"]),
        Bounds::of("bitrange", &["", "0", "01", "1", "111"]),
        Bounds::of("jsonrange", &["null", "\"a \\\"b\\\" \\\\\"", "1", "1.50", "true"]),
        Bounds::of("lsnrange", &["0/0", "0/A", "16/B374D848", "FFFFFFFF/FFFFFFFF"]),
    ];
    let mut types = Vec::new();
    for bound in &bounds {
        types.push(bound.ranges());
        types.push(bound.ranges().array());
        if version >= 14 {
            types.push(bound.multiranges());
            types.push(bound.multiranges().array());
        }
    }
    Made {
        ddl: custom
            .iter()
            .map(|(name, subtype)| format!("CREATE TYPE {name} AS RANGE (subtype = {subtype})"))
            .collect(),
        types,
    }
}

/// Ranges whose bounds hold values of their own: known by their text alone.
pub fn ranges_of_containers() -> Made {
    let bounds = [
        Bounds::of("duorange", &["(\"\",1)", "(\"a \"\"b\",)", "(\"a b\",1)", "(b,)"]),
        Bounds::of("listrange", &["{}", "{1}", "{1,2}", "{2}", "{NULL}"]),
        Bounds::of("moneyrange", &["-1.5", "0", "1234.25"]),
    ];
    Made {
        ddl: vec![
            "CREATE TYPE duo AS (t text, n int)".to_owned(),
            "CREATE TYPE duorange AS RANGE (subtype = duo)".to_owned(),
            "CREATE TYPE listrange AS RANGE (subtype = int[])".to_owned(),
            "CREATE TYPE moneyrange AS RANGE (subtype = money)".to_owned(),
        ],
        types: bounds.iter().map(Bounds::ranges).collect(),
    }
}
