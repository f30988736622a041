-- A trace reads everything of one correlation. A message that began its correlation has none, and is found by its id;
-- a row without one costs nothing here.
CREATE INDEX tickwork_messages_correlation ON tickwork_messages (tenant, correlation_id, id)
    WHERE correlation_id IS NOT NULL;
CREATE INDEX tickwork_dead_letters_correlation ON tickwork_dead_letters (tenant, correlation_id, id)
    WHERE correlation_id IS NOT NULL;
CREATE INDEX tickwork_dead_letters_first ON tickwork_dead_letters (tenant, message_id, id)
    WHERE correlation_id IS NULL;
CREATE INDEX tickwork_runs_correlation ON tickwork_runs (tenant, correlation_id, created_at, uid)
    WHERE correlation_id IS NOT NULL;
CREATE INDEX tickwork_published_correlation ON tickwork_published (tenant, correlation_id, id)
    WHERE correlation_id IS NOT NULL;
CREATE INDEX tickwork_deliveries_published ON tickwork_deliveries (published_id);
