-- Sessions of the console: the hash of what a browser's cookie holds, and the key it was started with.

CREATE TABLE tickwork_sessions (
    id bytea PRIMARY KEY,
    key_id text COLLATE "C" NOT NULL REFERENCES tickwork_api_keys (id),
    secret_hash bytea NOT NULL,
    expires_at timestamptz NOT NULL
);
CREATE INDEX tickwork_sessions_age ON tickwork_sessions (expires_at);
