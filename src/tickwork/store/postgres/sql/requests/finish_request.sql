-- Stores the answer of a request.
UPDATE tickwork_requests SET answer = $4 WHERE tenant = $1 AND key = $2 AND seed = $3
