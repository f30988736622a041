-- How many sessions of a tenant have not expired, nor ended with their key, counted up to a limit.
SELECT count(*) AS sessions FROM (
    SELECT 1 FROM tickwork_sessions AS s
    CROSS JOIN tickwork_api_keys AS k ON k.id = s.key_id AND k.revoked_at IS NULL
    WHERE s.tenant = ?2 AND s.expires_at > ?1
    LIMIT ?3
)
