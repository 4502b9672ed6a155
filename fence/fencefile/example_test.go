//go:build linux || darwin || freebsd

package fencefile_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"os"
	"path/filepath"

	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencefile"
)

// scratch is a directory for an example. A real file is on a local disk.
func scratch() (dir string, remove func()) {
	dir, err := os.MkdirTemp("", "fencefile-")
	if err != nil {
		log.Fatal(err)
	}
	return dir, func() { _ = os.RemoveAll(dir) }
}

// A leader claims a file before it reads it, and replaces it as a whole.
func Example() {
	dir, remove := scratch()
	defer remove()
	path, ctx := filepath.Join(dir, "routes"), context.Background()
	guard, err := fencefile.New(path, fencefile.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := guard.Install(ctx); err != nil { // once
		log.Fatal(err)
	}

	lead := func(token fence.Token) { // term.Token()
		if err := guard.Claim(ctx, token); err != nil {
			fmt.Println(err)
			return
		}
		err := guard.Write(ctx, token, func(w io.Writer) error {
			_, err := fmt.Fprintln(w, "10.0.0.0/8 by leader", token)
			return err
		})
		if err != nil {
			fmt.Println(err)
		}
	}
	lead(41)
	lead(42)
	lead(41) // the first one, who has not heard

	content, err := os.ReadFile(path)
	fmt.Print(string(content), err)
	// Output:
	// stale fencing token: 41 shown, the resource has seen 42
	// 10.0.0.0/8 by leader 42
	// <nil>
}

// A refused replacement leaves the file as it was, also when the older leader had begun
// to write before the newer one claimed.
func ExampleGuard_Write() {
	dir, remove := scratch()
	defer remove()
	path, ctx := filepath.Join(dir, "routes"), context.Background()
	guard, err := fencefile.New(path, fencefile.Config{})
	if err != nil {
		log.Fatal(err)
	}
	if err := guard.Install(ctx); err != nil {
		log.Fatal(err)
	}
	err = guard.Write(ctx, 41, func(w io.Writer) error {
		fmt.Println("claimed by another:", guard.Claim(ctx, 42))
		_, err := io.WriteString(w, "10.0.0.0/8")
		return err
	})
	fmt.Println(errors.Is(err, fence.ErrStale))
	_, err = os.Stat(path)
	fmt.Println(errors.Is(err, os.ErrNotExist))
	// Output:
	// claimed by another: <nil>
	// true
	// true
}

// A file that was not installed, or has lost its sidecar, is refused.
func ExampleGuard_Status() {
	dir, remove := scratch()
	defer remove()
	path, ctx := filepath.Join(dir, "routes"), context.Background()
	guard, err := fencefile.New(path, fencefile.Config{})
	if err != nil {
		log.Fatal(err)
	}
	_, err = guard.Status(ctx)
	fmt.Println(errors.Is(err, fence.ErrResource))
	fmt.Println(guard.Install(ctx), guard.Claim(ctx, 42))
	state, err := guard.Status(ctx)
	fmt.Println(state.Highest, err)
	// Output:
	// true
	// <nil> <nil>
	// 42 <nil>
}

// A server keeps the marks of what it guards in a directory.
func ExampleNewMark() {
	dir, remove := scratch()
	defer remove()
	mark, err := fencefile.NewMark(filepath.Join(dir, "fence"), fencefile.Config{})
	if err != nil {
		log.Fatal(err)
	}
	ctx := context.Background()
	if err := mark.Install(ctx, "orders"); err != nil { // once, when the server is set up
		log.Fatal(err)
	}
	guard, err := fence.NewGuard(mark, []fence.Resource{"orders"}, fence.GuardConfig{})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(guard.Claim(ctx, "orders", 42))
	fmt.Println(guard.Claim(ctx, "orders", 41))
	// Output:
	// <nil>
	// stale fencing token: 41 shown, the resource has seen 42
}
