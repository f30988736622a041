-- What a message keeps of its slot and of its death in another queue.

-- A slot's message has its schedule's idempotency key, if there is one; its copies and replays have the whole
-- key. `death` says how a message of a dead-letter queue died, as JSON.
ALTER TABLE tickwork_messages ADD COLUMN idempotency_base TEXT;
ALTER TABLE tickwork_messages ADD COLUMN death TEXT;
ALTER TABLE tickwork_dead_letters ADD COLUMN idempotency_base TEXT;
ALTER TABLE tickwork_dead_letters ADD COLUMN death TEXT;
