package config

import (
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
)

// ReadSecret reads the one line of a file, without its end: at least that many bytes. field is where a configuration names
// the file; "" for path is none. A file that all users can read is refused.
func ReadSecret(field, path string, least int) (string, error) {
	if path == "" {
		return "", nil
	}
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%s: %w; want a file with one line, which this user can read", field, err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", fmt.Errorf("%s: %w", field, err)
	}
	if mode := info.Mode().Perm(); runtime.GOOS != "windows" && mode&0o007 != 0 {
		return "", fmt.Errorf("%s: %s has mode %04o, with which all users can read it or write to it; want 0600 or 0640 (in a Kubernetes volume defaultMode: 0400, in Docker mode: 0400)", field, path, mode)
	}
	text, err := io.ReadAll(io.LimitReader(f, 64<<10))
	if err != nil {
		return "", fmt.Errorf("%s: %w; want a file with one line, which this user can read", field, err)
	}
	line := strings.TrimRight(string(text), "\r\n")
	if strings.ContainsAny(line, "\r\n") {
		return "", fmt.Errorf("%s: %s has more than one line; want one, with the secret", field, path)
	}
	if len(line) < least {
		return "", fmt.Errorf("%s: the secret in %s has %d bytes; want %d or more, such as from: openssl rand -hex 32", field, path, len(line), least)
	}
	return line, nil
}
