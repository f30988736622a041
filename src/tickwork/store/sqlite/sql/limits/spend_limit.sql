-- Sets until when the rate of a limit is spent.
UPDATE tickwork_limits SET spent_until = ?3 WHERE coalesce(tenant, '') = coalesce(?1, '') AND name = ?2
