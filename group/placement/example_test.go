package placement_test

import (
	"fmt"
	"strings"
	"time"

	"github.com/electd/elect/group/placement"
)

func ExamplePlan() {
	moves, err := placement.Plan(
		[]placement.Member{{ID: "n1", Draining: true}, {ID: "n2"}},
		[]placement.Key{{Name: "orders-0", Holder: "n1"}, {Name: "orders-1"}},
		time.Now())
	if err != nil {
		panic(err)
	}
	for _, m := range moves {
		fmt.Printf("%s to %s: %s\n", m.Key, m.To, m.Reason)
	}
	// Output:
	// orders-1 to n2: nobody holds it, and n2 ranks first for it
	// orders-0 to n2: n1 is draining, and n2 ranks first for it
}

// pinned is a placement of a program's own: the planner does the work, and keys can name their members.
type pinned struct{ *placement.Planner }

func (p pinned) SetKey(k placement.Key) error {
	if name, ok := strings.CutPrefix(k.Name, "pinned-"); ok {
		k.Prefer = name
	}
	return p.Planner.SetKey(k)
}

func ExamplePlacer() {
	planner, err := placement.New(placement.Settings{Rate: 100})
	if err != nil {
		panic(err)
	}
	var placer placement.Placer = pinned{planner}
	for _, id := range []string{"n1", "n2"} {
		if err := placer.SetMember(placement.Member{ID: id}); err != nil {
			panic(err)
		}
	}
	if err := placer.SetKey(placement.Key{Name: "pinned-n2"}); err != nil {
		panic(err)
	}
	moves, _ := placer.Plan(time.Now())
	fmt.Println(moves[0].To, "because", moves[0].Reason)
	// Output: n2 because nobody holds it, and n2 is the preferred member
}
