-- The mark of a stream that moves with a completion: a part of commit.sql, in front of that.
SELECT idem_records_move_mark('{stream}', '{token}', '{from}', '{to}');
