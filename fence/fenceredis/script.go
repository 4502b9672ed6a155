package fenceredis

import (
	"crypto/sha1"
	"encoding/hex"
)

// check is the beginning of each script. KEYS[1] is the mark, ARGV[1] the token in plain decimal. A token equal to
// the mark, as nearly all are, costs one comparison.
const check = `local call = redis.call
local mark, shown = call('GET', KEYS[1]), ARGV[1]
if mark ~= shown then
  if not mark then
    return redis.error_reply('UNGUARDED')
  end
  if #mark > 19 or mark ~= '0' and not string.find(mark, '^[1-9]%d*$') then
    return redis.error_reply('DAMAGEDMARK')
  end
  if #shown < #mark or #shown == #mark and shown < mark then
    return redis.error_reply('STALETOKEN ' .. mark)
  end
  call('SET', KEYS[1], shown)
end
`

// single runs one command: ARGV has its name and the arguments after the key.
const single = check + `return {call(ARGV[2], KEYS[2], unpack(ARGV, 3))}
`

// commands runs one command for each further key: ARGV has the number of arguments after the key, the name of the
// command, and those arguments.
const commands = check + `local keys, args, unpack, replies, at = KEYS, ARGV, unpack, {}, 2
for i = 2, #keys do
  local n = args[at]
  if n == '1' then
    replies[i - 1] = call(args[at + 1], keys[i], args[at + 2])
    at = at + 3
  else
    replies[i - 1] = call(args[at + 1], keys[i], unpack(args, at + 2, at + 1 + n))
    at = at + 2 + n
  end
end
return replies
`

// Script is a script for a [Guard], made by [NewScript]. It may be shared.
type Script struct {
	source, sha string
}

// NewScript returns a script in Lua that a Guard runs when the token has passed. It finds
// its keys in KEYS and its arguments in ARGV, as any script of EVAL does, at most 7,000 of
// each. The body must not begin with a line "#!lua".
//
// Its errors must begin with words of their own. An error that begins with STALETOKEN, UNGUARDED or DAMAGEDMARK would
// be taken for the check's. After NOSCRIPT, and in a cluster after READONLY, MOVED or ASK, the script would run
// again.
func NewScript(body string) *Script {
	return newScript(check + "local KEYS, ARGV = {unpack(KEYS, 2)}, {unpack(ARGV, 2)}\n" + body)
}

func newScript(source string) *Script {
	hash := sha1.Sum([]byte(source)) // by which Redis knows it
	return &Script{source: source, sha: hex.EncodeToString(hash[:])}
}
