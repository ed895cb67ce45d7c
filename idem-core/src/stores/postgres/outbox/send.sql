-- What the handler has published: a part of commit.sql, in front of the completion.
SELECT idem_records_send(
    '{ids}', '{message_ids}', '{targets}', '{heads}', '{bodies}', '{lanes}', '{laters}', '{froms}', '{ats}', '{skew}'
);
