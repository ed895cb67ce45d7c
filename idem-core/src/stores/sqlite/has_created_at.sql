SELECT count(*) FROM pragma_table_info('idem_records') WHERE name = 'created_at'
