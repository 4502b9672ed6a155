package fenceredis

import (
	"crypto/sha1"
	"encoding/hex"
)

// check is how each script begins. KEYS[1] is the mark, ARGV[1] the token in plain decimal.
const check = `local mark, shown = redis.call('GET', KEYS[1]), ARGV[1]
if not mark then
  return redis.error_reply('UNGUARDED')
end
if #mark > 19 or mark ~= '0' and not string.find(mark, '^[1-9]%d*$') then
  return redis.error_reply('DAMAGEDMARK')
end
if #shown < #mark or #shown == #mark and shown < mark then
  return redis.error_reply('STALETOKEN ' .. mark)
end
if shown ~= mark then
  redis.call('SET', KEYS[1], shown)
end
`

// commands runs one command for each further key: ARGV has how many arguments follow the
// key, the name of the command, and those arguments.
const commands = check + `local replies, at = {}, 2
for i = 2, #KEYS do
  local last = at + 1 + tonumber(ARGV[at])
  replies[i - 1] = redis.call(ARGV[at + 1], KEYS[i], unpack(ARGV, at + 2, last))
  at = last + 1
end
return replies
`

// Script is one that a [Guard] can run, made by [NewScript]. It may be shared.
type Script struct {
	source, sha string
}

// NewScript returns a script in Lua that a Guard runs when the token has passed. It finds
// its keys in KEYS and its arguments in ARGV, as any script of EVAL does, at most 7,000 of
// each. Without a first line "#!lua".
func NewScript(body string) *Script {
	return newScript(check + "local KEYS, ARGV = {unpack(KEYS, 2)}, {unpack(ARGV, 2)}\n" + body)
}

func newScript(source string) *Script {
	hash := sha1.Sum([]byte(source)) // by which Redis knows it
	return &Script{source: source, sha: hex.EncodeToString(hash[:])}
}
