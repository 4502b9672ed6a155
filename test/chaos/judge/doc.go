// Package judge reads what a run left behind and says whether the election kept
// its promises. [Judge] is a function of the run's directory alone, so one that was
// kept can be judged again:
//
//	history.ndjson   what the harness did and saw: [Event]s
//	ledger           from when to when who led, by the workers' own word (package lives)
//	ops, register.…  what clients did to the register, and were told (package register)
//	watch/*.ndjson   what watchers saw: lines of worker watch, or of elect watch -o json
//	data, flight     the nodes' flight recorders, where they are, or were put aside
//
// # What is looked at
//
// A tenure is one leader's, from its first stamp to its last. Tenures must be disjoint
// and their tokens rise, which a sweep over them shows, and once more porcupine, for
// which they are a history of a mutex, and of one that gives tokens. A token, and a
// term, is one node's.
//
// The guarded register, its unguarded twin and the stream of sequences must be
// linearizable: no reader sees an earlier leader's value after a later one's, whatever
// befell the leaders. Porcupine judges all of it, in pieces (window.go), with what is
// of unknown outcome bounded first (resolve.go); both files say why that changes no
// verdict, and a test compares it with porcupine's on the whole. Sweeps look once more
// whether stale writes were accepted, and whether sequences and the highest token rise.
//
// Watchers see no token that falls, every leader who leads for long, and who leads in
// the end. Flight records are replayed through the machines. By them leases are disjoint
// in the machine's time (lease.go), no term has two winners, and a node that was
// restarted knows the terms that it had made durable, unless its disk was wiped in
// between. Processes do not grow (growth.go). And there must have been something to
// look at: what the run promised (Event.Material).
//
// # Who is excused
//
// A command whose family was frozen whole, its keeper too, may stamp for an instant when
// it goes on, before it is killed: nobody can be faster. Up to Options.Thaw such
// stamps, from its own first one on, are counted as zombies, and are no violation. That
// it goes on must have been written down: a Thaw before, a Cont after. What they write
// is not excused, and neither is a program that asks Check.
//
// # Availability
//
// Somebody leads when a tenure goes on. A set of voters is able to elect when it is a
// majority, and each in it is well: its process there and booted, no part of it
// frozen, its health good by the harness's word, and all links among them perfect both
// ways. Report.Longest is the longest time in which nobody led and one set was able
// throughout. A set that takes another's place begins anew. Time in which the harness
// itself did not come to run (Stall) is left out of it, and told beside it.
//
// # Concurrency and failure
//
// A [History] may be used by any number of goroutines; the rest of the package has no
// state. A broken promise is a [Violation], and what could not be decided is one too.
// An error says that the directory cannot be read, and nothing about the election. A
// last line that was cut short, as by a kill, is left out.
package judge
