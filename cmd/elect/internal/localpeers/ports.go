package localpeers

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are chosen below those that the kernel gives to outgoing connections (from 32768 on Linux by default, from
// 49152 elsewhere). The port of a killed node is free for some milliseconds while others dial it. The kernel may give
// a port of its own range to one of the dialling sockets, which is then connected with itself.
const firstPort, lastPort = 10_000, 32_000

// freePorts returns n different ports of loopback on which no process listens.
func freePorts(n int) ([]int, error) {
	var ports []int
	for tries := 0; len(ports) < n; tries++ {
		if tries > 100*(n+1) {
			return nil, fmt.Errorf("no %d free ports between %d and %d of 127.0.0.1", n, firstPort, lastPort)
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer l.Close() // after all are chosen, so that none comes twice
		ports = append(ports, port)
	}
	if len(ports) == 0 {
		return nil, errors.New("no nodes; want at least 1")
	}
	return ports, nil
}
