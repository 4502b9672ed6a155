//go:build darwin || freebsd

package file

// flockHolder returns 0: these systems have no cheap way to find the holder.
func flockHolder(identity) int { return 0 }
