module github.com/electd/elect/cmd/elect

go 1.26

require github.com/electd/elect v0.0.0

replace github.com/electd/elect => ../..
