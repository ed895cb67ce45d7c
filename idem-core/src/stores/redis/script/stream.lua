-- Streams: how far a handler has come in one, and who reads it.
--
-- What is kept is one string, for ever:
--
--   B    layout, 1; big endian from here on
--   d    fencing token
--   d    when the lease ends
--   d    the lowest offset that is not done, or -1
--   c16  owner of the last claim
--
-- KEYS     the stream
-- ARGV     clock; the call's letter and what it takes

local LAYOUT, STREAM = 1, '>Bdddc16'
local NOBODY = string.rep('\0', 16)

-- How far a test has moved the clock on.
local skew = tonumber(ARGV[1])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2] + skew

local token, lease_ends, mark, owner

local function read()
  local kept = redis.call('GET', KEYS[1])
  if not kept then
    return false
  end
  if string.byte(kept) ~= LAYOUT then
    error('UNREADABLE it is of no layout that this program knows', 0)
  end
  local _
  _, token, lease_ends, mark, owner = struct.unpack(STREAM, kept)
  return true
end

local function save()
  redis.call('SET', KEYS[1], struct.pack(STREAM, LAYOUT, token, lease_ends, mark, owner))
end

local function next_token(is_known)
  return is_known and math.max(now, token + 1) or now
end

-- StreamStore::claim_stream.
--
-- takes    c16 owner, i8 lease
-- answers  acquired, token, mark; or held, remaining
local function claim(request)
  local asks, lease = struct.unpack('>c16i8', request, 2)
  local is_known = read()
  if is_known and lease_ends > now then
    if owner ~= asks then
      return { 'held', lease_ends - now }
    end
  else
    token, mark = next_token(is_known), is_known and mark or -1
  end
  owner, lease_ends = asks, now + lease
  save()
  return { 'acquired', token, mark }
end

-- StreamStore::extend_stream.
--
-- takes    i8 token, i8 mark, i8 lease
-- answers  1 applied, 0 fenced
local function extend(request)
  local under, to, by = struct.unpack('>i8i8i8', request, 2)
  if not read() or token ~= under then
    return 0
  end
  mark, lease_ends = math.max(mark, to), now + by
  save()
  return 1
end

-- StreamStore::release_stream. A heartbeat that comes late must not bring the lease back.
--
-- takes    i8 token, i8 mark
-- answers  1 applied, 0 fenced
local function release(request)
  local under, to = struct.unpack('>i8i8', request, 2)
  if not read() or token ~= under then
    return 0
  end
  mark, lease_ends, owner, token = math.max(mark, to), now, NOBODY, token + 1
  save()
  return 1
end

-- StreamStore::look_at_stream.
--
-- answers  mark, remaining; or nothing
local function look()
  if not read() then
    return {}
  end
  return { mark, math.max(0, lease_ends - now) }
end

-- StreamStore::set_mark.
--
-- takes    i8 mark
-- answers  1
local function set(request)
  token = next_token(read())
  mark, lease_ends, owner = struct.unpack('>i8', request, 2), now, NOBODY
  save()
  return 1
end

local calls = { C = claim, E = extend, R = release, L = look, S = set }

local request = ARGV[2]
local fine, answer = pcall(calls[string.sub(request, 1, 1)], request)
if not fine and type(answer) ~= 'table' then
  answer = redis.error_reply(answer)
end
return { answer }
