module github.com/electd/elect/lab

go 1.26.0

require github.com/electd/elect v0.0.0

replace github.com/electd/elect => ..
