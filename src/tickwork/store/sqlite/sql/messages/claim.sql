-- Claims messages, each with a new claim number. A slot that is claimed for the first time, later than its
-- grace, is a catch-up. Claims are counted (`?5`) if there is a cap.
UPDATE tickwork_messages
SET state = 'claimed', claim = claim + 1, holder = ?1, claimed_at = ?4, lease_until = ?2,
    is_counted = ?5, catch_up = catch_up OR (/*on_time_until*/ < ?4) IS TRUE
WHERE place IN (SELECT value FROM json_each(?3))
