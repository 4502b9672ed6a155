package quorum

// Mutant is a rule that tests can switch off, to show that a check notices.
type Mutant struct {
	Name string // of the switch
	Rule string // the rule that is broken
	Says string // what the machine does instead
	Seen string // the invariant that notices it; see Mutants
}

// The invariants. The first seven are about safety. The others apply to rules that protect
// something else.
const (
	OneLeader   = "one-leader-a-term" // each term has at most one winner
	OneVote     = "one-durable-vote"  // a voter has one vote a term, and saves it before it reports or counts it
	OneLease    = "one-lease"         // at no true instant are two leases proven
	OneWork     = "one-work"          // no tenure starts while another's work may run
	Once        = "once"              // nobody is active twice in one term; tokens rise from tenure to tenure
	Anchored    = "anchored"          // nobody has won a term between that of a tenure's token and that of its ballot
	Adjacent    = "adjacent"          // any two memberships that can elect share a voter in every pair of majorities
	Undisturbed = "undisturbed"       // a healthy leader stays
	Takeover    = "takeover"          // a leader that died or was cut off is replaced in time
	Joined      = "joined"            // nobody leads before the work of a resigned leader has returned
	Durable     = "durable-first"     // a membership is durable before any other participant sees it
	Alike       = "alike"             // nobody leads whose clock rate differs too much from those of a quorum
	Willing     = "willing"           // nobody wins that is paused, never leads, or is behind where that counts
)

// Mutants returns all mutants, in the order of the rules.
func Mutants() []Mutant {
	return []Mutant{
		{"promise-forgotten-on-restart", "R1", "A voter that restarts has no boot residual.", OneWork},
		{"promise-not-saved", "R1", "A promise longer than all before it is given without raising the durable bound.", OneWork},
		{"promise-shrinks-at-once", "R1", "A voter that restarts with a shorter promise forgets the longer one that it gave before.", OneWork},
		{"no-quiet-start", "R1", "A voter that has just started grants pre-votes before it could hear the leader.", Undisturbed},
		{"no-sticky", "R2", "A voter helps to replace a leader that it hears.", Undisturbed},
		{"vote-twice-in-a-term", "R3", "A voter votes for every candidate that asks, in any term that is not below its own.", OneVote},
		{"vote-not-durable", "R3", "The answer to a vote leaves before the vote is saved.", OneVote},
		{"save-in-flight-counts-as-done", "R3", "A vote that is asked for again is answered while its save is in flight.", OneVote},
		{"refusal-adopts-term", "R3", "A voter that refuses a vote adopts the candidate's term.", Undisturbed},
		{"own-vote-before-save", "R4", "The candidate counts its own vote before it is saved.", OneVote},
		{"no-residual-wait", "R4", "The winner leads as soon as a quorum follows it: it does not wait for promises to others.", OneWork},
		{"no-own-residual", "R4", "The winner ignores its own promises to others, and its boot residual.", OneWork},
		{"own-earlier-life-ignored", "R4", "A promise to an earlier incarnation of the candidate is not reported to it.", OneWork},
		{"residual-of-holder-only", "R4", "A voter reports its promise to the latest holder only, not those to earlier holders.", OneWork},
		{"residual-before-adoption", "R4", "A voter that has refused counts as free, although it may go on promising to others.", OneWork},
		{"late-vote-of-an-older-round", "R4", "A vote that comes after the win counts, whichever of the winner's rounds it answers.", OneWork},
		{"re-anchor-always", "R5", "A leader that wins a higher term goes on with its token even if another may have won in between.", Anchored},
		{"overtaken-work-renews", "R5", "The work of an overtaken leader goes on under the lease of the next term until it has returned.", OneWork},
		{"vote-while-work-runs", "R6", "A node votes and acks while its own work has not returned.", OneWork},
		{"fence-after-follow", "R6", "A superseded leader acks its successor before it has told its own work to stop.", OneWork},
		{"lease-from-ack-arrival", "R7", "The lease counts from the arrival of the ack.", OneLease},
		{"ignore-drift", "R7", "The lease is as long as the promise.", OneLease},
		{"probe-extends-lease", "R7", "The ack of a heartbeat that asked for no promise extends the lease.", OneLease},
		{"duplicate-ack-extends", "R7", "An ack counts for the latest heartbeat, whichever it answers.", OneLease},
		{"old-heartbeat-extends", "R7", "A heartbeat that was seen before is taken for a sign of life and extends the promise.", Takeover},
		{"lease-revives-in-term", "R7", "A lease that has lapsed goes on when acks come again.", Once},
		{"leader-without-quorum-keeps-promising", "R8", "A leader that no quorum answers goes on binding the voters that it reaches.", Takeover},
		{"release-before-the-work-returned", "R9", "The lease is released when the work is told to stop.", OneWork},
		{"no-renewal-while-fencing", "R9", "The lease is no longer renewed once the work is told to stop.", Joined},
		{"release-by-node-id", "R9", "A release drops all promises to that node, whatever their incarnation, term and number.", OneWork},
		{"witness-any-incarnation", "R9", "A witness's word about one incarnation is applied to all incarnations of that node.", OneWork},
		{"boot-residual-waived", "R9", "A release waives what was promised before the voter started.", OneWork},
		{"handover-before-the-work-returned", "R10", "A leader hands over when its work is told to stop.", OneWork},
		{"handover-any-seq", "R10", "The token of a transfer also waives what was promised to that incarnation since.", OneWork},
		{"priority-never-ignored", "R12", "A voter that never leads stands like all others, and gets votes.", Willing},
		{"paused-stands", "R12", "A paused voter leads and stands as if it were not paused.", Willing},
		{"outranked-at-once", "R12", "A leader hands over to any voter with a higher priority, however short its tenure and the other's incarnation.", Undisturbed},
		{"position-not-asked", "R13", "A voter helps candidates that are behind it.", Willing},
		{"new-term-not-stamped", "R15", "A winner keeps the membership of the term before.", Adjacent},
		{"stands-at-config-term", "R15", "A candidate stands in a term that was won according to its membership, and gets votes.", OneLeader},
		{"round-outlives-membership", "R15", "A candidate goes on with its round when it learns a newer membership.", OneLeader},
		{"standing-by-place", "R15", "A leader that changes the membership keeps what it knows of the voters at their old places.", OneWork},
		{"reconfigure-without-quorum", "R15", "A leader changes a membership that no majority is known to have.", Adjacent},
		{"held-before-saved", "R15", "A voter says that it has a membership that it is still saving.", Adjacent},
		{"reconfigure-two-at-once", "R15", "A leader adds or removes several voters at once.", Adjacent},
		{"largest-claim-forgotten", "R15", "A leader changes the membership again before the present one has promised its old lease.", OneWork},
		{"membership-before-durable", "R15", "A leader installs and sends a membership that is still being saved.", Durable},
		{"clock-jump-ignored", "R16", "A jump of a clock has no effect.", OneWork},
		{"jump-forgets-promises", "R16", "A voter whose clock has jumped forgets what it has promised.", OneWork},
		{"jump-ignored-by-voters", "R16", "A jump of its clock has an effect on a leader only.", OneWork},
		{"clock-rates-not-compared", "R17", "A leader counts the acks of voters whose clock rates differ too much from its own.", Alike},
		{"apart-leads-again", "R17", "A leader that lost its quorum because it cannot use the promises of the voters that answer stands again at once.", Alike},
		{"apart-stands", "R17", "A voter stands although the leader has told it that its clock rate differs too much.", Alike},
	}
}
