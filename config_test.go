package elect_test

import (
	"errors"
	"maps"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/electd/elect"
	"github.com/electd/elect/driver"
	"github.com/electd/elect/store/memory"
)

func TestConfigIsValidated(t *testing.T) {
	for _, tt := range []struct {
		name string
		cfg  elect.Config
		says string // "" where it is right
	}{
		{"zero", elect.Config{}, ""},
		{"negative drain", elect.Config{Drain: -1}, "Config.Drain is -1ns; want 0 for the default, or more"},
		{"negative release timeout", elect.Config{ReleaseTimeout: -1}, "Config.ReleaseTimeout is -1ns"},
		{"negative stand-aside", elect.Config{StandAside: -1}, "Config.StandAside is -1ns"},
		{"negative back-off", elect.Config{MinBackoff: -1}, "Config.MinBackoff is -1ns"},
		{"negative longest back-off", elect.Config{MaxBackoff: -1}, "Config.MaxBackoff is -1ns"},
		{"drain of the whole lease", elect.Config{Drain: lease}, "Config.Drain is 1s and the lease 1s: the work's context would end before it began"},
		{"drain just below", elect.Config{Drain: lease - 1}, ""},
		{"back-off upside down", elect.Config{MinBackoff: 2, MaxBackoff: 1}, "Config.MinBackoff is 2ns and MaxBackoff 1ns; want the first at most the second"},
		{"only a long shortest back-off", elect.Config{MinBackoff: time.Hour}, ""},
		{"only a short longest back-off", elect.Config{MaxBackoff: time.Millisecond}, ""},
		{"abilities", elect.Config{Require: []elect.Ability{driver.AbilityTransfer, driver.AbilityConfirm}}, ""},
		{"a missing ability", elect.Config{Require: []elect.Ability{driver.AbilityTransfer, driver.AbilityInherit}}, `ability "inherit" is required; it has [confirm transfer resign priority metadata]`},
		{"priority", elect.Config{Priority: elect.MaxPriority}, ""},
		{"never to lead", elect.Config{Priority: elect.NeverLead}, ""},
		{"too great a priority", elect.Config{Priority: 1001}, "elect.Config.Priority: priority 1001; want 1 to 1000, 0 for the default (100), or -1 for one that never leads"},
		{"a negative priority", elect.Config{Priority: -2}, "elect.Config.Priority: priority -2; want 1 to 1000"},
		{"metadata", elect.Config{Metadata: map[string]string{"k": strings.Repeat("v", 4095)}}, ""},
		{"too much metadata", elect.Config{Metadata: map[string]string{"k": strings.Repeat("v", 4096)}}, "elect.Config.Metadata: metadata has 4097 bytes over all keys and values; want at most 4096"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			link, err := memory.NewStore(0).New("job", "a", memory.Config{Lease: lease})
			if err != nil {
				t.Fatal(err)
			}
			defer link.Close()
			_, err = elect.New(link, tt.cfg)
			switch {
			case tt.says == "" && err != nil:
				t.Errorf("New: %v", err)
			case tt.says != "" && (err == nil || !strings.Contains(err.Error(), tt.says)):
				t.Errorf("New returned %v; want it to say %q", err, tt.says)
			}
			if unsupported := errors.Is(err, elect.ErrUnsupported); unsupported != (tt.name == "a missing ability") {
				t.Errorf("New returned %v: ErrUnsupported is for what the back end cannot do", err)
			}
		})
	}
}

// A back end that knows no priorities refuses them, and nothing else.
func TestPriorityIsRefused(t *testing.T) {
	f := newFake()
	if _, err := elect.New(f, elect.Config{Priority: 7}); !errors.Is(err, elect.ErrUnsupported) || !strings.Contains(err.Error(), "it knows no priorities; want 0") {
		t.Errorf("New returned %v; want ErrUnsupported, and what would be right", err)
	}
	if _, err := elect.New(f, elect.Config{}); err != nil {
		t.Errorf("New without a priority: %v", err)
	}
}

func TestConfigIsCopied(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		metadata := map[string]string{"address": "10.0.0.1:80"}
		want := maps.Clone(metadata)
		e, _ := stand(t, memory.NewStore(0), "a", elect.Config{Metadata: metadata})
		metadata["address"] = "nowhere"
		win(t, e)
		l, err := e.Leader(t.Context())
		if err != nil || l.ID != "a" || !maps.Equal(l.Metadata, want) {
			t.Errorf("Leader is %+v, %v; want a with %v", l, err, want)
		}
	})
}
