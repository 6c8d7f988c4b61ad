//! Every type that is not made of others.

use super::text;
use super::types::Type;
use fastrand::Rng;

/// The server that has pgvector.
pub const WITH_PGVECTOR: u32 = 16;

/// Those that are read in both forms, on a server of this version.
pub fn scalars(version: u32) -> Vec<Type> {
    let mut types = numbers(version);
    types.extend(texts(version));
    types.extend(times(version));
    types.extend(addresses());
    types.extend(geometry());
    types.extend(system());
    if version == WITH_PGVECTOR {
        types.extend(vectors());
    }
    types
}

/// Those that are known by their text alone.
pub fn text_only() -> Vec<Type> {
    vec![
        Type::new(
            "money",
            &["92233720368547758.07", "-92233720368547758.08", "0", "-0.01"],
            |rng| cents(rng, i64::MAX),
        ),
        Type::new("regclass", &["pg_class", "\"größe t\"", "4294967295", "-"], |_| {
            "pg_type".to_owned()
        }),
        Type::new(
            "regtype",
            &["integer", "mood", "mood[]", "timestamp with time zone"],
            |_| "text".to_owned(),
        ),
        Type::new(
            "regprocedure",
            &["abs(integer)", "array_to_string(anyarray,text)"],
            |_| "now()".to_owned(),
        ),
        Type::new("regrole", &["postgres"], |_| "pg_monitor".to_owned()),
        Type::new("regconfig", &["english"], |_| "simple".to_owned()),
        Type::new("aclitem", &["postgres=r/postgres", "=arwd*/postgres"], |_| {
            "postgres=U*/postgres".to_owned()
        }),
        Type::new("cube", &["(1,2),(3,4)", "0", "(1e+300,-1e-300)"], |rng| {
            format!("({},{},{})", small(rng), small(rng), small(rng))
        }),
        Type::new("seg", &["1.50", "1.5 .. 2", "<5", "~6.5"], |rng| {
            rng.u16(..).to_string()
        }),
        Type::new("isbn13", &["978-0-393-04002-9"], |_| "978-0-11-000222-4".to_owned()),
    ]
}

fn numbers(version: u32) -> Vec<Type> {
    let nines = "9".repeat(1000);
    let mut types = vec![
        Type::new("boolean", &["t", "f"], |rng| rng.bool().to_string()),
        Type::new("smallint", &["-32768", "32767", "0"], |rng| rng.i16(..).to_string()),
        Type::new(
            "integer",
            &["-2147483648", "2147483647", "-1", "63", "64", "-64", "-65"],
            |rng| (rng.i32(..) >> rng.u32(..32)).to_string(),
        ),
        Type::new("bigint", &["-9223372036854775808", "9223372036854775807"], |rng| {
            (rng.i64(..) >> rng.u32(..64)).to_string()
        }),
        Type::new("oid", &["0", "4294967295"], |rng| rng.u32(..).to_string()),
        Type::new("xid8", &["0", "9223372036854775807"], |rng| {
            rng.u64(..1 << 63).to_string()
        }),
        Type::new("xid", &["0", "4294967295"], |rng| rng.u32(..).to_string()),
        Type::new("cid", &["0", "4294967295"], |rng| rng.u32(..).to_string()),
        Type::new(
            "real",
            &[
                "NaN",
                "Infinity",
                "-Infinity",
                "-0",
                "1e-45",
                "3.4028235e38",
                "16777216",
                "0.1",
                "1.17549435e-38",
            ],
            |rng| single(rng).to_string(),
        ),
        Type::new(
            "double precision",
            &[
                "NaN",
                "Infinity",
                "-Infinity",
                "-0",
                "5e-324",
                "1.7976931348623157e308",
                "2.2250738585072014e-308",
                "0.1",
                "0.30000000000000004",
                "9007199254740993",
                "1e22",
                "1e23",
            ],
            |rng| format!("{:e}", double(rng)),
        ),
        Type::new(
            "numeric",
            &[
                "NaN",
                "Infinity",
                "-Infinity",
                "0",
                "0.000",
                "-0.00",
                "1e30",
                "1e-20",
                "1e131071",
                "1e-16383",
            ],
            numeric,
        )
        .with(nines.as_str())
        .with(format!("-{nines}.{nines}"))
        .with(format!(".{nines}")),
        Type::new(
            "numeric(12,2)",
            &["9999999999.99", "-9999999999.99", "0", "-0.01", "0.005"],
            |rng| cents(rng, 999_999_999_999),
        ),
        Type::new("numeric(5,5)", &["0.99999", "-0.99999", "0.00001", "0"], |rng| {
            format!("{}0.{:05}", sign(rng), rng.u32(..100_000))
        }),
        Type::new(
            "numeric(38,10)",
            &["-0.0000000001", "9999999999999999999999999999.9999999999"],
            |rng| format!("{}{}.{}", sign(rng), digits(rng, 1..28), digits(rng, 1..10)),
        ),
        Type::new(
            "numeric(20,0)",
            &["18446744073709551615", "18446744073709551616", "-99999999999999999999"],
            |rng| format!("{}{}", sign(rng), digits(rng, 1..21)),
        ),
        Type::new("numeric(1000,500)", &["1", "-1"], |rng| {
            format!("{}{}.{}", sign(rng), digits(rng, 1..500), digits(rng, 1..500))
        })
        .with(&nines[..500])
        .with(format!("-{}.{}", &nines[..500], &nines[..500])),
    ];
    if version >= 15 {
        types.push(Type::new("numeric(5,-2)", &["9999900", "-150"], |rng| {
            rng.i32(-9_999_900..9_999_900).to_string()
        }));
        types.push(Type::new("numeric(3,5)", &["0.00999", "-0.00001"], |rng| {
            format!("{}0.00{:03}", sign(rng), rng.u32(..1000))
        }));
    }
    types
}

fn texts(version: u32) -> Vec<Type> {
    let all_bytes: String = (0..=255u8).map(|byte| format!("{byte:02x}")).collect();
    let mut char_edges = vec!["", " ", "\\", "\"", "{", "\u{7f}", "\u{1}"];
    // Before, no text gives a byte above 127 back.
    if version >= 16 {
        char_edges.extend(["\\200", "\\344", "\\377"]);
    }
    vec![
        Type::new("text", text::EDGES, text::text),
        Type::new("varchar(20)", &["", "   ", "a  "], |rng| text::short(rng, 20)),
        Type::new("character(7)", &["", "a", "größe"], |rng| text::short(rng, 7)),
        Type::new("bpchar", &["", "a  "], text::text),
        Type::new("name", &["", "größe"], |rng| text::short(rng, 15)),
        Type::new("\"char\"", &char_edges, |rng| char::from(rng.u8(1..128)).to_string()),
        Type::new("citext", &["Größe", ""], text::text),
        Type::new("json", text::JSON, |rng| text::json(rng, 3, true)),
        Type::new("jsonb", text::JSONB, |rng| text::json(rng, 3, false)),
        Type::new("jsonpath", text::JSONPATHS, |rng| {
            format!("$.a[{}] ? (@.b > {})", rng.u16(..), rng.i16(..))
        }),
        Type::new("xml", text::XML, text::xml),
        Type::new("mood", super::MOODS, |rng| {
            super::MOODS[rng.usize(..super::MOODS.len())].to_owned()
        }),
        Type::new("bytea", &["", "\\x00", "\\x5c78", "\\x27"], |rng| {
            let length = if rng.u32(..20) == 0 {
                rng.usize(1_000..5_000)
            } else {
                rng.usize(..40)
            };
            let hex: String = (0..length).map(|_| format!("{:02x}", rng.u8(..))).collect();
            format!("\\x{hex}")
        })
        .with(format!("\\x{all_bytes}")),
        Type::new(
            "uuid",
            &[
                "00000000-0000-0000-0000-000000000000",
                "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
            ],
            |rng| format!("{:032x}", rng.u128(..)),
        ),
        Type::new("tsvector", text::TSVECTORS, text::tsvector),
        Type::new("tsquery", text::TSQUERIES, |rng| text::tsquery(rng, 4)),
        Type::new(
            "hstore",
            &["", "a=>NULL", "\"\"=>\"\"", "\"a\"=>\"NULL\""],
            text::hstore,
        ),
        Type::new("ltree", &["", "a", "Top.Science.A_1"], text::ltree),
        Type::new("lquery", &["*", "a.*{1,3}.b", "!x|y@*%.c", "a.b*@.*{2,}"], |rng| {
            format!("*.{}", text::ltree(rng))
        }),
        Type::new("ltxtquery", &["a & b@* | !c", "a"], |rng| {
            format!("{} & !b%", rng.alphabetic())
        }),
        Type::new("refcursor", &["", "größe"], text::text),
    ]
}

/// A day that no calendar has a say in.
fn julian(rng: &mut Rng, end: u32) -> u32 {
    if rng.bool() {
        rng.u32(1_721_426..5_373_485)
    } else {
        rng.u32(..end)
    }
}

fn clock(rng: &mut Rng) -> String {
    let time = format!("{:02}:{:02}:{:02}", rng.u32(..24), rng.u32(..60), rng.u32(..60));
    match rng.u32(..3) {
        0 => time,
        1 => format!("{time}.{:03}", rng.u32(..1000)),
        _ => format!("{time}.{:06}", rng.u32(..1_000_000)),
    }
}

fn zone(rng: &mut Rng) -> String {
    let sign = if rng.bool() { '+' } else { '-' };
    match rng.u32(..3) {
        0 => format!("{sign}{:02}", rng.u32(..16)),
        1 => format!("{sign}{:02}:{:02}", rng.u32(..16), rng.u32(..60)),
        _ => format!("{sign}{:02}:{:02}:{:02}", rng.u32(..16), rng.u32(..60), rng.u32(..60)),
    }
}

/// The Julian days after the last date, and of the last timestamp that a long can hold.
const DATES_END: u32 = 2_147_483_494;
const TIMESTAMPS_END: u32 = 109_192_579;

fn times(version: u32) -> Vec<Type> {
    let timestamps = &[
        "infinity",
        "-infinity",
        "4714-11-24 00:00:00 BC",
        "4713-01-01 00:00:00 BC",
        "0044-03-15 12:00:00.000001 BC",
        "0001-12-31 23:59:59.999999 BC",
        "1582-10-04 00:00:00",
        "1582-10-14 23:59:59.999999",
        "1969-12-31 23:59:59.999999",
        "1970-01-01 00:00:00",
        "2024-02-29 24:00:00",
        "9999-12-31 23:59:59.999999",
        "10000-01-01 00:00:00",
        "294247-01-10 04:00:54.775806",
    ];
    let mut intervals = vec![
        "0",
        "1 year 2 mons 3 days 04:05:06.7",
        "-1 mon 3 days -04:05:06.000001",
        "1 mon -1 day 00:00:00.000001",
        "-13 mons",
        "-00:00:00.5",
        "25:00:00",
        "40 days",
        "178956970 years 7 mons",
        "-178956970 years -8 mons",
        "2147483647 days -2147483647:59:59.999999",
    ];
    if version >= 17 {
        intervals.extend(["infinity", "-infinity"]);
    }
    let interval = |rng: &mut Rng| {
        let shift = rng.u32(..31);
        let (months, days) = (rng.i32(i32::MIN + 1..) >> shift, rng.i32(i32::MIN + 1..) >> shift);
        let time = format!(
            "{}{}:{:02}:{:02}.{:06}",
            sign(rng),
            rng.u32(..1 << 31) >> shift,
            rng.u32(..60),
            rng.u32(..60),
            rng.u32(..1_000_000)
        );
        match rng.u32(..4) {
            0 => format!("{months} mons"),
            1 => format!("{days} days"),
            2 => time,
            _ => format!("{months} mons {days} days {time}"),
        }
    };
    vec![
        Type::new(
            "date",
            &[
                "infinity",
                "-infinity",
                "4714-11-24 BC",
                "4713-01-01 BC",
                "0001-12-31 BC",
                "0001-01-01",
                "1582-10-04",
                "1582-10-15",
                "1969-12-31",
                "1970-01-01",
                "2024-02-29",
                "9999-12-31",
                "10000-01-01",
                "5874897-12-31",
            ],
            |rng| format!("J{}", julian(rng, DATES_END)),
        ),
        Type::new(
            "time",
            &["00:00", "24:00:00", "23:59:59.999999", "00:00:00.000001"],
            clock,
        ),
        Type::new("time(2)", &["24:00:00", "12:34:56.789"], clock),
        Type::new(
            "timetz",
            &[
                "24:00:00+00",
                "00:00:00+15:59:59",
                "23:59:59.999999-15:59:59",
                "12:34:56.7+05:30",
                "12:00+00:00:01",
                "12:00-00:00:01",
            ],
            |rng| format!("{}{}", clock(rng), zone(rng)),
        ),
        Type::new("timestamp", timestamps, |rng| {
            format!("J{} {}", julian(rng, TIMESTAMPS_END), clock(rng))
        }),
        Type::new("timestamp(3)", &["infinity", "1969-12-31 23:59:59.9996"], |rng| {
            format!("J{} {}", julian(rng, TIMESTAMPS_END), clock(rng))
        }),
        Type::new("timestamptz", timestamps, |rng| {
            format!(
                "J{} {}{}",
                julian(rng, TIMESTAMPS_END - 1).max(1),
                clock(rng),
                zone(rng)
            )
        }),
        Type::new("interval", &intervals, interval),
        Type::new("interval day to second(1)", &["1 day -00:00:00.15"], |rng| {
            format!("{} days {}", rng.i16(..), clock(rng))
        }),
    ]
}

fn addresses() -> Vec<Type> {
    fn v6(rng: &mut Rng, keep: u32) -> String {
        let zeros = rng.u8(..) & rng.u8(..);
        let mut address = 0u128;
        for at in 0..8 {
            let word = if zeros >> at & 1 == 1 { 0 } else { rng.u16(..) };
            address = address << 16 | u128::from(word);
        }
        let kept = if keep == 0 {
            0
        } else {
            address >> (128 - keep) << (128 - keep)
        };
        let words: Vec<String> = (0..8)
            .map(|at| format!("{:x}", kept >> (112 - 16 * at) & 0xffff))
            .collect();
        words.join(":")
    }
    fn v4(rng: &mut Rng, keep: u32) -> String {
        let address = rng.u32(..);
        let kept = if keep == 0 {
            0
        } else {
            address >> (32 - keep) << (32 - keep)
        };
        std::net::Ipv4Addr::from(kept).to_string()
    }
    vec![
        Type::new(
            "inet",
            &[
                "192.168.0.1/24",
                "0.0.0.0/0",
                "255.255.255.255",
                "::",
                "::1/0",
                "::ffff:1.2.3.4",
                "::1.2.3.4",
                "1::/16",
                "1:0:0:2::3/127",
            ],
            |rng| match rng.u32(..4) {
                0 => v4(rng, 32),
                1 => format!("{}/{}", v4(rng, 32), rng.u32(..33)),
                2 => v6(rng, 128),
                _ => format!("{}/{}", v6(rng, 128), rng.u32(..129)),
            },
        ),
        Type::new(
            "cidr",
            &["10.0.0.0/8", "0.0.0.0/0", "::/0", "10.1.2.3/32", "2001:db8::/32"],
            |rng| {
                if rng.bool() {
                    let bits = rng.u32(..33);
                    format!("{}/{bits}", v4(rng, bits))
                } else {
                    let bits = rng.u32(..129);
                    format!("{}/{bits}", v6(rng, bits))
                }
            },
        ),
        Type::new("macaddr", &["08:00:2B:01:02:03"], |rng| {
            format!("{:012x}", rng.u64(..1 << 48))
        }),
        Type::new("macaddr8", &["08:00:2b:01:02:03:04:05"], |rng| {
            format!("{:016x}", rng.u64(..))
        }),
        Type::new("bit(9)", &["000000000", "111111111"], |rng| bits(rng, 9)),
        Type::new("bit(1)", &["0", "1"], |rng| bits(rng, 1)),
        Type::new("bit varying", &["", "1", "00000000"], |rng| {
            let count = rng.usize(..70);
            bits(rng, count)
        }),
        Type::new("bit varying(20)", &["", "10101010101010101010"], |rng| {
            let count = rng.usize(..20);
            bits(rng, count)
        }),
    ]
}

fn geometry() -> Vec<Type> {
    fn point(rng: &mut Rng) -> String {
        format!("({},{})", coordinate(rng), coordinate(rng))
    }
    fn points(rng: &mut Rng) -> String {
        let count = rng.usize(1..5);
        (0..count).map(|_| point(rng)).collect::<Vec<_>>().join(",")
    }
    let mut boxes = Type::new("box", &["(1,1),(0,0)", "(0,0),(0,0)", "(-0,1e300),(1e-300,5)"], |rng| {
        format!("{},{}", point(rng), point(rng))
    });
    boxes.delimiter = ';';
    vec![
        Type::new(
            "point",
            &["(0.1,2)", "(NaN,Infinity)", "(-0,1e+300)", "(1e15,1e-5)"],
            point,
        ),
        Type::new("line", &["{1,-1,0.5}", "{0,1,-0}"], |rng| {
            format!("{{{},1.5,{}}}", coordinate(rng), coordinate(rng))
        }),
        Type::new("lseg", &["[(0,0),(1,1)]"], |rng| {
            format!("[{},{}]", point(rng), point(rng))
        }),
        boxes,
        Type::new("path", &["[(0,0)]", "((0,0))"], |rng| {
            if rng.bool() {
                format!("[{}]", points(rng))
            } else {
                format!("({})", points(rng))
            }
        }),
        Type::new("polygon", &["((0,0),(1,1),(1,0))"], |rng| format!("({})", points(rng))),
        Type::new("circle", &["<(0,0),0>", "<(1,2),1e300>"], |rng| {
            format!("<{},{}>", point(rng), coordinate(rng).abs())
        }),
    ]
}

fn vectors() -> Vec<Type> {
    let numbers = |rng: &mut Rng, count: usize, number: fn(&mut Rng) -> f32| {
        let numbers: Vec<String> = (0..count).map(|_| number(rng).to_string()).collect();
        format!("[{}]", numbers.join(","))
    };
    vec![
        Type::new(
            "vector(3)",
            &["[1,2.5,-3]", "[0,-0,1e-45]", "[3.4028235e38,-1e-30,0.1]"],
            move |rng| numbers(rng, 3, single),
        ),
        Type::new("vector", &["[1]"], move |rng| {
            let count = rng.usize(1..50);
            numbers(rng, count, single)
        }),
        Type::new("halfvec", &["[65504,-5.9604645e-08,-0]", "[0.1]"], move |rng| {
            let count = rng.usize(1..50);
            numbers(rng, count, |rng| f32::from(rng.i16(..)) / 512.0)
        }),
    ]
}

fn system() -> Vec<Type> {
    let snapshot = |rng: &mut Rng| {
        let mut ids: Vec<u64> = (0..rng.usize(..5)).map(|_| rng.u64(10..1 << 40)).collect();
        ids.sort_unstable();
        ids.dedup();
        let (first, last) = (
            ids.first().copied().unwrap_or(10),
            ids.last().map_or(10, |last| last + 1),
        );
        let listed: Vec<String> = ids.iter().map(u64::to_string).collect();
        format!("{first}:{last}:{}", listed.join(","))
    };
    vec![
        Type::new("pg_lsn", &["0/0", "FFFFFFFF/FFFFFFFF", "16/B374D848", "1/0"], |rng| {
            format!("{:X}/{:X}", rng.u32(..) >> rng.u32(..32), rng.u32(..) >> rng.u32(..32))
        }),
        Type::new("tid", &["(0,0)", "(4294967295,65535)"], |rng| {
            format!("({},{})", rng.u32(..), rng.u16(..))
        }),
        Type::new("pg_snapshot", &["1:1:"], snapshot),
        Type::new("txid_snapshot", &["1:1:"], snapshot),
        Type::new("int2vector", &["", "1 2 -3", "-32768 32767"], |rng| {
            rng.i16(..).to_string()
        }),
        Type::new("oidvector", &["", "0 4294967295"], |rng| rng.u32(..).to_string()),
    ]
}

fn sign(rng: &mut Rng) -> &'static str {
    if rng.bool() { "-" } else { "" }
}

fn digits(rng: &mut Rng, length: std::ops::Range<usize>) -> String {
    let length = rng.usize(length);
    (0..length).map(|_| rng.digit(10)).collect()
}

fn bits(rng: &mut Rng, count: usize) -> String {
    (0..count).map(|_| rng.digit(2)).collect()
}

fn cents(rng: &mut Rng, bound: i64) -> String {
    let cents = rng.i64(0..=bound) >> rng.u32(..60);
    format!("{}{}.{:02}", sign(rng), cents / 100, cents % 100)
}

fn numeric(rng: &mut Rng) -> String {
    let longest = if rng.u32(..20) == 0 { 1_000 } else { 30 };
    let (whole, fraction) = (digits(rng, 1..longest), digits(rng, 1..longest));
    match rng.u32(..4) {
        0 => format!("{}{whole}", sign(rng)),
        1 => format!("{}{whole}e{}", sign(rng), rng.i32(-60..60)),
        _ => format!("{}{whole}.{fraction}", sign(rng)),
    }
}

fn single(rng: &mut Rng) -> f32 {
    match f32::from_bits(rng.u32(..)) {
        number if number.is_finite() => number,
        _ => f32::from(rng.i16(..)) / 8.0,
    }
}

/// Any finite number, among them those next to powers of two and ten.
pub fn double(rng: &mut Rng) -> f64 {
    let number = match rng.u32(..4) {
        0 => 10f64.powi(rng.i32(-300..300)) * f64::from(rng.i16(..)),
        1 => f64::from_bits(rng.u64(..2048) << 52),
        2 => f64::from(rng.i32(..)) / 1024.0,
        _ => f64::from_bits(rng.u64(..)),
    };
    if number.is_finite() { number } else { -0.0 }
}

fn small(rng: &mut Rng) -> f64 {
    f64::from(rng.i16(..)) / 8.0
}

fn coordinate(rng: &mut Rng) -> f64 {
    if rng.bool() { small(rng) } else { double(rng) }
}
