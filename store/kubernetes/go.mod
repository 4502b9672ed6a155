module github.com/electd/elect/store/kubernetes

go 1.26.0

require (
	github.com/electd/elect v0.0.0
	go.yaml.in/yaml/v3 v3.0.5
)

require golang.org/x/sys v0.49.0 // indirect

replace github.com/electd/elect => ../..
