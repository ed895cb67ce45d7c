-- $2 completed records after the first $1, as if written at any time within their retention. The
-- n-th is named by the hash of n, behind $3.
INSERT INTO crowd (
    key, state, attempts, in_doubt, token, retention, updated_at, forget_at, purge_after, owner,
    fingerprint, outcome
)
SELECT
    'orders.charge:' || $3 || named.name, 'completed', 1, false, nextval('crowd_token'),
    259200000000,
    written.at,
    written.at + interval '72 hours',
    written.at + interval '72 hours',
    decode(md5('owner' || number), 'hex'),
    substring(sha256(named.name::bytea) FOR 16),
    'null'
FROM generate_series($1 + 1, $1 + $2) AS number,
LATERAL (SELECT left(md5(number::text), 16)) AS named (name),
LATERAL (SELECT clock_timestamp() - random() * interval '71 hours') AS written (at)
