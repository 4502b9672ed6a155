//go:build !linux

package disk

import "os"

// synced is a real file. Its Sync is os.File's, which on macOS also empties the
// disk's own cache.
type synced struct{ *os.File }

// Forget does nothing: this system has no such request.
func (f synced) Forget() {}
