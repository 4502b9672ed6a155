package page

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	// The program contains the code of the machines, so that its content changes with theirs: see content.
	_ "github.com/electd/elect/lab/play"
)

// entry is the text of the machines' main package, embedded for the same reason.
//
//go:embed machines/main.go
var entry []byte

const importPath = "github.com/electd/elect/lab/page/machines"

// unused is how long machines that no program uses are kept.
const unused = 7 * 24 * time.Hour

// machines returns program, compressed and glue as files. It compiles them unless they are embedded or in the user's
// cache, in a folder that is named by the content of this program.
func machines(ctx context.Context, say func(string)) (fs.FS, error) {
	if inside, ok := embedded(); ok {
		return inside, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return nil, err
	}
	key, err := content()
	if err != nil {
		return nil, fmt.Errorf("the content of this program cannot be read: %w", err)
	}
	all := filepath.Join(cache, "elect", "page")
	dir := filepath.Join(all, key)
	if now := time.Now(); os.Chtimes(dir, now, now) == nil {
		return os.DirFS(dir), nil
	}
	if err := os.MkdirAll(all, 0o700); err != nil {
		return nil, err
	}
	forget(all)
	fresh, err := os.MkdirTemp(all, "new-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(fresh)
	say("compiling the machines for the browser; the first time takes about a minute")
	if err := compile(ctx, fresh); err != nil {
		return nil, err
	}
	// Another process may have been faster; its machines are the same.
	if err := os.Rename(fresh, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	return os.DirFS(dir), nil
}

// content is a hash of this program.
func content() (string, error) {
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	self, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer self.Close()
	sum := sha256.New()
	sum.Write(entry)
	if _, err := io.Copy(sum, self); err != nil {
		return "", err
	}
	return fmt.Sprintf("%x", sum.Sum(nil)[:12]), nil
}

// forget removes machines that no program has used for longer than unused.
func forget(all string) {
	entries, _ := os.ReadDir(all) // what cannot be read is not removed
	for _, e := range entries {
		if info, err := e.Info(); err == nil && time.Since(info.ModTime()) > unused {
			_ = os.RemoveAll(filepath.Join(all, e.Name()))
		}
	}
}

// compile has the Go toolchain compile the machines from the repository: from the clone in which this program was
// compiled, or, if that is gone, from the one in which the process runs.
func compile(ctx context.Context, dir string) error {
	_, source, _, _ := runtime.Caller(0)
	in := filepath.Dir(source)
	if _, err := os.Stat(source); err != nil {
		in = "."
	}
	if _, err := command(ctx, in, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, program), importPath); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return fmt.Errorf("the machines cannot be compiled: %w; want a Go toolchain, and a clone of the repository as the working directory", err)
	}
	root, err := command(ctx, in, "env", "GOROOT")
	if err != nil {
		return err
	}
	data, err := os.ReadFile(filepath.Join(root, "lib", "wasm", glue))
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, glue), data, 0o600); err != nil {
		return err
	}
	wasm, err := os.ReadFile(filepath.Join(dir, program))
	if err != nil {
		return err
	}
	packed, err := pack(wasm)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, compressed), packed, 0o600)
}

// command runs the go command with the browser as its target, and returns its output without the spaces around it.
func command(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=", "CGO_ENABLED=0")
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(said.String()); text != "" {
			return "", errors.New(text)
		}
		return "", err
	}
	return strings.TrimSpace(out.String()), nil
}
