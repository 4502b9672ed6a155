//go:build !race

package disk

// stride is 1: every second fault after every first.
const stride = 1
