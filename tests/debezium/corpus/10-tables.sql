-- No domain over an enum: where there is one, the connector (3.6.1) does not start. Statements end with a semicolon at the end of a line, and are run one by one. What a file does is read by the connector before
-- the next file runs: both look at the catalog.
CREATE EXTENSION citext;
CREATE EXTENSION hstore;
CREATE EXTENSION ltree;
CREATE EXTENSION isn;
CREATE EXTENSION cube;
CREATE TYPE mood AS ENUM ('sad', 'so, so', 'it''s fine', 'größer');
CREATE TYPE point3 AS (x float8, y float8, label text);
CREATE DOMAIN quantity AS int CHECK (VALUE >= 0);
CREATE DOMAIN price AS numeric(10,2);
CREATE DOMAIN discount AS price;
CREATE DOMAIN code AS varchar(8);
CREATE DOMAIN moment AS timestamp(3);
CREATE DOMAIN tags AS text[];
CREATE DOMAIN flags AS bit(4);

CREATE TABLE marker (n int PRIMARY KEY);

-- Every scalar that can be NULL, and then the same that cannot.
CREATE TABLE numbers (id int PRIMARY KEY, b bool, i2 int2, i4 int4, i8 int8, o oid, f4 float4, f8 float8, n numeric, n5 numeric(5), n10_2 numeric(10,2), n38_38 numeric(38,38), m money);
CREATE TABLE numbers_nn (id int PRIMARY KEY, b bool NOT NULL, i2 int2 NOT NULL, i4 int4 NOT NULL, i8 int8 NOT NULL, o oid NOT NULL, f4 float4 NOT NULL, f8 float8 NOT NULL, n numeric NOT NULL, n5 numeric(5) NOT NULL, n10_2 numeric(10,2) NOT NULL, n38_38 numeric(38,38) NOT NULL, m money NOT NULL);
CREATE TABLE texts (id int PRIMARY KEY, t text, v varchar, v10 varchar(10), c char, c5 char(5), q "char", n name, ci citext, x xml, j json, jb jsonb, by bytea, u uuid, ts tsvector, l ltree, h hstore);
CREATE TABLE isbns (id int PRIMARY KEY, i isbn);
CREATE TABLE texts_nn (id int PRIMARY KEY, t text NOT NULL, v varchar NOT NULL, v10 varchar(10) NOT NULL, c char NOT NULL, c5 char(5) NOT NULL, ci citext NOT NULL, x xml NOT NULL, j json NOT NULL, jb jsonb NOT NULL, by bytea NOT NULL, u uuid NOT NULL, ts tsvector NOT NULL, l ltree NOT NULL, h hstore NOT NULL);
CREATE TABLE times (id int PRIMARY KEY, d date, t time, t0 time(0), t3 time(3), t6 time(6), tz timetz, tz3 timetz(3), ts timestamp, ts0 timestamp(0), ts3 timestamp(3), ts4 timestamp(4), ts6 timestamp(6), tt timestamptz, tt0 timestamptz(0), tt3 timestamptz(3), tt6 timestamptz(6), i interval, i2 interval(2));
CREATE TABLE times_nn (id int PRIMARY KEY, d date NOT NULL, t time NOT NULL, t3 time(3) NOT NULL, tz timetz NOT NULL, ts timestamp NOT NULL, ts3 timestamp(3) NOT NULL, tt timestamptz NOT NULL, i interval NOT NULL);
CREATE TABLE others (id int PRIMARY KEY, i inet, c cidr, m macaddr, m8 macaddr8, b bit, b9 bit(9), vb varbit, vb1 varbit(1), vb20 varbit(20), r4 int4range, r8 int8range, rn numrange, rd daterange, rt tsrange, rz tstzrange, p point);
CREATE TABLE others_nn (id int PRIMARY KEY, i inet NOT NULL, b bit NOT NULL, b9 bit(9) NOT NULL, vb varbit NOT NULL, r4 int4range NOT NULL, p point NOT NULL);
-- Types that the connector has no form for, or had none for long.
CREATE TABLE unhandled (id int PRIMARY KEY, x xid, x8 xid8, l pg_lsn, tq tsquery, mr int4multirange, lq lquery, cu cube, cp point3, rc regclass, jp jsonpath, bo box, ls lseg, pa path, po polygon, li line, ci circle, last int);
CREATE TABLE userdefined (id int PRIMARY KEY, m mood, m_nn mood NOT NULL, q quantity, p price, d discount, c code, mo moment, tg tags, fl flags, q_nn quantity NOT NULL);
CREATE TABLE arrays (id int PRIMARY KEY, b bool[], i2 int2[], i4 int4[], i8 int8[], o oid[], f4 float4[], f8 float8[], n numeric[], n10_2 numeric(10,2)[], t text[], v10 varchar(10)[], c5 char(5)[], ci citext[], j json[], jb jsonb[], u uuid[], by bytea[]);
CREATE TABLE arrays2 (id int PRIMARY KEY, d date[], t time[], t3 time(3)[], tz timetz[], ts timestamp[], ts3 timestamp(3)[], tt timestamptz[], i inet[], c cidr[], m macaddr[], r4 int4range[], rn numrange[], rz tstzrange[], e mood[], h hstore[], l ltree[], last int);
CREATE TABLE arrays_nn (id int PRIMARY KEY, i4 int4[] NOT NULL, t text[] NOT NULL, n numeric[] NOT NULL, e mood[] NOT NULL, tt timestamptz[] NOT NULL);
CREATE TABLE arrays_unhandled (id int PRIMARY KEY, m money[], na name[], iv interval[], vb varbit[], x xml[], p point[], q quantity[], pr price[], b3 bit(3)[], cp point3[], last int);

-- Defaults, which stand in the schema.
CREATE TABLE defaults (id serial PRIMARY KEY, b bool DEFAULT true, i2 int2 DEFAULT 7, i4 int4 DEFAULT -5, i8 int8 DEFAULT 9223372036854775807, f4 float4 DEFAULT 1.5, f8 float8 DEFAULT 2.25, n numeric DEFAULT 12.3450, n10_2 numeric(10,2) DEFAULT 1.5, t text DEFAULT 'it''s "q"', v10 varchar(10) DEFAULT 'abc', c5 char(5) DEFAULT 'ab', j json DEFAULT '{"a": 1}', jb jsonb DEFAULT '{"b": [1, 2]}', u uuid DEFAULT '00112233-4455-6677-8899-aabbccddeeff', d date DEFAULT '2024-02-29', t6 time DEFAULT '12:34:56.789', ts timestamp DEFAULT '2024-02-29 12:34:56.789012', ts3 timestamp(3) DEFAULT '2024-02-29 12:34:56.789', tt timestamptz DEFAULT '2024-02-29 12:34:56+00', i interval DEFAULT '1 day 02:00:00', bi bit(3) DEFAULT B'101', b1 bit DEFAULT B'1', m mood DEFAULT 'so, so', m2 mood DEFAULT 'it''s fine', by bytea DEFAULT '\x00ff', arr int[] DEFAULT '{1,2}', x xml DEFAULT '<a/>', q quantity DEFAULT 3, mo money DEFAULT 1.25, ip inet DEFAULT '10.0.0.1', nul text DEFAULT NULL);
CREATE TABLE defaults_nn (id int GENERATED ALWAYS AS IDENTITY PRIMARY KEY, b bool NOT NULL DEFAULT false, i2 int2 NOT NULL DEFAULT 0, i4 int4 NOT NULL DEFAULT 2147483647, i8 int8 NOT NULL DEFAULT 0, f8 float8 NOT NULL DEFAULT 0.1, n numeric NOT NULL DEFAULT 0, n10_2 numeric(10,2) NOT NULL DEFAULT 100, t text NOT NULL DEFAULT '', u uuid NOT NULL DEFAULT gen_random_uuid(), ts timestamp NOT NULL DEFAULT now(), tt timestamptz NOT NULL DEFAULT CURRENT_TIMESTAMP, d date NOT NULL DEFAULT CURRENT_DATE, t6 time NOT NULL DEFAULT LOCALTIME, up text NOT NULL DEFAULT upper('x'), sum int NOT NULL DEFAULT 1 + 2, jb jsonb NOT NULL DEFAULT jsonb_build_object(), m mood NOT NULL DEFAULT 'sad', i interval NOT NULL DEFAULT '1 mon', vb varbit NOT NULL DEFAULT B'110', big int8 NOT NULL DEFAULT nextval('defaults_id_seq'), neg numeric NOT NULL DEFAULT -1.50, cast_t text NOT NULL DEFAULT 5::text);
CREATE TABLE generated (id int PRIMARY KEY, a int, twice int GENERATED ALWAYS AS (a * 2) STORED);

-- Shapes of tables.
CREATE TABLE id_default (id int PRIMARY KEY, v text, w int);
CREATE TABLE id_full (id int PRIMARY KEY, v text, w int);
ALTER TABLE id_full REPLICA IDENTITY FULL;
CREATE TABLE id_index (id int PRIMARY KEY, code text NOT NULL, w int);
CREATE UNIQUE INDEX id_index_code ON id_index (code);
ALTER TABLE id_index REPLICA IDENTITY USING INDEX id_index_code;
CREATE TABLE id_nothing (id int PRIMARY KEY, v text);
ALTER TABLE id_nothing REPLICA IDENTITY NOTHING;
CREATE TABLE no_key (a int, b text);
CREATE TABLE no_key_full (a int, b text NOT NULL);
ALTER TABLE no_key_full REPLICA IDENTITY FULL;
CREATE TABLE composite_key (a text, v int, b int, c date, PRIMARY KEY (c, b, a));
CREATE TABLE key_types (u uuid, n numeric(10,2), tt timestamptz, v text, PRIMARY KEY (u, n, tt));
CREATE TABLE key_default (id int DEFAULT 5 PRIMARY KEY, v text);
CREATE TABLE parts (id int, region text, v numeric(8,3), PRIMARY KEY (id, region)) PARTITION BY LIST (region);
CREATE TABLE parts_eu PARTITION OF parts FOR VALUES IN ('eu');
CREATE TABLE parts_us (v numeric(8,3), region text NOT NULL, id int NOT NULL, PRIMARY KEY (id, region));
ALTER TABLE parts ATTACH PARTITION parts_us FOR VALUES IN ('us');
CREATE TABLE only_key (id int PRIMARY KEY);
CREATE TABLE "Mixed-Case" ("order-id" int PRIMARY KEY, "größe" text, "1st" int, "a b" int);
CREATE SCHEMA other;
CREATE TABLE other.id_default (id int PRIMARY KEY, v text);
CREATE TABLE evolving (id int PRIMARY KEY, a text, b int);
CREATE TABLE emptied_a (id int PRIMARY KEY);
CREATE TABLE emptied_b (id int PRIMARY KEY);

-- Values that TOAST leaves out of an update.
CREATE TABLE toast (id int PRIMARY KEY, n int, t text, v varchar(8000), c char(3000), by bytea, j json, jb jsonb, x xml, ci citext, h hstore, nu numeric, nd numeric(1000,0), ts tsvector, bi varbit, r numrange, m text);
CREATE TABLE toast_nn (id int PRIMARY KEY, n int, t text NOT NULL, by bytea NOT NULL, jb jsonb NOT NULL);
CREATE TABLE toast_arrays (id int PRIMARY KEY, n int, ta text[], va varchar(10)[], i2a int2[], i4a int4[], i8a int8[], f8a float8[], na numeric[], da date[], ua uuid[], ba bytea[], ja json[], jba jsonb[], tta timestamptz[], ea mood[]);
CREATE TABLE toast_full (id int PRIMARY KEY, n int, t text, by bytea);
ALTER TABLE toast_full REPLICA IDENTITY FULL;
ALTER TABLE toast ALTER t SET STORAGE EXTERNAL, ALTER v SET STORAGE EXTERNAL, ALTER c SET STORAGE EXTERNAL, ALTER by SET STORAGE EXTERNAL, ALTER j SET STORAGE EXTERNAL, ALTER jb SET STORAGE EXTERNAL, ALTER x SET STORAGE EXTERNAL, ALTER ci SET STORAGE EXTERNAL, ALTER h SET STORAGE EXTERNAL, ALTER nu SET STORAGE EXTERNAL, ALTER nd SET STORAGE EXTERNAL, ALTER ts SET STORAGE EXTERNAL, ALTER bi SET STORAGE EXTERNAL, ALTER r SET STORAGE EXTERNAL;
ALTER TABLE toast_nn ALTER t SET STORAGE EXTERNAL, ALTER by SET STORAGE EXTERNAL, ALTER jb SET STORAGE EXTERNAL;
ALTER TABLE toast_arrays ALTER ta SET STORAGE EXTERNAL, ALTER va SET STORAGE EXTERNAL, ALTER i2a SET STORAGE EXTERNAL, ALTER i4a SET STORAGE EXTERNAL, ALTER i8a SET STORAGE EXTERNAL, ALTER f8a SET STORAGE EXTERNAL, ALTER na SET STORAGE EXTERNAL, ALTER da SET STORAGE EXTERNAL, ALTER ua SET STORAGE EXTERNAL, ALTER ba SET STORAGE EXTERNAL, ALTER ja SET STORAGE EXTERNAL, ALTER jba SET STORAGE EXTERNAL, ALTER tta SET STORAGE EXTERNAL, ALTER ea SET STORAGE EXTERNAL;
ALTER TABLE toast_full ALTER t SET STORAGE EXTERNAL, ALTER by SET STORAGE EXTERNAL;

CREATE PUBLICATION corpus FOR ALL TABLES WITH (publish_via_partition_root = true);
