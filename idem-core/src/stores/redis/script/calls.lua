-- Carries out the calls, one after the other, and answers each of them.
--
-- KEYS     the record of each call
-- ARGV     clock, and each call: its letter and what it takes

local calls = { C = claim, E = extend, D = complete, R = release }
local answers = {}

for at, record in ipairs(KEYS) do
  local request = ARGV[at + 1]
  key = record
  -- No two calls are at the same time, so no two claims get the same token.
  now = now + 1
  -- What is wrong with one record concerns its own caller.
  local fine, answer = pcall(calls[string.sub(request, 1, 1)], request)
  if not fine and type(answer) ~= 'table' then
    answer = redis.error_reply(answer)
  end
  answers[at] = answer
end

return answers
