package fencefile

import (
	"fmt"

	"github.com/electd/elect/internal/localfs"
)

// fileSystem refuses a file system that is not local, and warns of one that may not be.
func fileSystem(path string) (warnings []string, err error) {
	on, err := localfs.Of(path)
	if err != nil {
		return nil, fmt.Errorf("fencefile: statfs %s: %w", path, err)
	}
	return judge(path, on)
}

func judge(path string, on localfs.System) (warnings []string, err error) {
	switch on.Kind {
	case localfs.Network:
		return nil, fmt.Errorf("fencefile: %s is on %s, whose locks other machines do not see; want a directory on a local file system", path, on.Name)
	case localfs.FUSE:
		return []string{"on FUSE, which may be another machine's; it holds only if that is a local file system, and keeps what is synced"}, nil
	case localfs.Memory:
		return []string{"the file system is in memory: the mark is gone when the machine starts again"}, nil
	}
	return nil, nil
}
