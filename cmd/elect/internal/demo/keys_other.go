//go:build !unix

package demo

import (
	"context"
	"errors"
	"os"
)

func readKeys(context.Context, *os.File, chan<- string) error { return errors.ErrUnsupported }

func watchSize() (changed <-chan os.Signal, stop func()) { return nil, func() {} }
