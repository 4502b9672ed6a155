//go:build !linux && !darwin && !freebsd

package disk

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"github.com/electd/elect/internal/place"
)

// lock refuses: without a lock that dies with its holder, two processes could
// vote from one directory.
func lock(dir *place.Dir) ([]*os.File, error) {
	return nil, fmt.Errorf("%w: %s: a data directory needs flock, so Linux, macOS or FreeBSD; this is %s", errors.ErrUnsupported, dir.Path(), runtime.GOOS)
}
