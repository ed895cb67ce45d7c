-- What is known of a unique index, by its name: also of one that SQLite has made for a constraint of a table.
SELECT owner.name AS "table",
       list."unique" AS is_unique,
       list.partial AS is_partial,
       (
           SELECT json_group_array(json_array(part.name, part.coll))
           FROM (SELECT * FROM pragma_index_xinfo(list.name) WHERE key = 1 ORDER BY seqno) AS part
       ) AS columns
FROM sqlite_master AS owner
JOIN pragma_index_list(owner.name) AS list
WHERE owner.type = 'table' AND list.name = ?1
