// Package alive has the file by whose lock a keeper knows that a process is alive, or another keeper of it. Its function
// may be called by any number of goroutines, and fails where the system has no such files, or no descriptor is left.
package alive
