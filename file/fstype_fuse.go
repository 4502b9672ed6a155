//go:build !chaos

package file

const refusesFUSE = true
