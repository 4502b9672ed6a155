module github.com/electd/elect/store/zookeeper

go 1.26.0

require (
	github.com/electd/elect v0.0.0
	github.com/go-zookeeper/zk v1.0.4
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/electd/elect => ../..
