-- Pauses everything (`$2`) or ends the pause. Returns since when it is paused.
UPDATE tickwork_meta
SET paused_at = CASE WHEN $2::boolean THEN coalesce(paused_at, $1::timestamptz, clock_timestamp()) END
RETURNING paused_at
