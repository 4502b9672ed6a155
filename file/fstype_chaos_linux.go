//go:build chaos

package file

// refusedFUSE is the number of no file system: this build lets FUSE pass. The
// disks that fail of test/chaos are of that kind, and their locks are the
// kernel's own, as those of a local disk.
const refusedFUSE = 0
