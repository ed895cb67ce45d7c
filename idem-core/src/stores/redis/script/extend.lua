-- Store::extend.
--
-- takes    i8 token, i8 by
-- answers  1 applied, 0 fenced

local function extend(request)
  local held, by = struct.unpack('>i8i8', request, 2)
  if not read() or token ~= held or state ~= 'p' then
    return 0
  end
  due = now + by
  forget_at = due + retention
  save('')
  return 1
end

