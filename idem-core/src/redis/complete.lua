-- Store::complete.
--
-- ARGV     clock, token, retention, outcome
-- answers  1 applied, 0 fenced

if token ~= tonumber(ARGV[2]) then
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
forget_at = now + ARGV[3]
save(ARGV[4])
return 1
