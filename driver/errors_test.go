package driver_test

import (
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/electd/elect/driver"
)

func TestPermanent(t *testing.T) {
	if driver.Permanent(nil) != nil {
		t.Error("Permanent(nil) is an error")
	}
	marked := driver.Permanent(io.ErrUnexpectedEOF)
	if marked.Error() != io.ErrUnexpectedEOF.Error() || !errors.Is(marked, io.ErrUnexpectedEOF) {
		t.Errorf("the mark changed the error to %v", marked)
	}
	for err, want := range map[error]bool{
		nil:                               false,
		io.ErrUnexpectedEOF:               false,
		driver.ErrClosed:                  false,
		marked:                            true,
		fmt.Errorf("opening: %w", marked): true,
		errors.Join(io.EOF, marked):       true,
		fmt.Errorf("%w; and then: %w", io.EOF, marked): true,
		driver.Permanent(driver.Permanent(io.EOF)):     true,
		errors.New(marked.Error()):                     false,
	} {
		if driver.IsPermanent(err) != want {
			t.Errorf("IsPermanent(%v) is %v", err, !want)
		}
	}
}
