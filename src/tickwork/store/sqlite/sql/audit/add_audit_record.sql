-- Stores a record of a change in a tenant that exists.
INSERT INTO tickwork_audit (id, tenant, at, actor, action, subject, before, after)
VALUES (?2, ?3, ?1, ?4, ?5, ?6, ?7, ?8)
