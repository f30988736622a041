-- System events of tenants, kept for a day: streams resume from them. `data` is JSON.

CREATE TABLE tickwork_stream_events (
    id uuid PRIMARY KEY,
    tenant text COLLATE "C" NOT NULL,
    owner text COLLATE "C",
    at timestamptz NOT NULL,
    type text COLLATE "C" NOT NULL,
    data text COLLATE "C" NOT NULL
);
CREATE INDEX tickwork_stream_events_tenant ON tickwork_stream_events (tenant, id);
CREATE INDEX tickwork_stream_events_at ON tickwork_stream_events (at);
