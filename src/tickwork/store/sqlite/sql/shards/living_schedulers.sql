-- The schedulers whose lease has not expired.
SELECT id FROM tickwork_nodes
WHERE expires_at > ?1 AND EXISTS (SELECT 1 FROM json_each(roles) WHERE value = 'scheduler')
