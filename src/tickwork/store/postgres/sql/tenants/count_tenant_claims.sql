-- Starts counting the claims of a tenant for its quota, including present claims.
UPDATE tickwork_messages SET is_counted = true
WHERE tenant = $1 AND state = 'claimed' AND NOT is_counted
