//go:build etcd

// Command etcd is the server of etcd as its makers build it. It has a module of its own,
// so that the tests that run it need none of what it is made of, and is built with the tag
// etcd only, which takes minutes the first time.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() {
	etcdmain.Main(os.Args)
}
