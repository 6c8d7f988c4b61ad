-- What a pipeline needs in Postgres, with the least rights: see docs/postgres.md.
CREATE ROLE walferry LOGIN REPLICATION PASSWORD 'walferry';

CREATE TABLE public.orders (
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    customer text NOT NULL,
    total numeric(12, 2) NOT NULL,
    placed_at timestamptz NOT NULL DEFAULT now()
);

-- For the rows that are there before the pipeline: the stream itself needs no right to the table.
GRANT SELECT ON public.orders TO walferry;

CREATE PUBLICATION shop FOR TABLE public.orders;
