//go:build race

package sim_test

// slower is how much less a test does under the race detector.
const slower = 20
