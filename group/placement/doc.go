// Package placement says which member of a group should hold which key, and why. It decides nothing: its moves are
// wishes, which the group's coordinator carries out where its rules permit that. A program that knows better implements
// [Placer] itself, or changes what a [Planner] returns.
//
// # Rules
//
// They apply in this order. A later one never undoes what an earlier one wants.
//
//  1. Quotas: no member is given more keys than its [Member].Quota.
//  2. A key goes to a member that wants it, of the greatest priority; among these to its preferred member, then to
//     members in its preferred zone. A key that is held is taken away for a greater priority only with [Key].Replace.
//  3. What is held stays where it is, unless a rule here says that it moves.
//  4. A free key goes back to the member that held it last, or else to the first in its ranking. The ranking is a
//     rendezvous hash of the key's name and the member's id, weighted, and the same at every coordinator. It gives a
//     returning member the keys that it had.
//  5. Keys that have to go somewhere anyway, because they are free, or their holder is draining, does not want them or
//     is above its quota, even out the load.
//  6. Then keys that are held move from loaded members to idle ones, those first that rank the taker highest above the
//     holder. With equal keys and equal weights members end within one key of each other; with loads, when no single
//     move would narrow the gap between two members by more than [Settings].Slack. No key moves between two members of
//     equal load.
//  7. Zones: among members with the same number of equal keys, one in a zone with more keys gives a key to one in a
//     zone with fewer.
//
// While members have come or gone, or begun or ceased to drain, within the last [Settings].Quiet, and while a member
// is away that said it would be back, only these keys move: free ones, and those of a member that is draining or does
// not want them. So a rolling restart moves few keys. The keys of a member that said when it will be back are kept
// free for it until then. [Settings].Rate and [Settings].AtOnce limit how many held keys move.
//
// The load of a member is the sum of its keys' loads, in proportion to its weight. Each move of rule 6 lowers the sum
// of load²/weight over all members, so they come to an end.
//
// # Concurrency and failure
//
// The package has no clock, no chance and no goroutine: the same calls give the same moves. A Planner is used by one
// goroutine. Wrong input is refused with an error that says what would be right, and changes nothing.
package placement
