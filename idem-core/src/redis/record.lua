-- Begins every script: the time, the record of KEYS[1], and how to save it.
--
-- KEYS[1]  the record
-- ARGV[1]  how far a test has moved the clock on
--
-- A record is one string, which is read whole and written whole:
--
--   B    layout, 1; big endian from here on
--   c1   state: p in progress, c completed; f failed, a abandoned, g given up, q quarantined
--   B    1 if in doubt
--   I4   attempts
--   d    fencing token
--   d    when it is forgotten
--   Bc0  fingerprint, 16 bytes or none
--
-- unless it is completed:
--
--   d    p: when the lease ends; f: when the next attempt is due, or 0
--   d    retention
--   c16  owner of the last claim
--
-- and to its end: c the outcome, f and g the error.
--
-- Times are in microseconds, which a double holds exactly until the year 2255.

local LAYOUT, HEAD, UNFINISHED = 1, '>Bc1BI4ddBc0', '>ddc16'

local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] + ARGV[1]

local stored = redis.call('GET', KEYS[1])
local state, in_doubt, attempts, token, forget_at, fingerprint, due, retention, owner, text_at
if stored then
  if string.byte(stored) ~= LAYOUT then
    return redis.error_reply('UNREADABLE it is of no layout that this program knows')
  end
  local _
  _, state, in_doubt, attempts, token, forget_at, fingerprint, text_at = struct.unpack(HEAD, stored)
  if not string.find('pcfagq', state, 1, true) then
    return redis.error_reply('UNREADABLE it is in no state that this program knows')
  end
  if state ~= 'c' then
    due, retention, owner, text_at = struct.unpack(UNFINISHED, stored, text_at)
  end
end

local function save(text)
  local record = struct.pack(HEAD, LAYOUT, state, in_doubt, attempts, token, forget_at,
    #fingerprint, fingerprint)
  if state ~= 'c' then
    record = record .. struct.pack(UNFINISHED, due, retention, owner)
  end
  -- Redis forgets it by itself, on its own clock and not before it may.
  local expires = math.ceil((forget_at - ARGV[1]) / 1000)
  redis.call('SET', KEYS[1], record .. text, 'PXAT', expires)
end

