ALTER TABLE evolving RENAME a TO a_renamed;
ALTER TYPE mood ADD VALUE 'new';
ALTER TABLE evolving ADD e int;
UPDATE evolving SET m = 'new';
DELETE FROM evolving;
INSERT INTO marker VALUES (54);
