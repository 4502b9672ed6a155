package keeper

// reason says why a family ended. supervise.Reason has the same values.
type reason byte

const (
	BecauseExited reason = iota + 1
	BecauseStopped
	BecauseKilled
	BecauseExpired
	BecauseTerminated
	BecauseKeeperLost
	BecauseReplaced
)
