INSERT INTO evolving VALUES (1, 'one', 1);
INSERT INTO marker VALUES (50);
