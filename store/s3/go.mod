module github.com/electd/elect/store/s3

go 1.26.0

require (
	github.com/aws/aws-sdk-go-v2 v1.48.0
	github.com/electd/elect v0.0.0
)

require (
	github.com/aws/smithy-go v1.28.9 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/electd/elect => ../..
