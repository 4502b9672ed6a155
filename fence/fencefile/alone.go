package fencefile

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/electd/elect/fence"
)

// Alone makes the caller the only guard of these resources with marks in this directory,
// until release is called or the process ends; of no resources it does nothing. It is an
// error if another guard that has asked for it is in front of one of them. A [fence.Guard]
// cannot see what another one has at work, and takes a token that it knows without
// looking at the mark again: two of them would let an older leader pass.
func (m *Mark) Alone(resources ...fence.Resource) (release func() error, err error) {
	var held []*os.File
	release = func() error {
		var err error
		for _, f := range held {
			err = errors.Join(err, f.Close())
		}
		held = nil
		return err
	}
	for _, resource := range resources {
		f, err := m.alone(resource)
		if err != nil {
			return nil, errors.Join(err, release())
		}
		held = append(held, f)
	}
	return release, nil
}

func (m *Mark) alone(resource fence.Resource) (*os.File, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return nil, err
	}
	s, err := m.slot(context.Background(), resource)
	if err != nil {
		return nil, err
	}
	defer s.close()
	f, err := s.tryLock("guard-"+fileName(resource), true)
	if err == nil && f == nil {
		err = fmt.Errorf("fencefile: another guard has the mark of %s in %s; want one guard, or a mark that several share, in a database", resource, m.dir)
	}
	return f, err
}
