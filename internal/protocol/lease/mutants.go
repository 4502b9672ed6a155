package lease

// Mutant is a rule that tests can switch off, to show that a check notices.
type Mutant struct {
	Name string // of the switch
	Rule string // the rule that is broken
	Says string // what the machine does instead
	Seen string // what goes wrong then
}

// The failures.
const (
	overlap  = "two proven leases at one true instant"
	repeated = "a token that does not rise"
	revived  = "a term that leads again after it had lapsed"
	unjoined = "another participant leads before the work of the last term has returned"
	needless = "a term that ends without a cause"
	below    = "a token that is not above a count that its process has seen"
	rests    = "a term that goes on although the store has answered less than it had shown before"
)

// Mutants returns all mutants, in the order of the rules.
func Mutants() []Mutant {
	return []Mutant{
		{"identical-renewal", "L1", "A renewal repeats the content of the last write.", overlap},
		{"count-reuse", "L6", "The count of the record is taken over without adding 1.", repeated},
		{"conflict-is-failure", "L2", "A conflict counts as proof that the own write did not land.", needless},
		{"unknown-is-done", "L2", "A write without an answer counts as landed.", overlap},
		{"any-attempt-counts", "L2", "The last sending counts, whichever own attempt is read back.", overlap},
		{"no-sight-on-change", "L3", "The wait counts from the first sight of a tenure, not of a version.", overlap},
		{"wait-own-duration", "L4", "The wait is the participant's own duration, even if the record's is longer.", overlap},
		{"put-back-is-current", "L5", "A record from before a tenure that was seen is waited for only for its own duration.", overlap},
		{"older-renewal-is-current", "L5", "A record is current if its count is, although a later version or renewal was seen.", overlap},
		{"empty-without-mark", "L5", "A record without a holder is free, whichever program emptied it.", overlap},
		{"mark-of-another", "L5", "A free mark counts for every tenure.", overlap},
		{"store-change-ignored", "L5", "Another incarnation of the store is not noticed.", overlap},
		{"create-held", "L5", "An absent record is created held.", overlap},
		{"retake-without-count", "L5", "A participant takes its ended tenure again under the same count.", repeated},
		{"own-name-is-mine", "L5", "A record with the own name and another nonce is taken at once.", overlap},
		{"token-without-renewal", "L7", "An acquisition whose claim has passed opens a term as if it had just been sent.", overlap},
		{"seen-count-ignored", "L7", "An acquisition opens a term although a count of another that is no less was seen.", below},
		{"duration-changes", "L8", "Every other renewal asks for half the duration.", overlap},
		{"deadline-from-answer", "L8", "The claim counts from the arrival of the answer.", overlap},
		{"ignore-drift", "L8", "The whole duration is claimed, less the guard.", overlap},
		{"late-answer-revives", "L8", "An answer counts before the claim is checked.", revived},
		{"renew-after-deadline", "L8", "A holder whose claim has passed goes on renewing, and leads again.", revived},
		{"gone-back-ignored", "L8", "A holder goes on when the store answers less than it had shown before.", rests},
		{"jump-ignored", "L8", "A jump of the clocks is not noticed.", overlap},
		{"renewal-stops-at-drain", "L8", "Nothing is renewed while the work returns.", unjoined},
		{"release-before-join", "L9", "The record is released when the term ends.", unjoined},
		{"release-without-nonce-check", "L9", "A release that meets a conflict frees the record of any holder.", overlap},
		{"delete-on-release", "L9", "A release deletes the record.", repeated},
	}
}
