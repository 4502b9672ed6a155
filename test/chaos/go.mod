module github.com/electd/elect/test/chaos

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/electd/elect v0.0.0
	github.com/electd/elect/peer v0.0.0
	github.com/hanwen/go-fuse/v2 v2.12.1
	github.com/redis/go-redis/v9 v9.23.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/lib/pq v1.12.3
	go.uber.org/atomic v1.12.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace github.com/electd/elect => ../..

replace github.com/electd/elect/peer => ../../peer
