DELETE FROM idem_records_open WHERE key = '{mark}';
