// Package elect keeps exactly one of your replicas at work.
//
// A program that runs more than once, and whose work must be done by one of
// them, asks for leadership and does the work while it has it:
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
// A URL says where, a name says which election. Changing where, from one
// machine to a few to a store that a fleet shares, changes the URL and nothing
// else in the program. Package elect imports no back end: a program lists the
// ones it wants, once, in an [Openers].
//
// # What it guarantees
//
// Let a term's lease be what its holder can prove. Under the back end's stated
// assumption, which Limits().Assumes puts in a sentence:
//
//  1. Exclusive. At no instant do two holders of one election both have a
//     proven lease: [Term.Check] returns nil in at most one of them.
//  2. Told in time. The work's context ends before the lease does, by
//     Config.Drain. Work that has not returned when the lease ends is an
//     overrun: reported as EventOverrun, and logged. Of work
//     under a [Guardian], what counts is when it had ended.
//  3. Ordered. Tokens rise strictly from term to term, across crashes and
//     restarts.
//  4. Stop, join, release. The work's context ends, the work returns, and only
//     then is leadership released.
//  5. Honest. A write whose answer was lost is reported as unknown and resolved
//     by reading. A lease that lapsed while a campaign waited is not a victory.
//  6. Once. A Term that has ended never revives. The next victory of the same
//     candidate is another Term with a greater token.
//  7. Live. While the back end answers, somebody leads.
//  8. Where an assumption breaks, such as a virtual machine stopped in its
//     tracks, two holders may overlap. Then the token is what saves the data,
//     in a resource that checks it: see package fence.
//
// # Concurrency and failure
//
// An [Election] may be used by any number of goroutines, and leads or campaigns
// once at a time. Passing trouble with a back end is retried inside
// [Election.Lead]; what is wrong for good is returned.
package elect
