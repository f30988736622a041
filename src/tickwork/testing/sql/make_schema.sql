-- A place of its own for the tables of one test.
CREATE SCHEMA /*name*/
