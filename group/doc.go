// Package group shares many keys among many processes: shards, partitions, tenants, or any number of named elections.
// The leader of one ordinary election is the group's coordinator, and hands leadership of keys to the group's members.
// Each key has the contract of an election of package elect: exclusive by proof, told in time, rising tokens, and stop,
// join, release. The cost at rest is one heartbeat for each member, whatever the number of keys, and nothing is stored
// anywhere but the one election.
//
//	election, err := openers.Open(ctx, "file:/var/lib/myjob", "shards", elect.Config{})
//	if err != nil { … }
//	g, err := group.Join(ctx, election, group.Config{Keys: group.Range(64)})
//	if err != nil { … }
//	defer g.Close()
//	err = g.Run(ctx, func(ctx context.Context, s *group.Shard) error {
//		// ctx ends when the key is to be given up. s.Token() goes with every write.
//		return work(ctx, s.Key(), s.Token())
//	})
//
// [Group.Elector] is a back end for elections with names of their own: elect.New(g.Elector("nightly"), elect.Config{})
// is an election as every other, and a process may have a hundred thousand of them.
//
// # Failure
//
// A member that dies loses its keys after [Config].Promise, or at once if a [Witness] says that all of it is dead, and
// all others keep theirs. A coordinator that dies is
// replaced by the back end of the election, and the members keep their keys if that takes less than the promise. The
// rules, and what each of them is for, are in package internal/protocol/group.
//
// # Concurrency
//
// All methods of all types may be called by any number of goroutines. A call-back runs in the goroutine that its
// documentation names.
package group
