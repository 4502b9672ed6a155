package main

import (
	"context"
	"net/url"
	"slices"
	"strings"

	"github.com/electd/elect/cmd/elect/internal/exit"
	"github.com/electd/elect/cmd/elect/internal/marks"
	"github.com/electd/elect/fence"
	"github.com/electd/elect/fence/fencefile"
	"github.com/electd/elect/internal/redact"
)

// markHelp is what --mark takes.
const markHelp = `where the greatest token is kept: file:DIR, a directory on a local disk; postgres://… or mysql://…, a table that several proxies share (elect fence install); or memory, which forgets it at every restart and lets a stale leader in then`

// openedMark is a mark with what has to be known of it.
type openedMark struct {
	fence.Mark
	warning string // for the log; empty: none
	close   func() error
}

// markOpeners open what --mark names, by scheme; at is all of it.
func markOpeners() map[string]func(ctx context.Context, at *url.URL) (openedMark, error) {
	shared := func(_ context.Context, at *url.URL) (openedMark, error) {
		mark, end, err := marks.Mark(at.String(), marks.Config{})
		if err != nil {
			return openedMark{}, exit.Usagef("--mark: %w", err)
		}
		return openedMark{Mark: mark, close: end}, nil
	}
	return map[string]func(context.Context, *url.URL) (openedMark, error){
		"postgres": shared, "postgresql": shared, "mysql": shared,
		"memory": func(_ context.Context, at *url.URL) (openedMark, error) {
			if at.Opaque != "" || at.Path != "" && at.Path != "memory" || at.Host != "" {
				return openedMark{}, exit.Usagef("--mark memory takes nothing beside")
			}
			return openedMark{Mark: new(fence.Memory), warning: "the mark is in memory: a restart forgets it, and lets a stale leader in"}, nil
		},
		"file": func(_ context.Context, at *url.URL) (openedMark, error) {
			dir := at.Path
			if at.Opaque != "" {
				unescaped, err := url.PathUnescape(at.Opaque)
				if err != nil {
					return openedMark{}, exit.Usagef("--mark file:DIR: %w", err)
				}
				dir = unescaped
			}
			if dir == "" || at.Host != "" || at.RawQuery != "" {
				return openedMark{}, exit.Usagef("--mark %s; want file:DIR, such as file:/var/lib/elect/fence", redact.URL(at))
			}
			mark, err := fencefile.NewMark(dir)
			if err != nil {
				return openedMark{}, exit.OfBackend(err)
			}
			return openedMark{Mark: mark, warning: mark.Warning()}, nil
		},
	}
}

// openMark opens what --mark names.
func openMark(ctx context.Context, text string) (openedMark, error) {
	openers := markOpeners()
	var schemes []string
	for scheme := range openers {
		schemes = append(schemes, scheme)
	}
	slices.Sort(schemes)
	if text == "" {
		return openedMark{}, exit.Usagef("where is the mark kept? want --mark file:DIR; --mark memory forgets it at every restart")
	}
	at, err := url.Parse(text)
	if err != nil {
		return openedMark{}, exit.Usagef("--mark is no URL; want one of: %s", strings.Join(schemes, ", ")) // the URL may have a password
	}
	scheme := at.Scheme
	if scheme == "" {
		scheme = text
	}
	open, ok := openers[scheme]
	if !ok {
		return openedMark{}, exit.Usagef("--mark %s is of no kind that is known; want one of: %s, such as file:/var/lib/elect/fence", redact.URL(at), strings.Join(schemes, ", "))
	}
	m, err := open(ctx, at)
	if m.close == nil {
		m.close = func() error { return nil }
	}
	return m, err
}
