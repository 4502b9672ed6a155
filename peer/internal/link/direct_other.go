//go:build !unix

package link

import "syscall"

// writeSome writes nothing, and leaves all to the goroutine that may wait.
func writeSome(syscall.RawConn, []byte) (int, error) { return 0, nil }

// readSome reads what has arrived, or waits for something.
func (o *outlet) readSome(p []byte) (int, error) { return o.Conn.Read(p) }
