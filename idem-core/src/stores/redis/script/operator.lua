-- How many interventions a key remembers, and for how many milliseconds after the last one.
local MOST_ENTRIES, ENTRIES_LAST = 100, 90 * 24 * 3600 * 1000

-- Who did it, when, and what was there before: c16 owner, d when, c1 R, F or C, c1 state as it was
-- seen, d token; and to its end by whom.
local ENTRY = '>c16dc1c1d'

-- The state in one of four letters: p in progress, c completed, f failed, n none.
local function seen_state(there)
  if not there then
    return 'n'
  end
  return (state == 'p' or state == 'c') and state or 'f'
end

local function is_noted(owner_of_it)
  for _, entry in ipairs(redis.call('LRANGE', KEYS[2], 0, -1)) do
    if string.sub(entry, 1, 16) == owner_of_it then
      return true
    end
  end
  return false
end

local function note(entry)
  redis.call('RPUSH', KEYS[2], entry)
  redis.call('LTRIM', KEYS[2], -MOST_ENTRIES, -1)
  redis.call('PEXPIRE', KEYS[2], string.format('%d', ENTRIES_LAST))
end

local function free(by)
  local text
  if state == 'p' then
    in_doubt, text = 1, 'released by ' .. by
  else
    -- Who frees it has seen to what the attempt left behind.
    in_doubt = state == 'q' and 0 or in_doubt
    text = string.sub(stored, text_at)
  end
  state, due, token = 'f', 0, math.max(token + 1, now)
  forget_at = now + retention
  save(text)
end

local function finish(there, keep, outcome)
  if there then
    token = math.max(token + 1, now)
  else
    attempts, in_doubt, fingerprint, token, created_at = 0, 0, '', now, now
  end
  state, forget_at = 'c', now + keep
  save(outcome)
end

-- OperatorStore::intervene.
--
-- takes    c1 R release, F forget or C complete; c1 state that was seen; i8 its token; i8 retention;
--          c16 owner; and as the next arguments: by whom, outcome
-- answers  applied, changed or unfit
local function intervene(request, by, outcome)
  local action, was, held, keep, asking = struct.unpack('>c1c1i8i8c16', request, 2)
  if is_noted(asking) then
    return 'applied'
  end
  local there = read()
  if seen_state(there) ~= was or there and token ~= held then
    return 'changed'
  end
  if (there and state == 'c' and action ~= 'F') or (not there and action ~= 'C') then
    return 'unfit'
  end
  local entry = struct.pack(ENTRY, asking, now, action, was, held) .. by
  if action == 'R' then
    free(by)
  elseif action == 'F' then
    redis.call('DEL', key)
  else
    finish(there, keep, outcome)
  end
  note(entry)
  return 'applied'
end

-- Look::look.
--
-- answers  now, the record or nil
local function look()
  return { now, redis.call('GET', key) }
end

-- OperatorStore::audit.
--
-- answers  what was done to the record, one entry after the other
local function audit()
  return redis.call('LRANGE', KEYS[2], 0, -1)
end

-- Carries one call out.
--
-- KEYS     the record, what was done to it
-- ARGV     clock; the call's letter and what it takes

local calls = { A = audit, I = intervene, L = look }

local request = ARGV[2]
key = KEYS[1]
local fine, answer = pcall(calls[string.sub(request, 1, 1)], request, ARGV[3], ARGV[4])
if not fine and type(answer) ~= 'table' then
  answer = redis.error_reply(answer)
end
return { answer }
