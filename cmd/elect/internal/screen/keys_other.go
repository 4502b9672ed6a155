//go:build !unix

package screen

import (
	"context"
	"errors"
	"os"
	"syscall"
)

func ReadKeys(context.Context, *os.File, chan<- string) error { return errors.ErrUnsupported }

func WatchSize() (changed <-chan os.Signal, stop func()) { return nil, func() {} }

const continueSignal = syscall.SIGTERM // not sent

func stop() {}
