-- Store::release.
--
-- takes    i8 token, c1 the state to leave behind, i8 delay before the next attempt, and to its end
--          the error
-- answers  1 applied, 0 fenced

local function release(request)
  local held, reason, delay, error_at = struct.unpack('>i8c1i8', request, 2)
  if not read() or token ~= held then
    return 0
  end
  if state == reason then
    -- The same write once more.
    return 1
  end
  if state ~= 'p' then
    return 0
  end

  state, due = reason, 0
  forget_at = now + retention
  if reason == 'f' then
    in_doubt = 0
    if delay > 0 then
      due = now + delay
      -- Remembered for the whole retention once it can be claimed again, or its attempts would
      -- never be used up.
      forget_at = due + retention
    end
  elseif reason == 'a' then
    attempts = math.max(attempts - 1, 0)
    -- Nothing of this content ran, so other content may come instead.
    if attempts == 0 or in_doubt == 1 then
      fingerprint = ''
    end
  elseif reason == 'g' then
    attempts, in_doubt, fingerprint = 0, 0, ''
  end
  save(string.sub(request, error_at))
  return 1
end

