package protocol

import "testing"

// TestLoss: each class of reasons has a loss and a text for people, and a word that
// is not known means that another may lead.
func TestLoss(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		reason Reason
		loss   Loss
		says   string
	}{
		{Lapsed, Expired, "no majority of the voters renewed it in time"},
		{ClockJump, Expired, "this machine slept, or a clock was set"},
		{"clock-jump", Expired, "this machine slept, or a clock was set"},
		{"lost-quorum", Unreachable, "no majority of the voters answers"},
		{"bullied", Superseded, "another was elected"},
		{"higher-term", Superseded, "another may have been elected in between"},
		{Withdrawn, Resigned, "released"},
		{Paused, Resigned, "paused"},
		{Unhealthy, Unfit, ""},
		{"a-word-of-tomorrow", Superseded, "a-word-of-tomorrow"},
	} {
		if loss, says := c.reason.Loss(); loss != c.loss || says != c.says {
			t.Errorf("%s: %d, %q; want %d, %q", c.reason, loss, says, c.loss, c.says)
		}
	}
}
