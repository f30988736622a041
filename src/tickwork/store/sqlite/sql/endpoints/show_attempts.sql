-- Shows an attempt on its delivery, whose message may be a new one.
UPDATE tickwork_deliveries
SET message_id = ?2, attempts = attempts + 1, last_attempt_at = ?3, last_code = ?4, last_error = ?5,
    delivered_at = coalesce(delivered_at, ?6)
WHERE id = ?1
