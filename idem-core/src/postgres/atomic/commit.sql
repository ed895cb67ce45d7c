-- The completion and the commit in one message: the server carries out neither or both, also if
-- nobody is there any more. An error in the one keeps the other from being reached. The values are
-- numbers and hexadecimal digits, which mean the same under every setting of the handler's.
RESET ROLE;
SELECT idem_records_complete(
    convert_from(decode('{key}', 'hex'), 'UTF8'), {token}, decode('{outcome}', 'hex'), {retention},
    {skew}
);
COMMIT AND CHAIN;
