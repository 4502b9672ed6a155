package keeper

import (
	"encoding/binary"
	"syscall"

	"golang.org/x/sys/unix"
)

// The parts of sock_diag(7) that are used here, by the names of linux/inet_diag.h.
const (
	sockDestroy      = 21
	diagRequest      = 56 // struct inet_diag_req_v2: family, protocol, ext, pad, states, id
	diagID           = 48 // struct inet_diag_sockid, of which the answer has one at 4
	diagReqBytecode  = 1
	diagBCCgroupCond = 13
	// All states of TCP but TIME_WAIT, CLOSE and LISTEN.
	diagStates = 0xffe &^ (1<<unix.BPF_TCP_TIME_WAIT | 1<<unix.BPF_TCP_CLOSE | 1<<unix.BPF_TCP_LISTEN)
)

// reset ends the TCP connections that were opened in the cgroup, and in those below it, in this network namespace.
// Their peers get a reset: without it a server would wait for a client whose last packets the network guard has
// dropped. What cannot be reset stays as it is.
func (g *Cgroup) reset() {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.NETLINK_SOCK_DIAG)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &unix.Timeval{Sec: 1})
	eachCgroup(g.Path, func(path string) {
		var st unix.Stat_t
		if unix.Lstat(path, &st) != nil {
			return
		}
		for _, family := range []byte{unix.AF_INET, unix.AF_INET6} {
			resetIn(fd, family, st.Ino)
		}
	})
}

// resetIn ends the connections of one family of addresses in the cgroup with that number.
func resetIn(fd int, family byte, cgroup uint64) {
	request := diagMessage(family, make([]byte, diagID))
	condition := []byte{16, 0, diagReqBytecode, 0, diagBCCgroupCond, 12, 16, 0} // accepted if it is this cgroup's, else refused
	condition = binary.NativeEndian.AppendUint64(condition, cgroup)
	var ids [][]byte
	ask(fd, unix.SOCK_DIAG_BY_FAMILY, unix.NLM_F_DUMP, append(request, condition...), func(answer []byte) {
		if len(answer) >= 4+diagID {
			ids = append(ids, answer[4:4+diagID])
		}
	})
	for _, id := range ids {
		ask(fd, sockDestroy, unix.NLM_F_ACK, diagMessage(family, id), func([]byte) {})
	}
}

func diagMessage(family byte, id []byte) []byte {
	b := append(make([]byte, 0, diagRequest), family, unix.IPPROTO_TCP, 0, 0)
	return append(binary.NativeEndian.AppendUint32(b, diagStates), id...)
}

// ask sends a request, and hands each answer over, until the last one.
func ask(fd int, kind, flags uint16, body []byte, each func([]byte)) {
	b := binary.NativeEndian.AppendUint32(nil, uint32(unix.NLMSG_HDRLEN+len(body)))
	b = binary.NativeEndian.AppendUint16(b, kind)
	b = binary.NativeEndian.AppendUint16(b, unix.NLM_F_REQUEST|flags)
	b = append(append(b, make([]byte, 8)...), body...)
	if unix.Sendto(fd, b, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}) != nil {
		return
	}
	for {
		buf := make([]byte, 1<<16)
		n, _, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		} else if err != nil {
			return
		}
		messages, err := syscall.ParseNetlinkMessage(buf[:n])
		if err != nil {
			return
		}
		for _, m := range messages {
			if m.Header.Type == unix.NLMSG_DONE || m.Header.Type == unix.NLMSG_ERROR {
				return
			}
			each(m.Data)
		}
	}
}
