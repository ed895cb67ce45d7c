-- `$` comes behind `#` in the order of the bytes: so $2 is one id, or the key of several.
DELETE FROM idem_records_outbox
WHERE later IS NOT NULL AND dead_since IS NULL AND attempts = 0
    AND due > clock_timestamp() + $1 * interval '1 microsecond'
    AND (
        message_id = $2
        -- A key may have a `#` in it, and then it is another one.
        OR message_id >= $2 || '#' AND message_id < $2 || '$'
            AND strpos(substr(message_id, char_length($2) + 2), '#') = 0
    )
RETURNING 1
