package queue

// Mutant is a rule of this package that a test can switch off, to show that a check notices. It
// works only in builds with the tag mutants.
type Mutant struct {
	Name string // for Config.Mutate
	Rule string // the rule that it breaks
	Says string // what it does instead
}

// Mutants returns all mutants.
func Mutants() []Mutant {
	return []Mutant{
		{"no-verify", "Q4", "wins when a list after the wait has no lower entry, without reading its own entry back"},
		{"win-on-watch-event", "Q3", "takes the event, or the end, of the watch on its predecessor for a win"},
		{"wrong-predecessor", "Q3", "watches the first entry instead of the one before its own, so that every departure wakes all"},
		{"own-predecessor", "Q2", "keeps the entry that Enter answered with, although a lower one is its own too, and waits for that"},
		{"deadline-from-answer", "Q5", "counts a claim from the arrival of the answer"},
		{"deadline-across-streams", "Q5", "sends renewals without waiting, and counts any answer from the last sending"},
		{"deadline-from-pings", "Q6", "renews by keeping the session alive, which a ZooKeeper server does by itself"},
		{"no-hold-off", "Q6", "leads at once, whatever the mark says"},
		{"mark-before-hold-off", "Q6", "writes its own mark before it has waited for the last one's hold"},
		{"free-outside-the-delete", "Q6", "writes the free mark when the tenure ends, and deletes its entry later"},
		{"free-without-tenure", "Q6", "leaves the free mark behind although it has not waited for the last one's hold"},
		{"unmarked-is-free", "Q6", "takes a mark that was never written for a free one"},
		{"wait-own-hold", "Q6", "waits for its own hold, not for the longer one of the previous tenure"},
		{"unmarked-waits-own-hold", "Q6", "waits for its own hold, not for the longest possible, where no mark tells that of the previous tenure"},
		{"sight-of-an-older-touch", "Q6", "waits from when it first saw a touch of the last tenure, which need not be the last touch"},
		{"untouched-mark-is-seen", "Q6", "waits from when it first saw the mark of a holder that does not touch, as those of older releases"},
		{"reads-extend-a-touched-claim", "Q6", "touches its entry once, and counts its claim from reads afterwards, which no candidate sees"},
		{"renewals-extend-the-hold", "Q6", "counts its claim on the entry also from renewals of its session"},
		{"servers-taken-for-mended", "Q6", "has no hold on etcd, although its servers' versions were not checked"},
		{"second-tenure-on-one-entry", "Q1", "keeps its entry after a loss and leads with it again"},
		{"adopt-from-older-session", "Q2", "keeps its nonce, and adopts an entry of another session"},
		{"scan-without-sync", "Q2", "lists after an unknown Enter without a write before"},
		{"key-deleted-lease-kept", "Q8", "leaves by deleting its entry and keeps the session"},
		{"session-replaced-silently", "Q7", "goes on when an answer comes from another session"},
		{"ignore-drift", "Q5", "claims the whole promise, less the guard"},
		{"late-answer-revives", "Q5", "lets an answer that came after the deadline move it"},
		{"renewing-after-deadline", "Q5", "goes on renewing after its claim has lapsed"},
		{"release-before-join", "Q8", "leaves when the tenure ends, while its work may still run"},
		{"jump-ignored", "Q5", "keeps its claim when its clocks have jumped"},
	}
}

// olderRelease makes a machine behave, in the same builds, as those of releases without Touch in etcd: its claim counts
// from reads, and it waits from its first view. It is no mutant: both kinds stand in one election while participants
// are replaced.
const olderRelease = "older-release"
