-- The claims of a tenant in a queue are listed page by page, of one holder after another.
DROP INDEX tickwork_messages_holder;
CREATE INDEX tickwork_messages_holder ON tickwork_messages (holder, queue_id, tenant, id) WHERE state = 'claimed';
