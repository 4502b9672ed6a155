package config

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

func TestReadSecretMode(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("modes mean nothing there")
	}
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte("0123456789abcdef\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for mode, want := range map[os.FileMode]string{0o640: "", 0o644: "has mode 0644, with which all users can read it or write to it; want 0600 or 0640 (in a Kubernetes volume defaultMode: 0400, in Docker mode: 0400)"} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		got, err := ReadSecret("secret-file", path, 16)
		if want == "" && (err != nil || got != "0123456789abcdef") {
			t.Errorf("mode %04o: %q, %v; want the line", mode, got, err)
		}
		if want != "" && (err == nil || !strings.HasSuffix(err.Error(), want)) {
			t.Errorf("mode %04o: %q, %v; want %s", mode, got, err, want)
		}
	}
}
