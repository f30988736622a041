-- The time, and the sum of the jumps of the clock.
SELECT coalesce($1::timestamptz, clock_timestamp()) AS now, clock FROM tickwork_meta
