-- As atomic/commit.sql. At SERIALIZABLE nobody looks for the entity: that is a read, and would be in the
-- way of transactions that write to the same page of the index.
RESET ROLE;
SELECT idem_records_recorded(
    CASE WHEN current_setting('transaction_isolation') <> 'serializable' THEN {writers} END,
    convert_from(decode('{key}', 'hex'), 'UTF8'), {token}
), '{nonce}' AS nonce;
COMMIT AND CHAIN;
