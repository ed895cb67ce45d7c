-- As atomic/commit.sql. The last member's savepoint need not be released for it.
RESET ROLE;
{sent}SELECT idem_records_complete_all('{keys}', '{tokens}', '{outcomes}', '{retentions}', {skew});{unmark}
SELECT '{nonce}' AS nonce;
COMMIT AND CHAIN;
