-- The sum of the jumps of the clock.
SELECT clock FROM tickwork_meta
