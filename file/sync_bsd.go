//go:build darwin || freebsd

package file

import "os"

// syncedFile is an open counter. Its Sync is os.File's, which on macOS also
// empties the disk's own cache.
type syncedFile struct{ *os.File }
