-- Takes a table from a role.
DROP POLICY IF EXISTS /*policy*/ ON /*table*/;
REVOKE SELECT ON /*table*/ FROM /*role*/
