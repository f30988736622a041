-- When a message was claimed; NULL while no one has it.

ALTER TABLE tickwork_messages ADD COLUMN claimed_at INTEGER;
