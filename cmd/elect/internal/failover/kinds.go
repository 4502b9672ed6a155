package failover

import "slices"

// The further ways in which the leader of a peers' election is brought down.
const (
	Elected  Kill = "elected"  // SIGKILL to a program that embeds the library and works as soon as it is elected
	Guarded  Kill = "guarded"  // SIGKILL to a program that embeds the library under a guardian
	Resign   Kill = "resign"   // asked to resign, as elect resign does: for elect run
	Yielded  Kill = "yielded"  // asked to resign: for a program that works as soon as it is elected
	Transfer Kill = "transfer" // asked to hand over to a named candidate, as elect transfer does: for elect run
	Rolling  Kill = "rolling"  // all nodes of elect run are restarted in turn, the leader last, after a transfer
	Freeze   Kill = "freeze"   // SIGSTOP to a program that embeds the library, and SIGCONT when another leads
	Cut      Kill = "cut"      // cut off from all others, and healed when another leads
)

// mode is the kind of the nodes of an election.
type mode string

const (
	tokens    mode = "tokens"    // programs that work as soon as they are elected
	exclusive mode = "exclusive" // programs that wait until their lease is proven
	cabled    mode = "cabled"    // the same, with a cable between each two
	guarded   mode = "guarded"   // the same, each under a guardian
	commands  mode = "commands"  // elect run
)

// kind is one kind of round.
type kind struct {
	kill Kill
	mode mode
	what string // what is measured
}

// kinds are all kinds for a peers' election, in the order of their turns: two of one mode are apart, so that one
// election settles while the other has its round.
var kinds = [...]kind{
	{Elected, tokens, "SIGKILL to the program → another is elected"},
	{Child, commands, "SIGKILL to the command → the next command's first instruction"},
	{Guarded, guarded, "SIGKILL to the program, under a guardian → another is active"},
	{Graceful, exclusive, "the leader's work has returned → another is active"},
	{Parent, commands, "SIGKILL to elect run → the next command's first instruction"},
	{Yielded, tokens, "the leader's work has returned → another is elected"},
	{Cut, cabled, "the leader is cut off → another is active"},
	{Resign, commands, "asked to resign → the next command's first instruction"},
	{Freeze, exclusive, "SIGSTOP to the program → another is active"},
	{Transfer, commands, "the old command is about to end → the first instruction of the named node's command"},
}

// rolling is separate, because its round takes many promises: it has a turn only if it is requested.
func rolling() kind {
	return kind{Rolling, commands, "all nodes are restarted → the sum of the times without a command at work"}
}

// PeerKills are all ways to bring down the leader of a peers' election, except Rolling.
func PeerKills() []Kill {
	var all []Kill
	for _, k := range kinds {
		all = append(all, k.kill)
	}
	return all
}

// chosen returns the kinds with these names, in their own order.
func chosen(kills []Kill) []kind {
	if slices.Contains(kills, Rolling) {
		return append(chosen(slices.DeleteFunc(slices.Clone(kills), func(k Kill) bool { return k == Rolling })), rolling())
	}
	return slices.DeleteFunc(slices.Clone(kinds[:]), func(k kind) bool { return !slices.Contains(kills, k.kill) })
}
