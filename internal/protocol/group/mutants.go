package group

// Mutant is a rule that tests can switch off, to show that a check notices. A member and a coordinator have the same
// names, and each ignores those of the other.
type Mutant struct {
	Name string // of the switch
	Rule string // the rule that is broken
	Says string // what the machine does instead
	Seen string // the invariant that notices it; see Mutants
}

// The invariants.
const (
	OneHolder = "one-holder"        // at no true instant can two members prove the same key
	Ordered   = "ordered"           // each holder of a key has a greater token than the one before
	Joined    = "joined"            // a key's work begins when that of the holder before has returned, or its claim is over
	Vouched   = "known-to-vouchers" // who may vouch knows every admitted session with a live claim
	Healed    = "healed"            // when all faults have ended, every key is held again in time
	Untouched = "untouched"         // a coordinator's end interrupts no living member if the next one is there in time
	Unfit     = "misfits"           // no member that does not fit gets a key from another, costs others a key, or is elected
	Alone     = "one-work"          // no work of a key begins while a member has said that older work of it still runs
)

// Mutants returns all mutants, in the order of the rules. Three of group's rules are a driver's, and are not among them:
// that t0 is read after the tenure was proven (G7), that a witness speaks after the work is dead (G6), and that a
// coordinator's machine is not used again (G7); for the last one keeps-earlier-tenure lets a driver do so.
func Mutants() []Mutant {
	return []Mutant{
		{"session-goes-on", "G1", "A session whose claim has lapsed goes on when its polls are answered again.", OneHolder},
		{"revived-by-late-answer", "G1", "An answer is taken before the claim is compared with the clock.", OneHolder},
		{"new-life-ends-old", "G1", "A report of another process of the same member ends the older session.", OneHolder},
		{"word-about-a-member", "G1", "A witness's word about one process ends all sessions of its member.", OneHolder},
		{"report-before-greet", "G2", "A report is composed when the connection before breaks.", OneHolder},
		{"old-attachment-counts", "G2", "A coordinator takes messages of older attachments.", OneHolder},
		{"old-assignment-counts", "G2", "A member takes assignments of older attachments.", OneHolder},
		{"old-admission-counts", "G2", "A member takes admissions and registries of older attachments.", Vouched},
		{"reports-by-arrival", "G2", "The report that arrives last counts, whatever its number.", OneHolder},
		{"closed-proves", "G2", "A closed connection ends the session.", OneHolder},
		{"check-of-before", "G3", "A coordinator decides by what Check said at the step before.", OneHolder},
		{"no-check", "G3", "A coordinator does not ask Check.", OneHolder},
		{"clock-of-before", "G3", "A coordinator decides by a reading of the clock from before the receipt.", OneHolder},
		{"poll-renews-nothing", "G3", "A poll is answered, and the promise stays as it was.", OneHolder},
		{"claim-from-answer", "G3", "The claim counts from the arrival of the answer.", OneHolder},
		{"claim-from-latest-send", "G3", "An answer counts for the latest poll, whichever it answers.", OneHolder},
		{"ignore-drift", "G3", "The claim is as long as the promise.", OneHolder},
		{"report-promised-as-a-poll", "G3", "A report is promised no more than a poll.", OneHolder},
		{"older-tenure-obeyed", "G2", "A member attaches to a coordinator of an older tenure than it has seen.", OneHolder},
		{"unadmitted-assigned", "G4", "A key is assigned to a session that is not admitted, and it begins.", OneHolder},
		{"begins-late", "G4", "A member begins although its claim is over.", OneHolder},
		{"release-before-join", "G5", "A key is released when its work is told to stop.", Joined},
		{"release-of-any-token", "G5", "A release counts for whatever token the key has.", OneHolder},
		{"unlisted-stays", "G5", "What a new report does not list stays assigned.", Healed},
		{"keeps-earlier-tenure", "G7", "A coordinator begins with the sessions and keys of its tenure before.", OneHolder},
		{"no-cover", "G7", "A coordinator takes all keys for free that nobody has reported.", OneHolder},
		{"cover-a-tenth-short", "G7", "Cover lasts nine tenths of W.", OneHolder},
		{"cover-three-tenths-short", "G7", "Cover lasts seven tenths of W.", OneHolder},
		{"no-acks", "G8", "A session is admitted without any voucher's acknowledgement.", Vouched},
		{"acks-of-connected-only", "G8", "A voucher whose connection is closed is not waited for.", Vouched},
		{"acks-of-a-majority", "G8", "The acknowledgements of a majority of the vouchers suffice.", Vouched},
		{"inherited-not-vouchers", "G8", "Sessions that an earlier coordinator admitted are not waited for.", Vouched},
		{"admits-in-cover", "G8", "Sessions are admitted during cover.", OneHolder},
		{"registry-of-arrival", "G8", "An admitted session is told the registry of its arrival.", Vouched},
		{"ack-before-kept", "G8", "A registry is acknowledged and not kept.", Vouched},
		{"admission-outlives-session", "G8", "The next session of a process is admitted if the one before was.", Vouched},
		{"admission-told-once", "G8", "A session is told once that it is admitted.", Healed},
		{"report-keeps-admission", "G8", "A session stays admitted although its new report does not show it.", Vouched},
		{"unadmitted-vouches", "G9", "A session vouches that is not admitted.", OneHolder},
		{"lapsed-vouches", "G9", "A session vouches whose claim is over.", OneHolder},
		{"no-voucher-needed", "G9", "Cover ends by account although nobody has vouched.", OneHolder},
		{"one-may-be-missing", "G9", "Cover ends by account although one session of the account is missing.", OneHolder},
		{"no-number", "G11", "All assignments of a key in a tenure have the same token.", Ordered},
		{"next-takes-adopted-tenure", "G11", "The next holder of an adopted key gets a token of the tenure of that of the key.", Ordered},
		{"overruns-not-covered", "G12", "Reported overruns cover no keys.", Alone},
		{"no-deserted", "G13", "A coordinator that hears few of its members does not resign.", Healed},
		{"longer-promise-admitted", "G14", "A coordinator takes members with a longer promise than its cover.", OneHolder},
		{"shorter-cover-admitted", "G14", "A coordinator takes members with a shorter cover than its promise.", Unfit},
		{"misfit-goes-on", "G14", "A coordinator refuses members that have keys during its cover, and goes on.", Unfit},
		{"own-cover-only", "G14", "A coordinator covers for its own W, and not for that of the one before it.", OneHolder},
		{"refused-stands", "G15", "A member that is refused can be elected.", Unfit},
		{"jump-ignored-by-member", "G14", "A jump of a member's clock has no effect.", OneHolder},
		{"jump-ignored-by-coordinator", "G14", "A jump of a coordinator's clock has no effect.", OneHolder},
		{"resigns-at-once", "G6", "A coordinator resigns before its vouchers have acknowledged who has left.", Untouched},
	}
}
