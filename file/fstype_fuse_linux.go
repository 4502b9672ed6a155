//go:build !chaos

package file

import "golang.org/x/sys/unix"

// refusedFUSE is the number of FUSE, which is refused.
const refusedFUSE = unix.FUSE_SUPER_MAGIC
