ALTER TABLE evolving ADD c numeric(6,2) NOT NULL DEFAULT 1.5, ADD d timestamptz(3);
UPDATE evolving SET b = 2;
INSERT INTO marker VALUES (51);
