-- With idem's own commit: whoever sees the mark knows that a handler has committed the transaction by itself.
DELETE FROM idem_records_open WHERE key = '{mark}';
