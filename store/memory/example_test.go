package memory_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

// In a test, the store takes the place of the one in production.
func ExampleStore_Open() {
	store := memory.NewStore(0)
	openers := elect.Openers{"memory": store.Open}
	election, err := openers.Open(context.Background(), "memory:?lease=1m", "nightly", elect.Config{ID: "web-1"})
	if err != nil {
		log.Fatal(err)
	}
	defer election.Close()
	err = election.Lead(context.Background(), func(ctx context.Context, term *elect.Term) error {
		fmt.Println("leading with token", term.Token())
		return errors.New("done")
	})
	fmt.Println(err)
	// Output:
	// leading with token 1
	// done
}

// A leader that is cut off from the store stops before another may lead.
func ExampleElector_Cut() {
	store := memory.NewStore(0)
	ctx := context.Background()
	lead := func(id string) (*memory.Elector, driver.Mandate) {
		e, err := store.New("nightly", id, memory.Config{Lease: time.Second})
		if err != nil {
			log.Fatal(err)
		}
		m, err := e.Campaign(ctx, driver.Candidacy{Exclusive: true})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(id, "leads with token", m.Token())
		return e, m
	}
	one, first := lead("one")
	defer one.Close()
	one.Cut(true)
	two, second := lead("two") // after the lease of the first
	defer two.Close()
	fmt.Println("one leads:", first.Check() == nil)
	fmt.Println("two leads:", second.Check() == nil)
	// Output:
	// one leads with token 1
	// two leads with token 2
	// one leads: false
	// two leads: true
}

// A recreated store continues with a greater era, so that its tokens rise.
func ExampleStore_Recreate() {
	store := memory.NewStore(0)
	e, err := store.New("nightly", "one", memory.Config{})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	for range 2 {
		m, err := e.Campaign(context.Background(), driver.Candidacy{Exclusive: true})
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println("era", m.Token().Era(), "count", m.Token().Count())
		if err := m.Release(context.Background()); err != nil {
			log.Fatal(err)
		}
		store.Recreate()
	}
	// Output:
	// era 0 count 1
	// era 1 count 1
}
