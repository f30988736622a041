-- Entities: their state, their storage, and the results of idempotent calls.

CREATE TABLE tickwork_entities (
    tenant TEXT NOT NULL REFERENCES tickwork_tenants (id),
    id BLOB NOT NULL CHECK (length(id) = 16),
    type TEXT NOT NULL,
    key TEXT NOT NULL,
    changed_by BLOB NOT NULL,
    schema_version INTEGER NOT NULL,
    bytes INTEGER NOT NULL,
    alarm_id BLOB,
    alarm_at INTEGER,
    dead_alarm_id BLOB,
    schedules TEXT NOT NULL,
    created_at INTEGER NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX tickwork_entities_key ON tickwork_entities (tenant, type, key);

CREATE TABLE tickwork_entity_storage (
    tenant TEXT NOT NULL,
    entity_id BLOB NOT NULL,
    name TEXT NOT NULL,
    value BLOB NOT NULL,
    PRIMARY KEY (tenant, entity_id, name)
) STRICT, WITHOUT ROWID;

CREATE TABLE tickwork_entity_results (
    tenant TEXT NOT NULL,
    entity_id BLOB NOT NULL,
    key TEXT NOT NULL,
    fingerprint BLOB NOT NULL,
    value BLOB,
    error TEXT,
    done_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, entity_id, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_entity_results_age ON tickwork_entity_results (done_at);

-- The node whose process makes a direct call. Only that node gets the message; it is deleted with the node.
ALTER TABLE tickwork_messages ADD COLUMN caller BLOB;
CREATE INDEX tickwork_messages_caller ON tickwork_messages (caller) WHERE caller IS NOT NULL;
