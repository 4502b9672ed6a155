//go:build darwin || freebsd

package place

import "golang.org/x/sys/unix"

// search opens a directory that need not be readable.
const search = unix.O_SEARCH
