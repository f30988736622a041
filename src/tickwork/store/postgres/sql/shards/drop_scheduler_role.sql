-- A node is no scheduler any more, and has no share: the others lead all, although its lease goes on.
UPDATE tickwork_nodes SET roles = array_remove(roles, 'scheduler')
WHERE id = $1 AND 'scheduler' = ANY (roles)
