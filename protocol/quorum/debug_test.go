package quorum

import (
	"flag"
	"fmt"
	"github.com/electd/elect/protocol"
	"testing"
	"time"
)

var dbg = flag.Uint64("dbg", 0, "")
var dbgFrom = flag.Duration("from", 0, "")

func TestDebug(t *testing.T) {
	if *dbg == 0 {
		t.Skip()
	}
	w := chaos(*dbg, nil)
	w.log = func(n *node, f string, a ...any) {
		if w.now >= *dbgFrom {
			fmt.Printf("%v %s %s\n", w.now, n.name(), fmt.Sprintf(f, a...))
		}
	}
	w.after = func(n *node, in *protocol.Input, fx *protocol.Effects) {
		if w.now < *dbgFrom {
			return
		}
		fmt.Printf("%v    %s <- %v %s %s t%d seq%d %v n%d failed%v | saves", w.now, n.name(), in.Kind, in.From, in.Message.Type, in.Message.Term, in.Message.Seq, in.Message.Granted, in.Number, in.Failed)
		for _, s := range fx.Saves {
			fmt.Printf(" %d", s.Number)
		}
		fmt.Printf(" | ")
		for _, s := range fx.Sends {
			fmt.Printf(" %s->%s(t%d after %d)", s.Message.Type, s.To, s.Message.Term, s.After)
		}
		fmt.Printf("  %v term %d saved %d termsave %d\n", n.view.Role, n.view.Term, n.m.saved, n.m.termSave)
	}
	w.run(chaosTime + 700*time.Millisecond)
	w.heal()
	w.run(chaosTime + 6*time.Second)
	w.run(w.now + 2*time.Second)
	fmt.Println(w.violations)
}
