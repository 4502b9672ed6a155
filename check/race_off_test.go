//go:build !race

package check

// racing: the race detector is on, and everything takes ten times as long.
const racing = false
