// Package page serves and writes the laboratory's page: files for a browser, in which the machines run, compiled to
// WebAssembly. Package build builds the page from src and vendor; every program that imports this package contains it.
// The machines are in a program only if it was built with the tag embedmachines; else the Go toolchain compiles them on
// first use, which takes about a minute.
//
// A Site is not changed after Open, and any number of goroutines may use it. Errors are those of the toolchain, and of
// files that cannot be read or written.
package page

import (
	"bytes"
	"compress/gzip"
	"context"
	"embed"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

//go:embed dist
var dist embed.FS

// The files of the machines, beside those of dist.
const (
	program    = "machines.wasm"
	compressed = "machines.wasm.gz"
	glue       = "wasm_exec.js" // Go's own, of the toolchain that compiled the program
)

// Site is the whole page, in memory.
type Site struct {
	files map[string]*file // by name; there are no folders
}

// Open returns the page with its machines. If they have to be compiled, it calls say before that, with a line for the
// user. The end of ctx ends the compiler, and Open returns the cause of ctx.
func Open(ctx context.Context, say func(string)) (*Site, error) {
	all, err := fs.Sub(dist, "dist")
	if err != nil {
		return nil, err
	}
	made, err := machines(ctx, say)
	if err != nil {
		return nil, err
	}
	s := &Site{files: make(map[string]*file)}
	for _, from := range []fs.FS{all, made} {
		entries, err := fs.ReadDir(from, ".")
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			data, err := fs.ReadFile(from, e.Name())
			if err != nil {
				return nil, err
			}
			s.files[e.Name()] = &file{data: data}
		}
	}
	// There are both forms of the machines, for clients that decompress and for those that do not.
	packed, raw := s.files[compressed], s.files[program]
	if raw == nil {
		data, err := expand(packed.data)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", compressed, err)
		}
		raw = &file{data: data}
		s.files[program] = raw
	}
	raw.packed = packed.data
	for name, f := range s.files {
		if err := f.finish(name); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return s, nil
}

// Write writes the page into a folder, which any file server can serve. It makes the folder if there is none, replaces
// an earlier page, and refuses a folder with other files in it. An error may leave a part of the page.
func (s *Site) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	ours := slices.ContainsFunc(entries, func(e fs.DirEntry) bool { return e.Name() == program })
	if len(entries) > 0 && !ours {
		return fmt.Errorf("%s has other files in it; want an empty folder, or one with an earlier page", dir)
	}
	for name, f := range s.files {
		if err := os.WriteFile(filepath.Join(dir, name), f.data, 0o644); err != nil {
			return err
		}
	}
	return nil
}

func pack(data []byte) ([]byte, error) {
	var b bytes.Buffer
	w, err := gzip.NewWriterLevel(&b, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(data); err != nil {
		return nil, err
	}
	if err := w.Close(); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func expand(packed []byte) ([]byte, error) {
	r, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
