-- Store::claim.
--
-- takes    i8 lease, i8 retention, B 1 for a replay and 2 for what takes nothing over, c16 owner, Bc0 fingerprint or none
-- answers  token: acquired for the first attempt, as most are
--          acquired, token, attempt, 1 if in doubt
--          held, remaining
--          completed, remaining, outcome
--          reused
--          quarantined

local lease_ends, kept, replay, asking, content

local function hold(until_at)
  due, retention, forget_at = until_at, kept, until_at + kept
end

local function begin(attempt, doubt, known_content)
  state, attempts, in_doubt, fingerprint, owner = 'p', attempt, doubt, known_content, asking
  hold(lease_ends)
end

local function acquired()
  if attempts == 1 and in_doubt == 0 then
    return token
  end
  return { 'acquired', token, attempts, in_doubt }
end

local function acquire(attempt, doubt, known_content)
  token = math.max(token + 1, now)
  begin(attempt, doubt, known_content)
  save('')
  return acquired()
end

local function claim(request)
  local lease, how
  lease, kept, how, asking, content = struct.unpack('>i8i8Bc16Bc0', request, 2)
  lease_ends, replay = now + lease, how % 2 == 1

  -- Most keys are new.
  token, created_at = now, now
  begin(1, 0, content)
  if save_new() then
    return acquired()
  end

  if not read() or forget_at <= now then
    created_at = now
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
      hold(math.max(due, lease_ends))
      save('')
      return acquired()
    end
    if due > now then
      return { 'held', due - now }
    end
    if how >= 2 then
      -- It may still be completed.
      return { 'held', 0 }
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
end

