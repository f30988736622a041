-- Replaces the secret of a key that is not revoked; the one before stays valid for some seconds.
UPDATE tickwork_api_keys AS k
SET previous_hash = k.secret_hash,
    previous_until = coalesce($1, clock_timestamp()) + make_interval(secs => $5),
    secret_hash = $4
WHERE k.id = $2 AND ($3::text IS NULL OR k.tenant = $3) AND k.revoked_at IS NULL
RETURNING /*api_key*/
