-- Sessions: what is kept of one, and the calls about it. Its answers are records beside it, in the
-- same slot, called as it is and then by their number.
--
-- A session is one string:
--
--   B    layout, 1; big endian from here on
--   d    the lowest number whose answer is kept
--   I4   how many numbers from there on may be in use
--   d    how long it lives without a sign of life
--   d    when it ends
--
-- It is kept for one more life after its end, and for a minute at least, so that a late copy of its
-- opening finds it. The mark of one that was closed is above every number: none runs, even if the
-- clock steps back to before the end.

local SESSION_LAYOUT, SESSION = 1, '>BdI4dd'
-- Above that, doubles leave numbers out.
local MAX_NUMBER = 9007199254740991
local MINUTE = 60000000
-- How much longer than a session its records are kept.
local AHEAD = 60 * MINUTE
-- Where a record says when it is forgotten.
local FORGET_AT = 15

local mark, window, life, ends_at
-- When it would have ended without this call.
local ended_at

local function remove_at()
  return ends_at + math.max(life, MINUTE)
end

-- Whether it is known, though it may have ended.
local function read_session()
  local kept = redis.call('GET', KEYS[1])
  if not kept then
    return false
  end
  if string.byte(kept) ~= SESSION_LAYOUT then
    error('UNREADABLE it is of no layout that this program knows', 0)
  end
  local _
  _, mark, window, life, ends_at = struct.unpack(SESSION, kept)
  ended_at = ends_at
  return now < remove_at()
end

-- Keeps the records of all numbers that may be in use until then at least.
local function keep_records(until_at)
  -- Not by the numbers themselves: above the greatest, a double stays where it is.
  for offset = 0, math.min(window - 1, MAX_NUMBER - mark) do
    local record = KEYS[1] .. string.format('%.0f', mark + offset)
    local head = head_of(record, FORGET_AT + 7)
    if head and #head == FORGET_AT + 8 and is_record(head)
      and struct.unpack('>d', head, FORGET_AT + 1) < until_at then
      redis.call('SETRANGE', record, FORGET_AT, struct.pack('>d', until_at))
      redis.call('PEXPIREAT', record, string.format('%d', (until_at - skew) / 1000 + 1))
    end
  end
end

-- What is forgotten would run again. With every sign of life the records would have to be written
-- anew; so they are kept until an hour after the end, and written as the end comes into another hour: before the
-- session, which would not know that it is to be done again.
local function save_session()
  if ended_at and math.floor(ended_at / AHEAD) < math.floor(ends_at / AHEAD) then
    keep_records(ends_at + AHEAD)
  end
  redis.call('SET', KEYS[1], struct.pack(SESSION, SESSION_LAYOUT, mark, window, life, ends_at),
    'PXAT', string.format('%d', (remove_at() - skew) / 1000 + 1))
end

local function lives()
  return read_session() and now < ends_at and mark <= MAX_NUMBER
end

-- Whether it lives, for a whole life from now.
local function touched()
  if not lives() then
    return false
  end
  ends_at = math.max(ends_at, now + life)
  return true
end

-- Removes the answers to these numbers; what is in progress is no answer, nor is what this program
-- does not know.
local function remove_answers(first, last)
  for offset = 0, math.min(last, MAX_NUMBER) - first do
    local record = KEYS[1] .. string.format('%.0f', first + offset)
    local head = head_of(record, 1)
    if head and #head == 2 and is_record(head) and string.sub(head, 2) ~= 'p' then
      redis.call('DEL', record)
    end
  end
end

-- SessionStore::open.
--
-- takes    I4 window, i8 life
-- answers  1 it begins, 0 it was known
local function open(request)
  if read_session() then
    return 0
  end
  window, life = struct.unpack('>I4i8', request, 2)
  mark, ends_at = 0, now + life
  save_session()
  return 1
end

-- SessionStore::touch.
--
-- answers  1 it lives, 0 it does not
local function touch()
  if not touched() then
    return 0
  end
  save_session()
  return 1
end

-- SessionStore::close.
--
-- answers  1
local function close()
  if lives() then
    local first, last = mark, mark + window - 1
    mark, ends_at = MAX_NUMBER + 1, now
    save_session()
    remove_answers(first, last)
  end
  return 1
end

-- Store::claim of a session's request.
--
-- takes    as claim.lua; and as the next argument: i8 number, i8 awaited
-- answers  as claim.lua, or
--          expired
--          stale
--          beyond, window
local function place(request, numbers)
  if not touched() then
    return { 'expired' }
  end
  local number, awaited = struct.unpack('>i8i8', numbers)
  local next_mark = math.max(mark, awaited)
  if number < next_mark then
    save_session()
    return { 'stale' }
  end
  if number >= next_mark + window or number > MAX_NUMBER then
    save_session()
    return { 'beyond', window }
  end
  local first, last = mark, math.min(next_mark, mark + window) - 1
  mark = next_mark
  save_session()
  remove_answers(first, last)
  key = KEYS[2]
  return claim(request)
end

-- Carries one call out.
--
-- KEYS     the session; for a claim, also the record
-- ARGV     clock; the call's letter and what it takes; for a claim, also where it stands

local calls = { O = open, T = touch, X = close, C = place }

local request = ARGV[2]
local fine, answer = pcall(calls[string.sub(request, 1, 1)], request, ARGV[3])
if not fine and type(answer) ~= 'table' then
  answer = redis.error_reply(answer)
end
return { answer }
