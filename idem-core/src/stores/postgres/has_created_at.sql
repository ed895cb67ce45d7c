SELECT EXISTS (
    SELECT FROM pg_attribute
    WHERE attrelid = to_regclass('idem_records') AND attname = 'created_at' AND NOT attisdropped
)
