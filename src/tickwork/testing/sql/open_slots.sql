-- The stored messages of slots.
SELECT id FROM tickwork_messages WHERE schedule_id IS NOT NULL
