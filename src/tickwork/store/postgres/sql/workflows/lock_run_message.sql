-- Locks the message of a run, before the run: nobody claims, settles or records a step for it meanwhile.
SELECT queue_id FROM tickwork_messages WHERE tenant = $1 AND id = $2 FOR UPDATE
