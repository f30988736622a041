-- Locks the valid keys with the scope admin, in the order of their ids. Who waited for a lock sees
-- what was revoked meanwhile.
SELECT k.id
FROM tickwork_api_keys AS k
WHERE k.revoked_at IS NULL
    AND (k.expires_at IS NULL OR k.expires_at > coalesce($1, clock_timestamp()))
    AND $2 = ANY (string_to_array(k.scopes, ','))
ORDER BY k.id
FOR UPDATE
