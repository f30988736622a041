-- The rowids of messages of a tenant, by id.
SELECT id, place FROM tickwork_messages WHERE tenant = ?1 AND id IN (/*each*/?/*each*/)
