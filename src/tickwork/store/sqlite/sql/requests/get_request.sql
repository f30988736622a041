-- One request.
SELECT fingerprint, seed, answer FROM tickwork_requests WHERE tenant = ?1 AND key = ?2
