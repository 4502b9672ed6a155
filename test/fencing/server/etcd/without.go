//go:build !etcd

package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "etcd: build it with -tags etcd")
	os.Exit(64)
}
