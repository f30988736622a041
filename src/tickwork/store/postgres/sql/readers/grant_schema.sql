-- Lets a role use the schema of the tables.
GRANT USAGE ON SCHEMA /*schema*/ TO /*role*/
