-- What a key is checked against: the key, the hashes of its secrets, and its tenant's state.
SELECT /*api_key*/, k.secret_hash, k.previous_hash, t.suspended
FROM tickwork_api_keys AS k
JOIN tickwork_tenants AS t ON t.id = k.tenant
WHERE k.id = ?1
