-- Sessions of the console: the hash of what a browser's cookie holds, and the key it was started with.

CREATE TABLE tickwork_sessions (
    id BLOB NOT NULL PRIMARY KEY,
    key_id TEXT NOT NULL REFERENCES tickwork_api_keys (id),
    secret_hash BLOB NOT NULL,
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX tickwork_sessions_age ON tickwork_sessions (expires_at);
