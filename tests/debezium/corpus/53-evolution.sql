ALTER TABLE evolving ALTER b TYPE int8, ALTER a TYPE varchar(20), ADD m mood DEFAULT 'sad';
UPDATE evolving SET b = 9999999999;
INSERT INTO marker VALUES (53);
