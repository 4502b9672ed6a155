package drive_test

import (
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/electd/elect/store/internal/drive"
)

func TestParsePlace(t *testing.T) {
	several := func(place string) *url.URL { return &url.URL{Scheme: "s", Opaque: "//" + place} }
	p, err := drive.ParsePlace(several("u:p%40,@a,b:1,[::1]/x%20y"), "7")
	if password, _ := p.User.Password(); err != nil || !slices.Equal(p.Hosts, []string{"a:7", "b:1", "[::1]:7"}) || p.Path != "/x y" || p.User.Username() != "u" || password != "p@," {
		t.Errorf("%+v, %v", p, err)
	}
	if p, err := drive.ParsePlace(&url.URL{Scheme: "s", Host: "a", Path: "/"}, "7"); err != nil || !slices.Equal(p.Hosts, []string{"a:7"}) || p.Path != "/" || p.User != nil {
		t.Errorf("%+v, %v", p, err)
	}
	for place, want := range map[string]string{"a,,b": "want HOST or HOST:PORT", "u:secret%zz@a,b": "s://USER@HOST", "a,b/%zz": "s://HOST,HOST/PREFIX"} {
		if _, err := drive.ParsePlace(several(place), "7"); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v; want an error with %q", place, err, want)
		}
	}
}
