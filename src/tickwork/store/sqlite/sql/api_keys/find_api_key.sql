-- What a key is checked against: the key, the hashes of its secrets, its tenant's state, and the time.
SELECT /*api_key*/, k.secret_hash, k.previous_hash, t.suspended, ?1 AS read_at
FROM tickwork_api_keys AS k
JOIN tickwork_tenants AS t ON t.id = k.tenant
WHERE k.id = ?2
