//go:build race

package sim

// Slower is how much less a test does under the race detector.
const Slower = 20
