//go:build linux

package server

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/electd/elect/internal/harness"
	"github.com/electd/elect/internal/long"
)

// The credentials of [S3].
const (
	S3Key    = "someone"
	S3Secret = "some-secret"
)

// S3 is a server of S3's protocol. Its methods belong to the test's goroutine.
type S3 struct {
	*process
	URL  string // the endpoint
	bin  string
	data string
}

// StartS3 starts versitygw over a directory of a file system with extended attributes. With a sidecar for these it
// writes an ETag before the object that has it.
func StartS3(t testing.TB) *S3 {
	t.Helper()
	long.Test(t, "it starts a real server")
	bin := built(t, "versitygw")
	p := newProcess(t, "s3")
	s := &S3{process: p, URL: "http://" + harness.FreeAddr(t), bin: bin, data: filepath.Join(p.dir, "data")}
	if err := os.Mkdir(s.data, 0o755); err != nil {
		t.Fatal(err)
	}
	s.Start(t)
	return s
}

// Start starts the server, and returns when it answers.
func (s *S3) Start(t testing.TB) {
	t.Helper()
	cmd := s.command(s.bin, "--access", S3Key, "--secret", S3Secret, "--region", "us-east-1", "--port", s.URL[len("http://"):], "--quiet",
		"posix", s.data)
	s.start(t, cmd, func(ctx context.Context) error {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, s.URL, nil)
		if err != nil {
			return err
		}
		resp, err := http.DefaultClient.Do(r)
		if err == nil {
			err = resp.Body.Close()
		}
		return err
	})
}

// Bucket makes a bucket, which is a directory.
func (s *S3) Bucket(t testing.TB, name string) {
	t.Helper()
	if err := os.Mkdir(filepath.Join(s.data, name), 0o755); err != nil {
		t.Fatal(err)
	}
}

// Remove removes an object behind the server's back.
func (s *S3) Remove(t testing.TB, bucket, key string) {
	t.Helper()
	if err := os.RemoveAll(filepath.Join(s.data, bucket, key)); err != nil {
		t.Fatal(err)
	}
}
