//go:build !race

package teeth

const raceEnabled = false
