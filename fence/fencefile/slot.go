package fencefile

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"github.com/electd/elect/fence"
)

// slot is one mark in a directory.
type slot struct {
	*directory
	of               string // the subject of the mark
	mark, temp, held string // the names of its files; held is the one that is locked
}

// highest returns the mark; an error that matches fs.ErrNotExist if there is none.
func (s slot) highest() (fence.Token, error) {
	b, err := s.read(s.mark)
	if err != nil {
		return 0, err
	}
	token, err := decode(s.of, b)
	if err != nil {
		return 0, fmt.Errorf("fencefile: %s: %w%s", filepath.Join(s.path, s.mark), err, s.repair(err))
	}
	return token, nil
}

// repair says how to replace a damaged mark.
func (s slot) repair(err error) string {
	if !errors.Is(err, ErrDamaged) {
		return ""
	}
	return "; when no earlier leader is left, remove it, install it, and claim again"
}

// raise raises the mark from from to token, and returns when that is durable. The lock is held. It syncs the
// directory even if there is nothing to raise: the process that raised the mark may have died before it did.
func (s slot) raise(ctx context.Context, from, token fence.Token, exists bool) error {
	if token < from {
		return &fence.StaleError{Shown: token, Highest: from}
	}
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	if token > from || !exists {
		if err := s.put(token); err != nil {
			return err
		}
	}
	if err := s.sync(); err != nil {
		return fmt.Errorf("%w: the mark %v may be lost again: %w", fence.ErrUnknownOutcome, token, err)
	}
	return nil
}

// put writes the mark. The new name is not yet durable.
func (s slot) put(token fence.Token) error {
	if err := s.remove(s.temp); err != nil { // left by a killed process
		return err
	}
	f, err := s.create(s.temp, 0o600)
	if err != nil {
		return err
	}
	s.share(f)
	err = s.do("write", s.temp, func() error {
		_, err := f.Write(encode(s.of, token))
		return err
	})
	if err := s.finish(f, s.temp, err); err != nil {
		return err
	}
	if err := s.rename(s.temp, s.mark); err != nil {
		_ = s.remove(s.temp)
		return err
	}
	return nil
}

// found is highest, with 0 for a missing mark.
func (s slot) found() (token fence.Token, exists bool, err error) {
	token, err = s.highest()
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	return token, err == nil, err
}
