//go:build !linux && !darwin && !freebsd

package file

import (
	"context"
	"fmt"
	"iter"
	"net/url"
	"runtime"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/fence"
)

// Elector is one participant in one election. On this system there are none.
type Elector struct{}

// New returns an error that matches driver.ErrUnsupported: this back end needs
// Linux, macOS or FreeBSD.
func New(dir, name, id string, cfg Config) (*Elector, error) {
	if _, _, err := cfg.check(dir, name, id); err != nil {
		return nil, driver.Permanent(err)
	}
	return nil, driver.Permanent(fmt.Errorf("%w: file: elections need Linux, macOS or FreeBSD, this is %s", driver.ErrUnsupported, runtime.GOOS))
}

// Forget returns an error that matches driver.ErrUnsupported.
func Forget(*url.URL, string, bool) (fence.Token, error) {
	return 0, driver.Permanent(driver.ErrUnsupported)
}

// Campaign implements driver.Elector.
func (e *Elector) Campaign(context.Context, driver.Candidacy) (driver.Mandate, error) {
	return nil, driver.Permanent(driver.ErrUnsupported)
}

// Watch implements driver.Elector.
func (e *Elector) Watch(context.Context) iter.Seq2[driver.State, error] {
	return func(yield func(driver.State, error) bool) {
		yield(driver.State{}, driver.Permanent(driver.ErrUnsupported))
	}
}

// Limits implements driver.Elector.
func (e *Elector) Limits() driver.Limits { return driver.Limits{} }

// Close implements driver.Elector.
func (e *Elector) Close() error { return nil }
