// Package judge reads the records of a run and checks whether the election kept its promises.
// [Judge] is a function of the run's directory alone, so a kept run can be judged again:
//
//	history.ndjson   what the harness did and saw: [Event]s
//	ledger           when each leader led, as the workers recorded it (package lives)
//	ops, register.…  what clients did to the register, and the answers (package register)
//	watch/*.ndjson   what watchers saw: lines of worker watch, or of elect watch -o json
//	data, flight     the nodes' flight recorders, in place or put aside
//
// # What is checked
//
// A tenure is one leader's, from its first stamp to its last. Tenures must be disjoint and their
// tokens rise. A sweep over them checks this, and so does porcupine, which takes them for a history
// of a mutex, and of one that gives tokens. A token, and a term, belongs to one node.
//
// The guarded register, its unguarded twin and the stream of sequences must be linearizable: no
// reader sees an earlier leader's value after a later one's, whatever happened to the leaders.
// Porcupine checks all of it, in pieces (window.go), after operations of unknown outcome are
// bounded (resolve.go). Both files say why that changes no verdict, and a test compares it with
// porcupine's verdict on the whole. Sweeps check in addition whether stale writes were accepted,
// and whether sequences and the highest token rise.
//
// Watchers see no token that falls, every leader that leads for long, and the leader at the end.
// Flight records are replayed through the machines. By them leases are disjoint in the computer's
// time (lease.go), no term has two winners, and a restarted node knows the terms that it had made
// durable, unless its disk was wiped in between. Processes do not grow (growth.go). And there must
// be enough evidence: what the run promised (Event.Material).
//
// # What is excused
//
// A command whose family was frozen as a whole, its keeper too, may stamp for an instant when it
// resumes, before it is killed: that cannot be prevented. Such stamps, up to Options.Thaw after its
// own first one, are counted as zombies, and are no violation. The history must record that it
// resumed: a Thaw before, a Cont after. Writes of zombies are not excused, and neither is a program
// that uses Check.
//
// # Availability
//
// There is a leader while a tenure goes on. A set of voters is able to elect when it is a majority
// and each of them is well: its process runs and has booted, no part of it is frozen, the harness
// reports its health as good, and all links among them are perfect both ways. Report.Longest is the
// longest time without a leader in which one set was able throughout. A set that takes another's
// place begins anew. Time in which the harness itself did not run (Stall) is subtracted, and
// reported beside it.
//
// # Concurrency and failure
//
// Any number of goroutines may use a [History]; the rest of the package has no state. A broken
// promise is a [Violation], and so is what could not be decided. An error means that the directory
// cannot be read, and says nothing about the election. An incomplete last line, as after a kill, is
// ignored.
package judge
