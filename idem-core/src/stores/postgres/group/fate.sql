-- Of a transaction that is over: whether it was committed, by a handler, or by idem with this member's completion.
SELECT open.token = 0 OR EXISTS (
    SELECT FROM idem_records AS record
    WHERE record.key = $2 AND record.token = $3 AND record.state = 'completed'
)
FROM idem_records_open AS open
WHERE open.key = $1
