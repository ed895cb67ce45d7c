-- `$` comes behind `#` in the order of the bytes: so ?2 is one id, or the key of several.
DELETE FROM "idem_records_outbox"
WHERE later IS NOT NULL AND dead_since IS NULL AND attempts = 0 AND due > ?1
    AND (
        message_id = ?2
        -- A key may have a `#` in it, and then it is another one.
        OR message_id >= ?2 || '#' AND message_id < ?2 || '$'
            AND instr(substr(message_id, length(?2) + 2), '#') = 0
    )
