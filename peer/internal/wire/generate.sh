#!/bin/sh
# Writes wirepb anew from wire.proto. It needs protoc on the PATH; the Go
# generator is built from the module that go.mod requires, so that generator and
# library are of one version.
set -eu
cd "$(dirname "$0")"
bin=$(mktemp -d)
trap 'rm -rf "$bin"' EXIT
go build -o "$bin/protoc-gen-go" google.golang.org/protobuf/cmd/protoc-gen-go
protoc --plugin=protoc-gen-go="$bin/protoc-gen-go" \
	--go_out=. --go_opt=module=github.com/electd/elect/peer/internal/wire wire.proto
