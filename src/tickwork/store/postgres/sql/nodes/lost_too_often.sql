-- Messages held by dead nodes that cost their last allowed holder.
SELECT tenant, id, claim, holder, schedule_id, run, terms FROM tickwork_messages
WHERE holder = ANY ($1::uuid[]) AND state = 'claimed' AND lost + 1 >= $2
