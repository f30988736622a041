-- When the last claim of an ended item of a batch began, and how many attempts a completed one took.

ALTER TABLE tickwork_batch_items ADD COLUMN started_at timestamptz;
ALTER TABLE tickwork_batch_items ADD COLUMN attempts integer;
