//go:build linux || darwin || freebsd

package file_test

import (
	"context"
	"fmt"
	"log"
	"net/url"
	"os"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/file"
)

// A program lists the openers that it wants, once, and takes the URL from its
// configuration.
func ExampleOpen() {
	dir, err := os.MkdirTemp("", "elect-example-") // a program has a place such as /var/lib/elect
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	openers := elect.Openers{"file": file.Open}
	election, err := openers.Open(ctx, "file:"+dir, "nightly", elect.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer election.Close()

	err = election.Lead(ctx, func(ctx context.Context, term *elect.Term) error {
		fmt.Println("leading with token", term.Token())
		return nil
	})
	fmt.Println(err)
	// Output:
	// leading with token 1
	// <nil>
}

// New is for programs that have no URL, and for those that drive by themselves.
func ExampleNew() {
	dir, err := os.MkdirTemp("", "elect-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	elector, err := file.New(dir, "nightly", "web-1", file.Config{Era: 1})
	if err != nil {
		log.Fatal(err)
	}
	defer elector.Close()

	ctx := context.Background()
	mandate, err := elector.Campaign(ctx, driver.Candidacy{Exclusive: true})
	if err != nil {
		log.Fatal(err)
	}
	for state := range elector.Watch(ctx) {
		fmt.Println(state.Leader.ID, "leads with", mandate.Token().Era(), mandate.Token().Count())
		break
	}
	fmt.Println(mandate.Check(), mandate.Release(ctx))
	// Output:
	// web-1 leads with 1 1
	// <nil> <nil>
}

func ExampleList() {
	dir, err := os.MkdirTemp("", "elect-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	names, err := file.List(&url.URL{Scheme: "file", Path: dir})
	fmt.Println(len(names), err)
	// Output: 0 <nil>
}
