-- Sequences: what is kept of one, and the claim of a numbered message. Its records are beside it, in
-- the same slot.
--
-- A sequence is one string, `…~mark`:
--
--   B    layout, 1; big endian from here on
--   d    the number that it began with: of what came before nobody knows
--   d    the lowest number that is not done
--   I4   how many numbers from the mark on may have records
--   d    since when claims that would skip what is missing have been ahead, or 0
--   d    when the last of them was
--   d    when somebody has to look whether the mark can move
--   d    when the sequence expires
--   d    how many exceptions there are
--
-- What is below the mark and not done is a set, `…~exceptions`, which expires with it.

local SEQUENCE_LAYOUT, SEQUENCE = 1, '>BddI4ddddd'
-- Above that, doubles leave numbers out.
local MAX_NUMBER = 9007199254740991
-- How many numbers the mark passes in one step at most.
local STEP = 1024
-- How often a sequence is looked at in a retention at least.
local LOOKS = 8
-- After a longer pause, who is ahead begins to wait anew.
local LONGEST_PAUSE = 120000000
-- Where a record says when it is forgotten.
local FORGET_AT = 15

-- What the names of its records begin with.
local beside = string.sub(KEYS[1], 1, -#'mark' - 1)
local joined, mark, window, ahead_since, ahead_at, look_by, expires_at, exceptions
local number, width, skip_after, keep, is_replay, may_begin
-- The records of done numbers that the mark has passed in this call.
local passed = {}

-- Whether it is known and has not expired.
local function read_sequence()
  local kept = redis.call('GET', KEYS[1])
  if not kept then
    return false
  end
  if string.byte(kept) ~= SEQUENCE_LAYOUT then
    error('UNREADABLE it is of no layout that this program knows', 0)
  end
  local _
  _, joined, mark, window, ahead_since, ahead_at, look_by, expires_at, exceptions =
    struct.unpack(SEQUENCE, kept)
  return now < expires_at
end

-- Redis takes nothing back of a script that ends with an error. So what the mark says comes after the exceptions that
-- it rests on, and before what it makes superfluous goes: whichever command fails, no number is free again.
local function save_sequence()
  local expires_in_redis = string.format('%d', (expires_at - skew) / 1000 + 1)
  redis.call('SET', KEYS[1], struct.pack(SEQUENCE, SEQUENCE_LAYOUT, joined, mark, window, ahead_since,
    ahead_at, look_by, expires_at, exceptions), 'PXAT', expires_in_redis)
  redis.call('PEXPIREAT', KEYS[3], expires_in_redis)
  for _, record in ipairs(passed) do
    redis.call('DEL', record)
  end
end

local function name_of(message)
  return beside .. string.format('%.0f', message)
end

-- How a number stands: missing, waiting, done, refused or given up. What this program does not know is
-- waited for.
local function standing(message)
  local head = head_of(name_of(message), 56)
  if head == '' then
    return 'missing'
  end
  -- Where the length of the fingerprint stands.
  local length_at = head and string.byte(head) == LAYOUT and 40 or 24
  if not head or #head < length_at or not is_record(head) then
    return 'waiting'
  end
  local _, its_state, _, _, _, its_end = struct.unpack('>Bc1BI4dd', head)
  if its_end <= now then
    return 'missing'
  elseif its_state == 'c' then
    -- Behind the fingerprint begins the outcome; a rejection with `!`.
    local outcome = length_at + 1 + string.byte(head, length_at)
    return string.sub(head, outcome, outcome) == '!' and 'refused' or 'done'
  elseif its_state == 'g' or its_state == 'q' then
    return 'given up'
  end
  return 'waiting'
end

-- Passes the number at the mark, which is not done. It counts also if it was there: then its mark could not be saved.
local function except()
  redis.call('SADD', KEYS[3], string.format('%.0f', mark))
  exceptions = exceptions + 1
  mark = mark + 1
end

-- Passes what is done with, before this number.
local function pass(before)
  while mark < before do
    local stands = standing(mark)
    if stands == 'done' then
      passed[#passed + 1] = name_of(mark)
      mark = mark + 1
    elseif stands == 'given up' or stands == 'refused' then
      except()
    else
      return
    end
  end
end

-- Whether what is missing has been waited for long enough, by claims that are ahead.
local function may_skip()
  if number < mark + width or skip_after < 0 then
    return false
  end
  local pause = now - ahead_at
  if pause < 0 or pause >= math.min(LONGEST_PAUSE, math.floor(skip_after / 2)) then
    ahead_since = now
  end
  ahead_at = now
  return skip_after <= now - ahead_since and standing(mark) == 'missing'
end

-- Passes all that is missing, as far as others are known to have come; or all of the step, if none
-- has.
local function skip(before)
  local last = before
  for offset = 1, before - mark do
    if standing(before - offset) ~= 'missing' then
      last = before - offset
      break
    end
  end
  while mark < last and standing(mark) == 'missing' do
    except()
    pass(before)
  end
end

-- Whether somebody has to look now; also if the retention is shorter now, or the clock has stepped
-- back.
local function is_due()
  return look_by <= now or now + math.floor(keep / LOOKS) < look_by
end

-- While records are kept for as long as their sequence, none in the window is forgotten that the mark
-- has yet to pass; but for what is to be tried again.
local function keep_records()
  expires_at = now + keep
  -- Not by the numbers themselves: above the greatest, a double stays where it is. There are no records.
  for offset = 0, window - 1 do
    local record = name_of(mark + offset)
    local head = head_of(record, FORGET_AT + 7)
    if head and #head == FORGET_AT + 8 and is_record(head)
      and string.find(string.sub(head, 2, 2), '[cgq]') then
      local forget_at = struct.unpack('>d', head, FORGET_AT + 1)
      if now < forget_at and forget_at < expires_at then
        redis.call('SETRANGE', record, FORGET_AT, struct.pack('>d', expires_at))
        redis.call('PEXPIREAT', record, string.format('%d', (expires_at - skew) / 1000 + 1))
      end
    end
  end
end

-- Moves the mark, if it is time to look whether it can.
local function look()
  local half = mark + math.floor(width / 2)
  if number < mark or number < half and not is_due() then
    return
  end
  -- Never over the number that is claimed: nobody removes the answer that he asks for.
  local began_at, before = mark, math.min(mark + math.min(width, STEP), number)
  pass(before)
  if mark > began_at then
    ahead_since, ahead_at = 0, 0
  elseif may_skip() then
    ahead_since, ahead_at = 0, 0
    skip(before)
  end
  -- A wider window of before ends where it did.
  window = math.max(width, window - (mark - began_at))
  if is_due() then
    -- Another step follows at once if this one ended before its time.
    if mark < began_at + STEP or number <= mark then
      look_by = now + math.floor(keep / LOOKS)
    end
    keep_records()
  end
  save_sequence()
end

-- A sequence that is first seen with this number.
local function begin_sequence()
  joined, mark, window, exceptions = number, number, width, 0
  ahead_since, ahead_at = 0, 0
  look_by, expires_at = now + math.floor(keep / LOOKS), now + keep
  redis.call('DEL', KEYS[3])
  save_sequence()
end

-- What comes of a number below the mark.
local function below(request)
  key = KEYS[2]
  local there = read() and forget_at > now
  if there and state ~= 'g' then
    return claim(request)
  end
  -- If some were evicted, any may have been one.
  if not there and redis.call('SCARD', KEYS[3]) == exceptions
    and redis.call('SISMEMBER', KEYS[3], string.format('%.0f', number)) == 0 then
    return { 'done', expires_at - now }
  end
  if is_replay then
    return claim(request)
  end
  return { 'late' }
end

-- Store::claim of a numbered message.
--
-- takes    as claim.lua; and as the next argument: i8 number, I4 window, i8 time after which a gap is
--          skipped, or -1, B 1 if the sequence may begin with it
-- answers  as claim.lua, or
--          ahead, mark, window
--          late
--          done, remaining
local function place(request, numbers)
  local _
  _, keep, is_replay = struct.unpack('>i8i8B', request, 2)
  is_replay = is_replay % 2 == 1
  number, width, skip_after, may_begin = struct.unpack('>i8I4i8B', numbers)
  local known = read_sequence()
  if number > MAX_NUMBER then
    return { 'ahead', known and mark or 0, width }
  end
  if known then
    look()
  elseif is_replay or may_begin == 0 then
    -- It comes days later, perhaps: the next number of the producer may be far ahead. And what was
    -- delivered before may be a copy, with its neighbours done long ago.
    key = KEYS[2]
    return claim(request)
  else
    begin_sequence()
  end
  if joined <= number and number < mark then
    return below(request)
  elseif number < mark + width then
    key = KEYS[2]
    return claim(request)
  end
  return { 'ahead', mark, width }
end

-- Carries the claim out.
--
-- KEYS     the sequence, the record, the exceptions
-- ARGV     clock; the claim; where it stands

local fine, answer = pcall(place, ARGV[2], ARGV[3])
if not fine and type(answer) ~= 'table' then
  answer = redis.error_reply(answer)
end
return { answer }
