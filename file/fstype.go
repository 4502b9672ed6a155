//go:build linux || darwin || freebsd

package file

import (
	"fmt"
	"log/slog"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/localfs"
)

// checkFileSystem refuses a file system on which a lock does not hold.
func checkFileSystem(path string, log *slog.Logger) error {
	on, err := localfs.Of(path)
	if err != nil {
		return explain("statfs", path, err)
	}
	if err := refuse(path, on); err != nil {
		return err
	}
	if on.Kind == localfs.Memory {
		log.Info("the token counter is in memory: tokens start again at 1 after a reboot, unless the era is raised", "dir", path)
	}
	return nil
}

// refuse refuses networks, and FUSE, whose server may forget locks.
func refuse(path string, on localfs.System) error {
	if on.Kind == localfs.Network || on.Kind == localfs.FUSE && refusesFUSE {
		return driver.Permanent(fmt.Errorf("%s is on %s, where a lock does not hold as it does on a local disk; want a directory such as /var/lib/elect on a local one", path, on.Name))
	}
	return nil
}
