-- Whether the retention of `record` had ended at excluded.updated_at.
record.forget_at <= excluded.updated_at
AND NOT (
    record.state = 'in_progress'
    AND EXISTS (
        SELECT FROM idem_records_open AS open
        WHERE open.key = record.key
            AND open.token = record.token
            AND open.lease_ends + record.retention * interval '1 microsecond' > excluded.updated_at
    )
)
