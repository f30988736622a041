-- Entities: their state, their storage, and the results of idempotent calls.

CREATE TABLE tickwork_entities (
    tenant text COLLATE "C" NOT NULL REFERENCES tickwork_tenants (id),
    id uuid NOT NULL,
    type text COLLATE "C" NOT NULL,
    key text COLLATE "C" NOT NULL,
    changed_by uuid NOT NULL,
    schema_version integer NOT NULL,
    bytes bigint NOT NULL,
    alarm_id uuid,
    alarm_at timestamptz,
    dead_alarm_id uuid,
    schedules text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    updated_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, id)
);
CREATE UNIQUE INDEX tickwork_entities_key ON tickwork_entities (tenant, type, key);

CREATE TABLE tickwork_entity_storage (
    tenant text COLLATE "C" NOT NULL,
    entity_id uuid NOT NULL,
    name text COLLATE "C" NOT NULL,
    value bytea NOT NULL,
    PRIMARY KEY (tenant, entity_id, name)
);

CREATE TABLE tickwork_entity_results (
    tenant text COLLATE "C" NOT NULL,
    entity_id uuid NOT NULL,
    key text COLLATE "C" NOT NULL,
    fingerprint bytea NOT NULL,
    value bytea,
    error text COLLATE "C",
    done_at timestamptz NOT NULL,
    PRIMARY KEY (tenant, entity_id, key)
);
CREATE INDEX tickwork_entity_results_age ON tickwork_entity_results (done_at);

-- The node whose process makes a direct call. Only that node gets the message; it is deleted with the node.
ALTER TABLE tickwork_messages ADD COLUMN caller uuid;
CREATE INDEX tickwork_messages_caller ON tickwork_messages (caller) WHERE caller IS NOT NULL;
