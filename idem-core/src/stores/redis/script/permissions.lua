-- Which commands of the other scripts the server does not let this user run. Each is tried on a string and a set that
-- are gone in the end. What another error keeps from running is none of them: a replica, no memory.
--
-- KEYS     the string, the set
-- answers  the commands' names

local refused = {}

local function try(command, ...)
  local answer = redis.pcall(command, ...)
  local said = type(answer) == 'table' and answer.err or ''
  -- Old servers write the code into no error of a script.
  if string.find(said, 'NOPERM') or string.find(said, 'user executing the script') then
    refused[#refused + 1] = command
  end
end

-- In the past: it removes the key.
local PAST = '1'

try('DEL', KEYS[1])
local can_remove = #refused == 0
try('TIME')
try('SET', KEYS[1], '', 'PX', '1')
try('GET', KEYS[1])
try('GETRANGE', KEYS[1], '0', '0')
try('SETRANGE', KEYS[1], '0', '')
try('PEXPIREAT', KEYS[1], PAST)
try('SCARD', KEYS[2])
try('SISMEMBER', KEYS[2], '')
-- A set does not expire by itself.
if can_remove then
  try('SADD', KEYS[2], '')
  redis.pcall('DEL', KEYS[1], KEYS[2])
end

return { refused }
