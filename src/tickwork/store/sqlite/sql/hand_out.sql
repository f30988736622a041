-- Hands messages out, each with a new claim number.
UPDATE tickwork_messages SET state = 'claimed', claim = claim + 1, holder = ?1, lease_until = ?2
WHERE place IN (SELECT value FROM json_each(?3))
