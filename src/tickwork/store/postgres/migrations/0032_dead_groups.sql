-- SQLite gets an index for the groups of dead letters. PostgreSQL hashes the rows, which is quick, and an index
-- over types and error groups could exceed the size of its entries.
SELECT 1;
