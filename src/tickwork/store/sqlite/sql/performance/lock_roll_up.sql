-- Whether no other transaction rolls up: only one writes at a time.
SELECT 1 AS is_free
