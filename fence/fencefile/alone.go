package fencefile

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/electd/elect/fence"
)

// Alone makes the caller the only guard of these resources with marks in this directory, until release is called, m
// is no longer in use, or the process ends. It is an error if another guard has called it for one of them. Without
// resources it does nothing. A [fence.Guard] does not see the work that another guard has admitted, and admits a
// known token without reading the mark again: two guards would let an older leader pass.
func (m *Mark) Alone(resources ...fence.Resource) (release func() error, err error) {
	var held []*os.File
	release = func() error {
		m.mu.Lock()
		defer m.mu.Unlock()
		var err error
		for _, f := range held {
			delete(m.alone, f)
			err = errors.Join(err, f.Close())
		}
		held = nil
		return err
	}
	for _, resource := range resources {
		f, err := m.guard(resource)
		if err != nil {
			return nil, errors.Join(err, release())
		}
		held = append(held, f)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.alone == nil {
		m.alone = make(map[*os.File]struct{})
	}
	for _, f := range held {
		m.alone[f] = struct{}{}
	}
	return release, nil
}

// guard takes the lock of the only guard.
func (m *Mark) guard(resource fence.Resource) (*os.File, error) {
	if _, err := fence.ParseResource(string(resource)); err != nil {
		return nil, err
	}
	s, err := m.slot(context.Background(), resource)
	if err != nil {
		return nil, err
	}
	defer s.close()
	f, err := s.tryLock(guardName(resource), true)
	if err == nil && f == nil {
		err = fmt.Errorf("fencefile: another guard has the mark of %s in %s; want one guard, or a mark that several share, in a database", resource, m.dir)
	}
	return f, err
}

// guardName is the file that the only guard of a resource has locked.
func guardName(resource fence.Resource) string { return "guard-" + fileName(resource) }
