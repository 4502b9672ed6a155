//go:build race

package scenario

// raceEnabled: a run takes ten times as long, and has one goroutine. So only those of
// quorum are run.
const raceEnabled = true
