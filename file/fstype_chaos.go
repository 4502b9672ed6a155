//go:build chaos

package file

// refusesFUSE: this build lets FUSE pass. The disks that fail of test/chaos are of that
// kind, and their locks are the kernel's own, as those of a local disk.
const refusesFUSE = false
