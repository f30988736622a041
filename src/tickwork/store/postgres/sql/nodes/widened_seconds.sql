-- The fire window that every schedule has at least, in seconds.
SELECT widened_seconds FROM tickwork_meta
