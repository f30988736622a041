-- The slots of messages by rowid, each with its attempt and its schedule's terms and its id.
SELECT tenant, schedule_id, slot, run, attempts + 1, coalesce(due_at, visible_at), catch_up, place,
    terms, id
FROM tickwork_messages
WHERE place IN (SELECT value FROM json_each(?1)) AND schedule_id IS NOT NULL AND slot IS NOT NULL
