-- Whether a key is completed, as processes tell each other in front of the store that decides.
--
-- It is the string KEYS[1], which expires:
--
--   c16  until when it is known    these two in digits, microseconds
--   c16  until when the store remembers it
--        and to its end what is known
--
-- or FORGOTTEN, while an operator changes the key: then nothing is told of it for a while.
--
-- takes    how far a test has moved the clock on; l look, t tell or f forget; t: when the store was asked, for how long
--          from then on it may be known, and for how long the store remembers it, in microseconds; what is known
-- answers  the time; l: and for how long the store remembers it, and what is known, unless nothing is

local SECOND = 1000000
-- What is told later is not taken. It is less than a forgotten key is kept in mind.
local OLDEST = 30 * SECOND
-- How far the clocks of a cluster's servers may be apart.
local AHEAD = 10 * SECOND
local FORGOTTEN, FORGOTTEN_FOR = '-', '60000'

local skew, call = tonumber(ARGV[1]), ARGV[2]
local time = redis.call('TIME')
local now = time[1] * SECOND + time[2] + skew

if call == 'f' then
  redis.call('SET', KEYS[1], FORGOTTEN, 'PX', FORGOTTEN_FOR)
  return { { now } }
end

local known = redis.pcall('GET', KEYS[1])
if type(known) == 'table' then
  if not string.find(known.err, 'WRONGTYPE', 1, true) then
    return known
  end
  -- Another program's. It is left alone.
  return { { now } }
end

if call == 't' then
  local asked, lasts, remains = tonumber(ARGV[3]), tonumber(ARGV[4]), tonumber(ARGV[5])
  local age, left = now - asked, asked + lasts - now
  if known ~= FORGOTTEN and age <= OLDEST and age >= -AHEAD and left > 0 then
    local times = string.format('%016.0f%016.0f', asked + lasts, asked + remains)
    redis.call('SET', KEYS[1], times .. ARGV[6], 'PX', math.ceil(left / 1000))
  end
  return { { now } }
end

local until_known = known and tonumber(string.sub(known, 1, 16))
local until_forgotten = known and tonumber(string.sub(known, 17, 32))
if until_known and until_forgotten and until_known > now and until_forgotten > now then
  return { { now, until_forgotten - now, string.sub(known, 33) } }
end
return { { now } }
