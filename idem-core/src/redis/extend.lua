-- Store::extend.
--
-- ARGV     clock, token, by
-- answers  1 applied, 0 fenced

if token ~= tonumber(ARGV[2]) or state ~= 'p' then
  return 0
end
due = now + ARGV[3]
forget_at = due + retention
save('')
return 1
