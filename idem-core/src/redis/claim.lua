-- Store::claim.
--
-- ARGV     clock, lease, retention, owner, 1 for a replay, fingerprint or ''
-- answers  acquired, token, attempt, 1 if in doubt
--          held, remaining
--          completed, remaining, outcome
--          reused
--          quarantined

local lease_ends = now + ARGV[2]
local asking, replay, content = ARGV[4], ARGV[5] == '1', ARGV[6]

local function hold(until_at)
  due, retention = until_at, ARGV[3] + 0
  forget_at = due + retention
  save('')
  return { 'acquired', token, attempts, in_doubt }
end

local function acquire(attempt, doubt, kept)
  state, attempts, in_doubt, fingerprint, owner = 'p', attempt, doubt, kept, asking
  token = math.max((token or 0) + 1, now)
  return hold(lease_ends)
end

if not stored or forget_at <= now then
  return acquire(1, 0, content)
end

local other_content = fingerprint ~= '' and content ~= '' and fingerprint ~= content
local next_attempt = replay and 1 or attempts + 1
local next_content = content ~= '' and content or fingerprint

if state == 'c' then
  if other_content then
    return { 'reused' }
  end
  return { 'completed', forget_at - now, string.sub(stored, text_at) }
end

if state == 'p' then
  if owner == asking then
    -- It has asked before and did not hear the answer.
    return hold(math.max(due, lease_ends))
  end
  if due > now then
    return { 'held', due - now }
  end
  -- In doubt for a replay too: who sent it has not seen what this attempt left behind.
  return acquire(next_attempt, 1, next_content)
end

-- An owner whose lease was ended never acquires again: its claim may be a late copy.
if owner == asking then
  return { 'held', 0 }
end
if state == 'q' then
  if replay then
    return acquire(1, 0, content)
  end
  return { 'quarantined' }
end
if other_content then
  return { 'reused' }
end
if due > now and not replay then
  return { 'held', due - now }
end
return acquire(next_attempt, in_doubt, next_content)
