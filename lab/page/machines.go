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
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/electd/elect/internal/place"

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

// made are the machines, as they are kept.
type made struct {
	packed []byte // what is in compressed
	glue   []byte
}

// machines returns the machines. They are kept for the next time, in a folder of the user's cache; their names there are
// of the content of this very program and of the source that they were compiled from.
func machines(ctx context.Context, say func(string)) (made, error) {
	if inside, ok := embedded(); ok {
		return inside, nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return made{}, err
	}
	self, err := content()
	if err != nil {
		return made{}, fmt.Errorf("the content of this program cannot be read: %w", err)
	}
	in := folder()
	source, err := sources(in)
	if err != nil {
		return made{}, fmt.Errorf("the source of this program cannot be read: %w", err)
	}
	dir, err := private(cache)
	if errors.Is(err, errors.ErrUnsupported) {
		say("compiling the machines for the browser; it takes about a minute")
		return compile(ctx, in)
	}
	if err != nil {
		return made{}, err
	}
	defer dir.Close()
	m, found, err := kept(dir, self+"-"+source)
	if err != nil || found {
		return m, err
	}
	forget(dir)
	say("compiling the machines for the browser; the first time takes about a minute")
	if m, err = compile(ctx, in); err != nil {
		return made{}, err
	}
	return m, keep(dir, self+"-"+source, m)
}

// private opens the folder in which machines are kept. Nobody else may write it, or the folders on the way from the
// cache: its files are run in the user's browser.
func private(cache string) (*place.Dir, error) {
	below := []string{"elect", "page"}
	var dir *place.Dir
	for n := range below {
		if dir != nil {
			_ = dir.Close()
		}
		var err error
		if dir, err = (place.At{Path: cache, Below: below[:n+1]}).Make(); err != nil {
			return nil, err
		}
		if is := dir.Info(); is.UID != os.Geteuid() || is.Mode&0o022 != 0 {
			_ = dir.Close()
			return nil, fmt.Errorf("%s belongs to user %d, with mode %04o; want it of user %d, and nobody else to write it; or another XDG_CACHE_HOME",
				dir.Path(), is.UID, is.Mode.Perm(), os.Geteuid())
		}
	}
	return dir, nil
}

// The endings of the names of what is kept.
const (
	endPacked = ".wasm.gz"
	endGlue   = ".js"
)

// kept returns the machines of a name, if all of them are there. Without a source, the name has only its beginning.
func kept(dir *place.Dir, stem string) (m made, found bool, err error) {
	names, err := dir.Names()
	if err != nil {
		return made{}, false, err
	}
	for _, name := range names {
		whole, packed := strings.CutSuffix(name, endPacked)
		if !packed || !strings.HasPrefix(whole, stem) || !slices.Contains(names, whole+endGlue) {
			continue
		}
		if m.packed, err = read(dir, name); err == nil {
			m.glue, err = read(dir, whole+endGlue)
		}
		if errors.Is(err, fs.ErrNotExist) {
			break // another process forgot it
		}
		return m, err == nil, err
	}
	return made{}, false, nil
}

// read reads a file that is kept, which is in use again.
func read(dir *place.Dir, name string) ([]byte, error) {
	f, err := dir.Open(name, os.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	now := time.Now()
	_ = os.Chtimes(f.Name(), now, now) // else it is compiled again, some day
	return io.ReadAll(f)
}

// keep keeps machines. Another process may do so at the same time; its machines are the same.
func keep(dir *place.Dir, stem string, m made) error {
	for _, part := range []struct {
		name string
		data []byte
	}{{stem + endGlue, m.glue}, {stem + endPacked, m.packed}} {
		fresh := fmt.Sprintf("new-%d-%s", os.Getpid(), part.name)
		f, err := dir.Replace(fresh, os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(part.data)
		if err = errors.Join(err, f.Close()); err == nil {
			err = dir.Rename(fresh, part.name)
		}
		if err != nil {
			return errors.Join(err, dir.Remove(fresh))
		}
	}
	return nil
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

// folder is where the source of this program is: where it was compiled from, or else the working directory, if that is
// in a clone of the repository.
func folder() string {
	_, source, _, _ := runtime.Caller(0)
	if _, err := os.Stat(source); err == nil {
		return filepath.Dir(source)
	}
	return "."
}

// sources is a name for the content of the source around a folder, and empty if there is none. It is that of all
// modules: which packages the machines are of, only a toolchain could say.
func sources(in string) (string, error) {
	root, err := filepath.Abs(in)
	if err != nil {
		return "", err
	}
	for !exists(filepath.Join(root, "lab", "page", "machines", "main.go")) {
		above := filepath.Dir(root)
		if above == root {
			return "", nil
		}
		root = above
	}
	sum := sha256.New()
	err = filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		name := e.Name()
		switch {
		case err != nil:
			return err
		case e.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin"):
			return fs.SkipDir
		case !e.Type().IsRegular() || strings.HasSuffix(name, "_test.go") || !compiled.MatchString(name):
			return nil
		}
		data, err := os.ReadFile(path)
		fmt.Fprintf(sum, "%s %x\n", strings.TrimPrefix(path, root), sha256.Sum256(data))
		return err
	})
	return fmt.Sprintf("%x", sum.Sum(nil)[:12]), err
}

var compiled = regexp.MustCompile(`\.go$|^go\.(mod|sum|work|work\.sum)$`)

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// forget removes what no program has used for long.
func forget(dir *place.Dir) {
	names, _ := dir.Names() // what stays only takes room
	for _, name := range names {
		f, err := dir.Open(name, os.O_RDONLY)
		if err != nil {
			continue
		}
		if is, err := f.Stat(); err == nil && time.Since(is.ModTime()) > unused {
			_ = dir.Remove(name)
		}
		_ = f.Close()
	}
}

// compile has the Go toolchain make the machines from the source in a folder.
func compile(ctx context.Context, in string) (made, error) {
	dir, err := os.MkdirTemp("", "electlab-page-")
	if err != nil {
		return made{}, err
	}
	defer os.RemoveAll(dir)
	if _, err := command(ctx, in, "build", "-buildvcs=false", "-ldflags=-s -w", "-o", filepath.Join(dir, program), importPath); err != nil {
		if ctx.Err() != nil {
			return made{}, context.Cause(ctx)
		}
		return made{}, fmt.Errorf("the machines cannot be compiled: %w; want a Go toolchain, and a clone of the repository as the working directory", err)
	}
	root, err := command(ctx, in, "env", "GOROOT")
	if err != nil {
		return made{}, err
	}
	var m made
	if m.glue, err = os.ReadFile(filepath.Join(root, "lib", "wasm", glue)); err != nil {
		return made{}, err
	}
	wasm, err := os.ReadFile(filepath.Join(dir, program))
	if err != nil {
		return made{}, err
	}
	m.packed, err = pack(wasm)
	return m, err
}

// command runs the go command with the browser as its target, and returns its output without the spaces around it.
func command(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	dir, err := filepath.Abs(dir)
	if err != nil {
		return "", err
	}
	cmd.Dir = dir
	// An empty GOFLAGS would leave those of go env -w.
	cmd.Env = append(os.Environ(), "GOOS=js", "GOARCH=wasm", "GOFLAGS=-trimpath", "CGO_ENABLED=0")
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
