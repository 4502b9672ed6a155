package register_test

import (
	"testing"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/store/internal/drive"
	"github.com/electd/elect/store/internal/register"
)

// BenchmarkTermCheck is what a program with a lease asks before each side effect, the readings of the machine's clocks
// included. It is the same for each back end but file, which has no lease.
func BenchmarkTermCheck(b *testing.B) {
	r, err := register.New(newLine(&kept{}), register.Config{Config: drive.Config{Name: "e", ID: "a"}, Lease: time.Second, MaxLease: time.Second}) // the first one waits for as long
	if err != nil {
		b.Fatal(err)
	}
	e, err := elect.New(r, elect.Config{})
	if err != nil {
		b.Fatal(err)
	}
	defer e.Close()
	term, err := e.Campaign(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	defer term.Release(b.Context())
	b.ReportAllocs()
	for b.Loop() {
		if err := term.Check(); err != nil {
			b.Fatal(err)
		}
	}
}
