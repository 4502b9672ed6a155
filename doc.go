// Package elect keeps exactly one of your replicas at work.
//
// A program with several replicas, whose work must be done by one of them, asks for leadership and does the work
// while it leads:
//
//	openers := elect.Openers{"file": file.Open}
//	election, err := openers.Open(ctx, "file:/var/lib/myjob", "nightly", elect.Config{})
//	if err != nil { … }
//	defer election.Close()
//
//	err = election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
//		// ctx ends when leadership can no longer be proven.
//		// term.Token() goes with every write to a guarded resource.
//		return work(ctx, term.Token())
//	})
//
// The URL says where, the name says which election. A move from one machine to a few, or to a shared store, changes
// the URL and nothing else in the program. Package elect imports no back end: a program lists the ones that it wants,
// once, in an [Openers].
//
// # What it guarantees
//
// A term's lease is the time for which its holder can prove that it leads. Limits().Assumes states the back end's
// assumption in one sentence. Under that assumption:
//
//  1. Exclusive. At no instant do two holders of one election both have a
//     proven lease: [Term.Check] returns nil in at most one of them.
//  2. Told in time. The work's context ends before the lease does, by Config.Drain. Work that has not returned when
//     the lease ends is an overrun: it is reported as EventOverrun, and logged. For work under a [Guardian] the time
//     of its end counts.
//  3. Ordered. Tokens rise strictly from term to term, across crashes and
//     restarts.
//  4. Stop, join, release. The work's context ends, the work returns, and only
//     then is leadership released.
//  5. Honest. A write whose answer was lost is reported as unknown and resolved
//     by reading. A lease that lapsed while a campaign waited is not a victory.
//  6. Once. A Term that has ended never revives. The next victory of the same
//     candidate is another Term with a greater token.
//  7. Live. While the back end answers, there is a leader.
//  8. If an assumption breaks, for example because a virtual machine is suspended, two holders may overlap. Then the
//     token protects the data, in a resource that checks it: see package fence.
//
// # Concurrency and failure
//
// An [Election] may be used by any number of goroutines, and leads or campaigns once at a time. [Election.Lead]
// retries after temporary errors of a back end, and returns permanent ones.
package elect
