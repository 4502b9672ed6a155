package main

import (
	"bytes"
	"os"
	"testing"
)

// TestFresh: elect.json is what go generate would write.
func TestFresh(t *testing.T) {
	text, err := os.ReadFile("elect.json")
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(text, write()) {
		t.Error("elect.json is stale; run: go generate ./deploy/grafana")
	}
}
