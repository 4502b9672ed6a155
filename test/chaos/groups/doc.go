// Package groups breaks the members of a group, which are real processes, by a schedule from a seed, and judges what
// their work has recorded: no two lives of one key overlap, the tokens of each key rise, no register takes a write of an
// overtaken holder, members end only when they are told to, and after the last fault every key is held again.
//
// [Run] carries out a storm; [Judge] judges the directory of one. A life of a key goes from the first proof by
// Shard.Check until its work has returned, or until the claim is over that was proven last, whichever is first: so long
// nobody else may have it, and so also a key that moves before its work has returned is an overlap.
//
// Some of the keys are shards, the others named elections. Three of four processes are guarded: the program has a keeper,
// whose witness frees the keys of a dead program long before the claim is over that was proven last. It has a child,
// too, which stamps the same lives until then or until the keeper kills it: so a word that comes before the whole family
// is dead is an overlap. The proxies look at a caller in /proc, and refuse the keepers of any user but root: then no word
// is heard.
//
// The members reach each other through proxies (package network), which cut and delay. The coordinator's election is
// among the same processes, by the same ports, and is cut with them; or it is in a file, so that a coordinator can be cut
// off and not know it. In the directory are
//
//	ledger, register.ndjson, ops/, events/    what the members recorded; see worker
//	faults.ndjson                             what the storm did, and when
//	log/nI.log                                what the members said
//
// The functions may be called by any number of goroutines, each with a directory of its own. Linux only.
package groups
