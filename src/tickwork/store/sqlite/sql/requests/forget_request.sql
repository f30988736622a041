-- Forgets a request that failed.
DELETE FROM tickwork_requests WHERE tenant = ?1 AND key = ?2 AND seed = ?3 AND answer IS NULL
