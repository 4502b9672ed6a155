//go:build !linux

package lease

import (
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/electd/elect/fence"
)

// Page is an open lease page. On this system there is none.
type Page struct{ token fence.Token }

// Open returns an error that matches errors.ErrUnsupported.
func Open(path string) (*Page, error) {
	return nil, fmt.Errorf("%s: there are no lease pages on %s: %w", path, runtime.GOOS, errors.ErrUnsupported)
}

// Close does nothing.
func (p *Page) Close() error { return nil }

func (p *Page) remaining() time.Duration { return 0 }
