package file

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"github.com/electd/elect/driver"
)

// lockName is the file in the election's directory on which candidates queue.
const lockName = "lock"

// List returns the names of the elections that have been held at a URL such as
// [Open] takes, in the order of their names. It changes nothing. The error
// matches fs.ErrNotExist when the directory does not exist.
func List(u *url.URL) ([]string, error) {
	dir, _, err := parse(u)
	if err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("elections in %s: %w", dir, err)
	}
	var names []string
	for _, e := range entries {
		if driver.CheckName(e.Name()) != nil || !e.IsDir() {
			continue // no candidate can have made it, or stands there
		}
		if _, err := os.Lstat(filepath.Join(dir, e.Name(), lockName)); err == nil || os.IsPermission(err) {
			names = append(names, e.Name()) // a directory that may not be read is listed too
		}
	}
	return names, nil
}
