//go:build !unix

package sqlstore

import "os"

// links is how many names a file has, 0 if that is not known.
func links(os.FileInfo) uint64 { return 0 }
