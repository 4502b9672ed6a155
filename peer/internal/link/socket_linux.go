package link

import (
	"net"
	"time"

	"golang.org/x/sys/unix"
)

// tune has the kernel give up a connection on which nothing comes through: idle after something was sent, or
// otherwise idle after the last answer to a probe. It probes once a second.
func tune(c net.Conn, idle time.Duration) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	_ = t.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: time.Second, Interval: time.Second, Count: 3})
	control(t, func(fd int) {
		_ = unix.SetsockoptInt(fd, unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(max(idle, time.Millisecond).Milliseconds()))
	})
}

// measure is what the kernel knows of a connection.
func measure(c net.Conn) (rtt time.Duration, retransmits uint64) {
	t, ok := c.(*net.TCPConn)
	if !ok {
		return 0, 0
	}
	control(t, func(fd int) {
		if info, err := unix.GetsockoptTCPInfo(fd, unix.IPPROTO_TCP, unix.TCP_INFO); err == nil {
			rtt, retransmits = time.Duration(info.Rtt)*time.Microsecond, uint64(info.Total_retrans)
		}
	})
	return rtt, retransmits
}

func control(t *net.TCPConn, do func(fd int)) {
	if raw, err := t.SyscallConn(); err == nil {
		_ = raw.Control(func(fd uintptr) { do(int(fd)) })
	}
}
