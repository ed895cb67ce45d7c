-- The record of the key in hand: what it holds, and how it is kept.
--
-- A record is one string, which is read whole and written whole:
--
--   B    layout, 2; big endian from here on
--   c1   state: p in progress, c completed; f failed, a abandoned, g given up, q quarantined
--   B    1 if in doubt
--   I4   attempts
--   d    fencing token
--   d    when it is forgotten
--   d    when the key was claimed first, or 0 if an earlier version of this program has written it
--   d    when it was written last
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
-- A record of layout 1 lacks the two times; it is read as ever, and written in layout 2.
--
-- Times are in microseconds, which a double holds exactly until the year 2255.

local LAYOUT, HEAD, UNFINISHED = 2, '>Bc1BI4ddddBc0', '>ddc16'
local WHOLE = HEAD .. UNFINISHED
local FIRST_LAYOUT, FIRST_HEAD = 1, '>Bc1BI4ddBc0'

-- How far a test has moved the clock on.
local skew = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] + skew

local key
local state, in_doubt, attempts, token, forget_at, fingerprint, due, retention, owner
local created_at
local stored, text_at

-- The beginning of another record; nothing of what is no string. A server that lets nobody look says so: what it may
-- hold must not pass for what is there.
local function head_of(record, last)
  local head = redis.pcall('GETRANGE', record, 0, last)
  if type(head) == 'string' then
    return head
  end
  if string.find(head.err, 'WRONGTYPE') then
    return nil
  end
  error(head)
end

-- Whether it is a record of either layout, by its beginning.
local function is_record(head)
  local layout = string.byte(head)
  return layout == LAYOUT or layout == FIRST_LAYOUT
end

-- Whether there is one.
local function read()
  stored = redis.call('GET', key)
  if not stored then
    return false
  end
  local layout, _ = string.byte(stored)
  if layout == LAYOUT then
    layout, state, in_doubt, attempts, token, forget_at, created_at, _, fingerprint, text_at =
      struct.unpack(HEAD, stored)
  elseif layout == FIRST_LAYOUT then
    created_at = 0
    layout, state, in_doubt, attempts, token, forget_at, fingerprint, text_at =
      struct.unpack(FIRST_HEAD, stored)
  else
    error('UNREADABLE it is of no layout that this program knows', 0)
  end
  if not string.find(state, '[pcfagq]') then
    error('UNREADABLE it is in no state that this program knows', 0)
  end
  if state ~= 'c' then
    due, retention, owner, text_at = struct.unpack(UNFINISHED, stored, text_at)
  end
  return true
end

local function packed()
  if state == 'c' then
    return struct.pack(HEAD, LAYOUT, state, in_doubt, attempts, token, forget_at, created_at, now,
      #fingerprint, fingerprint)
  end
  return struct.pack(WHOLE, LAYOUT, state, in_doubt, attempts, token, forget_at, created_at, now,
    #fingerprint, fingerprint, due, retention, owner)
end

-- Redis forgets it by itself, on its own clock and not before it may. In milliseconds, as text:
-- Redis would take longer to make one of the number.
local function expires()
  return string.format('%d', (forget_at - skew) / 1000 + 1)
end

local function save(text)
  redis.call('SET', key, packed() .. text, 'PXAT', expires())
end

-- Whether there was none, and it is saved now. What else is in the way is not told.
local function save_new()
  local saved = redis.pcall('SET', key, packed(), 'PXAT', expires(), 'NX')
  return saved and saved.ok
end

