// Package page serves and writes the laboratory's page: files for a browser, in which the machines run, compiled to
// WebAssembly. Package build builds the page from src and vendor into internal/webpage, so every program that imports
// this package contains it.
// The machines are in a program only if it was built with the tag embedmachines; else the Go toolchain compiles them on
// first use, which takes about a minute.
//
// A Site is not changed after Open, and any number of goroutines may use it. Errors are those of the toolchain, and of
// files that cannot be read or written.
package page

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/electd/elect/internal/webpage"
)

// The files of the machines, beside those of webpage.
const (
	program    = "machines.wasm"
	compressed = "machines.wasm.gz"
	glue       = "wasm_exec.js" // Go's own, of the toolchain that compiled the program
)

// offline is the worker that keeps the files in a browser. Its script in dist needs FILES: their hashes, by name.
const offline = "offline.js"

// Site is the whole page, in memory.
type Site struct {
	files map[string]*file // by name; there are no folders
}

// Open returns the page with its machines. If they have to be compiled, it calls say before that, with a line for the
// user. The end of ctx ends the compiler, and Open returns the cause of ctx.
func Open(ctx context.Context, say func(string)) (*Site, error) {
	all := webpage.Files()
	made, err := machines(ctx, say)
	if err != nil {
		return nil, err
	}
	s := &Site{files: make(map[string]*file)}
	entries, err := fs.ReadDir(all, ".")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		data, err := fs.ReadFile(all, e.Name())
		if err != nil {
			return nil, err
		}
		s.files[e.Name()] = &file{data: data}
	}
	// The folder has both: one for servers and browsers that compress, one for those that do not.
	raw, err := expand(made.packed)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", compressed, err)
	}
	s.files[program] = &file{data: raw, packed: made.packed}
	s.files[compressed] = &file{data: made.packed}
	s.files[glue] = &file{data: made.glue}
	return s, s.finish()
}

// finish sets the fields of the files that follow from their names and data, and tells the worker that keeps them in a
// browser which ones there are.
func (s *Site) finish() error {
	tags := make(map[string]string)
	for name, f := range s.files {
		if name == offline {
			continue
		}
		if err := f.finish(name); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		tags[name] = f.tag
	}
	f, ok := s.files[offline]
	if !ok {
		return fmt.Errorf("%s is missing among the files of the page", offline)
	}
	all, err := json.Marshal(tags)
	if err != nil {
		return err
	}
	f.data = slices.Concat([]byte("const FILES = "), all, []byte(";\n"), f.data)
	return f.finish(offline)
}

// licences is the file by which a folder is known as one of the page: it begins with ours.
const (
	licences = "licences.txt"
	ours     = "The page is part of elect, "
)

// Write writes the page into a folder, as any file server can serve it. It makes the folder, and refuses one with
// something else in it, unless an earlier page is there, too: of that it replaces what has the names of this one, and
// removes the scripts and styles that this one does not name. index.html is the last that changes.
func (s *Site) Write(dir string) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	if len(entries) > 0 {
		if is, err := os.Lstat(filepath.Join(dir, licences)); err != nil || !is.Mode().IsRegular() || !begins(filepath.Join(dir, licences), ours) {
			return fmt.Errorf("%s has other files in it; want an empty folder, or one with an earlier page", dir)
		}
	}
	names := slices.SortedFunc(maps.Keys(s.files), func(a, b string) int { return cmp.Compare(turn(a), turn(b)) })
	for _, name := range names {
		if err := replace(filepath.Join(dir, name), s.files[name].data); err != nil {
			return err
		}
	}
	for _, e := range entries {
		if name := e.Name(); old.MatchString(name) && s.files[name] == nil && e.Type().IsRegular() {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// old are the names of scripts and styles of a page, of this or another content.
var old = regexp.MustCompile(`^(app|style|worker)` + hashed.String())

// turn is when a file is written: the licences first, so that a folder that is half written is known as ours.
func turn(name string) int {
	switch name {
	case licences:
		return 0
	case "index.html":
		return 2
	}
	return 1
}

// begins reports whether a file begins with text.
func begins(path, text string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	data := make([]byte, len(text))
	_, err = io.ReadFull(f, data)
	return err == nil && string(data) == text
}

// replace writes a file beside path, and gives it that name: a link of that name is replaced, and not followed.
func replace(path string, data []byte) error {
	beside := path + ".new"
	if err := os.Remove(beside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	f, err := os.OpenFile(beside, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		_ = os.Remove(beside)
	}
	return err
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
