// Package fenceredis guards keys of Redis (5 and later, Valkey too) by fencing tokens.
//
// A resource is all keys that have its name as their hash tag: "{orders}:total" belongs to orders. Its mark is one
// more key, "{orders}:elect:fence", so that all of them are in one slot of a cluster. A script compares the mark with
// the token, raises it if the token is greater, and then writes. Redis runs scripts one after another, so nothing
// comes in between. A resource whose mark is missing is refused: it was never installed, or its mark was lost by a
// restart, a flush or an eviction.
//
// Tokens are compared by length and then as strings. The numbers of Lua are exact only up to 2^53, and tokens may be
// greater.
//
// # What it does not guard against
//
// A loss of power can undo confirmed writes, unless Redis runs with appendonly yes and appendfsync always. Without an
// append-only file even a crash sets the mark back to the last snapshot. A failover, by Sentinel, in a cluster, or by
// hand, promotes a replica that may lack the last confirmed writes, because replication does not wait. Then the mark
// may have gone back, and the protection with it. WAIT makes that less likely and not impossible. [Guard.Status]
// warns of it as far as it can see. If a stale write must never happen, keep the data in a database that has
// consensus.
//
// A client that writes with plain commands bypasses the guard: an ACL can restrict the leaders to EVALSHA and the
// commands of their scripts, but cannot require that the latter run in scripts.
//
// A [Guard] is safe for concurrent use and need not be closed. A refusal matches fence.ErrStale, and nothing of the
// refused write is applied. A write with an unknown outcome is not sent again: its error matches
// [fence.ErrUnknownOutcome]. For that reason the client's own retries are off: the refusal of a retry could hide that
// the first attempt was applied.
//
// The rules of scripts and of durability are those of Redis's own documentation:
//   - https://redis.io/docs/latest/develop/programmability/eval-intro/
//   - https://redis.io/docs/latest/operate/oss_and_stack/management/persistence/
package fenceredis
