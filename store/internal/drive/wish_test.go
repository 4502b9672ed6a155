package drive

import (
	"strings"
	"testing"
)

func TestWishes(t *testing.T) {
	for text, want := range map[string]Wish{
		"":                                  {},
		Wish{Verb: resign, Count: 7}.Text(): {Verb: resign, Count: 7},
		Obeyed(1<<64 - 1).Text():            {Verb: resign, Count: 1<<64 - 1, Heard: true},
	} {
		if w, err := ParseWish([]byte(text)); err != nil || w != want {
			t.Errorf("%s is read as %+v, %v; want %+v", text, w, err, want)
		}
		if len(text) > MaxWish {
			t.Errorf("%s has %d bytes; want at most %d", text, len(text), MaxWish)
		}
	}
	for _, text := range nonsense {
		if w, err := ParseWish([]byte(text)); err == nil || w != (Wish{}) {
			t.Errorf("%.200s is read as %+v, %v; want an error", text, w, err)
		}
	}
}

var nonsense = []string{
	"nonsense", "null", "0", "[]", "{}", `"resign"`, `{"verb":"resign"}`, `{"verb":"pause","count":7}`, `{"verb":"resign","count":-7}`,
	`{"verb":"resign","count":"7"}`, `{"verb":"resign","count":7,"to":"b"}`, `{"verb":"resign","count":7}{}`, "\xff",
	`{"verb":"resign","count":7}` + strings.Repeat(" ", MaxWish),
}

func FuzzWish(f *testing.F) {
	f.Add(Obeyed(7).Text())
	for _, text := range nonsense {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		w, err := ParseWish([]byte(text))
		if err != nil || text == "" {
			return
		}
		if again, err := ParseWish([]byte(w.Text())); err != nil || again != w {
			t.Errorf("%s is %+v, and written again %+v, %v", text, w, again, err)
		}
	})
}
