-- Store::complete.
--
-- takes    i8 token, i8 retention, and to its end the outcome
-- answers  1 applied, 0 fenced

local function complete(request)
  local held, keep, outcome_at = struct.unpack('>i8i8', request, 2)
  if not read() or token ~= held then
    return 0
  end
  if state == 'c' then
    -- The same write once more.
    return 1
  end
  if state ~= 'p' then
    return 0
  end
  state = 'c'
  forget_at = now + keep
  save(string.sub(request, outcome_at))
  return 1
end

