-- The messages of slots that are still there.
SELECT id FROM tickwork_messages WHERE schedule_id IS NOT NULL
