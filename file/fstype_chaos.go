//go:build chaos

package file

// refusesFUSE is false in this build, so that FUSE passes. The failing disks of test/chaos are of that kind, and
// their locks are the kernel's own, as those of a local disk.
const refusesFUSE = false
