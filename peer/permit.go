package peer

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/electd/elect/peer/certs"
)

// ErrNotPermitted means that the client's certificate lacks the role that the request needs. The text names both roles.
var ErrNotPermitted = errors.New("not permitted")

// needs returns the role that a verb needs; "" for an unknown verb.
func needs(verb string) certs.Role {
	switch verb {
	case verbStatus, verbWatch, verbHistory, verbPing:
		return certs.Observe
	case verbResign, verbTransfer, verbPause, verbResume:
		return certs.Operate
	case verbMember:
		return certs.Administer
	}
	return ""
}

// permitted returns an error if the client may not make its request. Without certificates every client may make every
// request.
//
// An operator has the role of its certificate. A node of the membership counts as operate, with one exception: a
// voter may forward a change of the membership that it has permitted itself. Voters are believed, so this gives them
// no new power. A node that is not in the membership counts as observe.
func (a *answerer) permitted() error {
	need, from := needs(a.question.Verb), &a.from
	if need == "" || from.ID == "" && from.Role == "" {
		return nil
	}
	has, whose := from.Role, "this certificate has "+string(from.Role)
	if from.ID != "" {
		votes, listed := a.host.standing(from.ID)
		switch {
		case votes && a.question.Verb == verbMember && a.change().Forwarded:
			return nil
		case listed:
			has, whose = certs.Operate, fmt.Sprintf("the certificate of the node %s counts as %s", from.ID, certs.Operate)
		default:
			has, whose = certs.Observe, fmt.Sprintf("the certificate of %s, which takes no part in this membership, counts as %s", from.ID, certs.Observe)
		}
	}
	if has.Includes(need) {
		return nil
	}
	return fmt.Errorf("%w: %s needs the role %s, and %s; want a certificate that elect certs --role %s makes", ErrNotPermitted, a.verb(), need, whose, need)
}

// change is the requested change of the membership, as far as it can be read.
func (a *answerer) change() (q memberRequest) {
	if len(a.question.Body) <= maxQuestion {
		_ = json.Unmarshal(a.question.Body, &q) // a permitted client is told later what is wrong
	}
	return q
}

// verb is the request of the client, as on a command line.
func (a *answerer) verb() string {
	switch q := a.change(); {
	case a.question.Verb != verbMember:
		return a.question.Verb
	case q.Op == opAdd || q.Op == opRemove || q.Op == opReplace:
		return verbMember + " " + string(q.Op)
	}
	return verbMember
}

// maxBy bounds, in bytes, the description of the client on whose behalf a node asks.
const maxBy = 200

// who describes the client, for people. by is the client on whose behalf it says that it asks, and counts only if the
// caller is a node.
func (a *answerer) who(by string) string {
	name := string(a.from.ID)
	switch role := a.from.Role; {
	case role != "" && a.from.Name != "":
		name = fmt.Sprintf("%s (%s)", a.from.Name, role)
	case role != "":
		name = fmt.Sprintf("operator (%s)", role)
	case name == "":
		name = "a client"
	}
	name += " at " + a.from.Addr
	if by != "" && a.from.Role == "" {
		name = fmt.Sprintf("%.*s, by way of %s", maxBy, by, name)
	}
	return name
}

// askerKey is the context key of the client, see askedBy.
type askerKey struct{}

// askedBy describes the client that asked for something, for people; "" is the program itself.
func askedBy(ctx context.Context) string {
	by, _ := ctx.Value(askerKey{}).(string)
	return by
}
