//go:build linux

package main

import (
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/electd/elect/cmd/elect/internal/sdnotify"
)

// tell sends its arguments, each a line, to NOTIFY_SOCKET. With a time as the first one it does so again and again.
func tell() {
	args := os.Args[1:]
	every, err := time.ParseDuration(args[0])
	if err == nil {
		args = args[1:]
	}
	for {
		if err := sdnotify.Send(os.Getenv(sdnotify.EnvSocket), strings.Join(args, "\n")); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		if every == 0 {
			return
		}
		<-time.After(every)
	}
}

// manager is a service manager: it listens at a path and prints what it is told.
func manager() {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: os.Args[1], Net: "unixgram"})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Println("listens")
	for buf := make([]byte, 4096); ; {
		n, err := conn.Read(buf)
		if err != nil {
			return
		}
		fmt.Printf("%s\n", buf[:n])
	}
}
