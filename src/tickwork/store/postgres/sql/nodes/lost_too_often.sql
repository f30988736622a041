-- Messages of dead nodes that reached the limit of lost claims.
SELECT tenant, id, claim, holder, schedule_id, run, terms FROM tickwork_messages
WHERE holder = ANY ($1::uuid[]) AND state = 'claimed' AND caller IS NULL AND lost + 1 >= $2
