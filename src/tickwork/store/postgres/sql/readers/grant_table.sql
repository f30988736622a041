-- Lets a role read some rows of a table.
ALTER TABLE /*table*/ ENABLE ROW LEVEL SECURITY;
DROP POLICY IF EXISTS /*policy*/ ON /*table*/;
CREATE POLICY /*policy*/ ON /*table*/ FOR SELECT TO /*role*/ USING (/*condition*/);
COMMENT ON POLICY /*policy*/ ON /*table*/ IS /*tenant_id*/;
GRANT SELECT ON /*table*/ TO /*role*/
