-- The valid keys with the scope admin, in the order of their ids. The transaction writes, so it is
-- alone.
SELECT id
FROM tickwork_api_keys
WHERE revoked_at IS NULL
    AND (expires_at IS NULL OR expires_at > ?1)
    AND instr(',' || scopes || ',', ',' || ?2 || ',') > 0
ORDER BY id
