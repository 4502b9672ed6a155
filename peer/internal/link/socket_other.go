//go:build !linux

package link

import (
	"net"
	"time"
)

// tune has the kernel probe a connection and give it up when nothing answers. How
// often it can be told to is up to the system.
func tune(c net.Conn, idle time.Duration) {
	if t, ok := c.(*net.TCPConn); ok {
		_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: max(idle, time.Second), Interval: time.Second, Count: 3})
	}
}

// measure is what the kernel knows of a connection: here it is not asked.
func measure(net.Conn) (rtt time.Duration, retransmits uint64) { return 0, 0 }
