-- System events of tenants, kept for a day: streams resume from them. `data` is JSON.

CREATE TABLE tickwork_stream_events (
    id BLOB PRIMARY KEY NOT NULL CHECK (length(id) = 16),
    tenant TEXT NOT NULL,
    owner TEXT,
    at INTEGER NOT NULL,
    type TEXT NOT NULL,
    data TEXT NOT NULL
) STRICT;
CREATE INDEX tickwork_stream_events_tenant ON tickwork_stream_events (tenant, id);
CREATE INDEX tickwork_stream_events_at ON tickwork_stream_events (at);
