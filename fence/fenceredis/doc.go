// Package fenceredis guards keys of Redis (5 and later, Valkey too) by fencing tokens.
//
// A resource is all keys that have its name as their hash tag: "{orders}:total" belongs
// to orders. Its mark is one more key, "{orders}:elect:fence", so that all of them are in
// one slot of a cluster. A script compares the mark with the token, raises it where the
// token is greater, and then writes: Redis runs scripts one after another, so that nothing
// comes between. A resource whose mark is missing is refused: one that was
// never installed, and one whose mark was lost by a restart, a flush or an eviction.
//
// Tokens are compared by length and then as strings. The numbers of Lua are exact only up
// to 2^53, and tokens are not bounded by that.
//
// # What it does not guard against
//
// Redis confirms what a loss of power takes back, unless it runs with appendonly yes
// and appendfsync always. Without an append-only file also a crash makes the mark go
// back to the last snapshot. And a failover, by Sentinel, in a cluster, or by hand, makes
// a replica the primary that may lack what was confirmed last: replication does not wait.
// Then the mark may have gone back, and with it the protection. WAIT makes that less
// likely and not impossible. [Guard.Status] tells of what it can see of this. Where a
// stale write must not happen, keep the data in a database that has consensus.
//
// Whoever writes with plain commands is not held off: an ACL can leave the leaders
// EVALSHA and the commands that their scripts use, but not tell those apart.
//
// A [Guard] is safe for concurrent use and needs no closing. A refusal matches
// fence.ErrStale, and nothing of what was refused is applied. Nothing is sent a second
// time whose outcome is not known: its error matches [fence.ErrUnknownOutcome]. The
// client's own retries are switched off for that reason: one that is refused could hide
// that the first try was applied.
//
// The rules of scripts and of durability are those of Redis's own documentation:
//   - https://redis.io/docs/latest/develop/programmability/eval-intro/
//   - https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/
package fenceredis
