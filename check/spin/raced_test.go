//go:build race

package spin_test

// raced: the race detector has nothing to see here.
const raced = true
