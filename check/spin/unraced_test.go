//go:build !race

package spin_test

const raced = false
