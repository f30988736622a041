-- Blocked direct calls by key: the one that may pass a send is found without reading the sends behind that one.

CREATE INDEX tickwork_messages_calls ON tickwork_messages (queue_id, tenant, key, place)
    WHERE caller IS NOT NULL AND state = 'held';

-- The open dead letters of a tenant in all queues, by age.
CREATE INDEX tickwork_dead_letters_newest ON tickwork_dead_letters (tenant, failed_at, id) WHERE resolution IS NULL;
