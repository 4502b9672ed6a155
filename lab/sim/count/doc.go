// Package count counts what one election costs: messages by type, or requests
// to a store, with the machines that run in production, against the formulas
// that the papers give.
//
// The machines run in a perfect network: every message arrives, in the order of sending, in no
// time; a save is durable at once. A leader is elected, settles and dies silently. Then time passes
// at the machines that shall notice it, and every message is counted until the next leader is
// elected and its first announcements have arrived. Each machine has a clock of its own, so that a
// spec can decide which ones notice.
//
// The simulator of package sim counts under faults and chance; this one is for
// what is exact, and for up to [MaxNodes] machines.
//
// With 10,000 machines bully sends a hundred million messages, of which half are
// under way at one time: that takes about half a minute and 700 MB. All other
// protocols take less than that; ring, whose lists grow with the ring, as long.
// quorum has at most 9 voters, so that its counts end there.
//
// A count is a pure function of its [Spec]. Any number of goroutines may count.
package count
