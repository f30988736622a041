-- A node is no scheduler any more, and has no share: the others lead all, although its lease goes on.
UPDATE tickwork_nodes
SET roles = (SELECT json_group_array(value) FROM json_each(roles) WHERE value <> 'scheduler')
WHERE id = ?1
