// Package race tells tests whether the race detector is on. What runs in one
// goroutine takes ten times as long under it and shows nothing more, so such tests do
// less there; CI runs them at their full size without it.
package race

// Or is all, or few under the race detector: how many times a test does something.
func Or[T any](all, few T) T {
	if Enabled {
		return few
	}
	return all
}
