-- Creates a schema for the tables of one test.
CREATE SCHEMA /*name*/
