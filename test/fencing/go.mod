module github.com/electd/elect/test/fencing

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/coder/websocket v1.8.15
	github.com/electd/elect v0.0.0
	github.com/electd/elect/peer v0.0.0
	golang.org/x/sys v0.49.0
)

require google.golang.org/protobuf v1.36.12 // indirect

replace (
	github.com/electd/elect => ../..
	github.com/electd/elect/fence/fenceetcd => ../../fence/fenceetcd
	github.com/electd/elect/fence/fencegrpc => ../../fence/fencegrpc
	github.com/electd/elect/fence/fenceredis => ../../fence/fenceredis
	github.com/electd/elect/peer => ../../peer
)
