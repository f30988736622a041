-- Since when everything is paused.
SELECT paused_at FROM tickwork_meta
