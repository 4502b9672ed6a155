module github.com/electd/elect/peer

go 1.26.0

require (
	github.com/electd/elect v0.0.0
	golang.org/x/sys v0.49.0
	google.golang.org/protobuf v1.36.12
)

replace github.com/electd/elect => ..
