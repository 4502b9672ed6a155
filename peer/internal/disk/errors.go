package disk

import "fmt"

// InUse is the error of [Open] when another process has the directory.
type InUse struct {
	Path string
	// PID is the last process that wrote itself into the lock; 0 if that cannot be read. It may be dead: then its keeper
	// holds the lock until the work is dead too.
	PID int
}

// Error implements error.
func (e *InUse) Error() string {
	who := "another process"
	if e.PID > 0 {
		who = fmt.Sprintf("another process (pid %d, or the keeper of its work)", e.PID)
	}
	return fmt.Sprintf("%s: %s uses it; want a directory for each node", e.Path, who)
}

// Refused is the error of [Open] when the directory is not what it should be: it belongs to another node, is damaged,
// or has lost its votes. Another attempt will fail too.
type Refused struct {
	Path string
	Says string // what is wrong, and what would be right
}

// Error implements error.
func (e *Refused) Error() string { return e.Path + ": " + e.Says }

func refused(path, format string, args ...any) error {
	return &Refused{Path: path, Says: fmt.Sprintf(format, args...)}
}
