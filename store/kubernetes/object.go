package kubernetes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/electd/elect/driver"
	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/internal/register"
)

// annotation is where a Lease has the record of its election.
const annotation = "electd.github.io/election"

// object is a Lease as the server has it.
type object struct {
	all, metadata, spec map[string]json.RawMessage
	annotations         map[string]string
	uid, version        string
	native              native
}

// native is what all programs know of a Lease.
type native struct {
	HolderIdentity       string    `json:"holderIdentity"`
	LeaseDurationSeconds int32     `json:"leaseDurationSeconds"`
	AcquireTime          time.Time `json:"acquireTime"`
	RenewTime            time.Time `json:"renewTime"`
	LeaseTransitions     int32     `json:"leaseTransitions"`
	Strategy             string    `json:"strategy"`
	PreferredHolder      string    `json:"preferredHolder"`
}

// written is the annotation. It counts while the rest of the Lease is as it was written with it.
type written struct {
	Record      json.RawMessage `json:"record"`
	Renewed     time.Time       `json:"renewed"`     // spec.renewTime
	Transitions int32           `json:"transitions"` // spec.leaseTransitions
}

func (o *object) UnmarshalJSON(text []byte) error {
	*o = object{}
	var meta struct {
		UID             string            `json:"uid"`
		ResourceVersion string            `json:"resourceVersion"`
		Annotations     map[string]string `json:"annotations"`
	}
	if err := json.Unmarshal(text, &o.all); err != nil {
		return err
	}
	for part, into := range map[string][]any{"metadata": {&o.metadata, &meta}, "spec": {&o.spec, &o.native}} {
		for _, v := range into {
			if in := o.all[part]; in != nil {
				if err := json.Unmarshal(in, v); err != nil {
					return fmt.Errorf("%s: %w", part, err)
				}
			}
		}
	}
	if meta.UID == "" || meta.ResourceVersion == "" {
		return errors.New("a Lease without uid or resourceVersion")
	}
	o.uid, o.version, o.annotations = meta.UID, meta.ResourceVersion, meta.Annotations
	return nil
}

// id is the version for the machine: that of another Lease with the same name differs.
func (o *object) id() string { return o.uid + "/" + o.version }

// number is the resource version as a number, 0 if it is none. Kubernetes takes it from one counter for all that it
// has: it is above that of all Leases that were deleted.
func (o *object) number() uint64 {
	n, err := strconv.ParseUint(o.version, 10, 64)
	if err != nil || n >= protocol.MaxCount/2 {
		return 0
	}
	return n
}

// managed is the error for a Lease whose holder Kubernetes chooses.
func (n *native) managed() error {
	for field, value := range map[string]string{"strategy": n.Strategy, "preferredHolder": n.PreferredHolder} {
		if value != "" {
			return driver.Permanent(fmt.Errorf("the Lease has spec.%s %.60q, by which Kubernetes chooses the holder; want a Lease without it", field, value))
		}
	}
	return nil
}

// identity is the holderIdentity of a record. That of a new record keeps other programs from taking the Lease at once.
func identity(s *register.Summary) string {
	switch {
	case s.Holder != "":
		return s.Holder + "_" + s.Nonce
	case s.Freed:
		return ""
	}
	return "elect-waits_" + s.Nonce
}

// record returns what the annotation says, and whether it was the last to be written. Its text is "" if there is none.
func (o *object) record() (text string, transitions int32, current bool) {
	var w written
	if json.Unmarshal([]byte(o.annotations[annotation]), &w) != nil {
		return "", 0, false
	}
	s, err := register.Summarize(string(w.Record))
	if err != nil {
		return "", 0, false
	}
	n := &o.native
	current = n.HolderIdentity == identity(&s) && n.RenewTime.Equal(w.Renewed) && n.LeaseTransitions == w.Transitions
	return string(w.Record), w.Transitions, current
}

// foreign is the record for what another program has written. from is the resource version at which its tenure was
// seen first.
func (o *object) foreign(from uint64, longest time.Duration) string {
	n := &o.native
	count := max(from, uint64(max(n.LeaseTransitions, 0)))
	if text, transitions, _ := o.record(); text != "" {
		s, _ := register.Summarize(text) // it was read by record
		count = max(s.Count+uint64(max(int64(n.LeaseTransitions)-int64(transitions), 0)), uint64(max(n.LeaseTransitions, 0)))
		if s.Store != o.uid { // it is from before the Lease was made: see lease.kept
			count = max(count, from)
		}
	}
	sum := sha256.Sum256([]byte(o.tenure()))
	s := register.Summary{
		Holder: n.HolderIdentity, Nonce: hex.EncodeToString(sum[:16]), Count: count,
		Lease: time.Duration(n.LeaseDurationSeconds) * time.Second, Since: n.AcquireTime, Store: o.uid,
	}
	if s.Holder != "" && driver.CheckID(s.Holder) != nil {
		s.Holder = "foreign-" + s.Nonce
	}
	if s.Lease <= 0 {
		s.Lease = longest
	}
	return register.Foreign(s)
}

// tenure tells the tenures of other programs apart.
func (o *object) tenure() string {
	return fmt.Sprintf("%s %d %d %s", o.uid, o.native.LeaseTransitions, o.native.AcquireTime.UnixMicro(), o.native.HolderIdentity)
}

// microTime is the form in which Kubernetes reads and writes times.
const microTime = "2006-01-02T15:04:05.000000Z07:00"

// with is the Lease with another record, to be written. Fields that are not elect's stay as they are in old, which is
// nil for a new Lease.
func with(old *object, namespace, name, text string, now time.Time) (map[string]any, error) {
	s, err := register.Summarize(text)
	if err != nil {
		return nil, err
	}
	metadata, spec, annotations := map[string]any{"namespace": namespace, "name": name}, map[string]any{}, map[string]string{}
	was := native{}
	if old != nil {
		was = old.native
		annotations = maps.Clone(old.annotations)
		if annotations == nil {
			annotations = map[string]string{}
		}
		for k, v := range old.metadata {
			metadata[k] = v
		}
		for k, v := range old.spec {
			spec[k] = v
		}
	}
	n := was
	n.HolderIdentity = identity(&s)
	n.LeaseDurationSeconds = int32(min((s.Lease+time.Second-1)/time.Second, math.MaxInt32))
	// Other programs see a renewal if the whole second differs.
	if n.RenewTime = now.UTC().Truncate(time.Second); !n.RenewTime.After(was.RenewTime.Truncate(time.Second)) && was.RenewTime.Year() < 9999 {
		n.RenewTime = was.RenewTime.UTC().Truncate(time.Second).Add(time.Second)
	}
	if n.HolderIdentity != "" && n.HolderIdentity != was.HolderIdentity {
		n.AcquireTime = n.RenewTime
		if old != nil && n.LeaseTransitions < math.MaxInt32 {
			n.LeaseTransitions++
		}
	}
	mark, err := json.Marshal(written{Record: json.RawMessage(text), Renewed: n.RenewTime, Transitions: n.LeaseTransitions})
	if err != nil {
		return nil, err
	}
	annotations[annotation] = string(mark)
	metadata["annotations"] = annotations
	spec["holderIdentity"], spec["leaseDurationSeconds"], spec["leaseTransitions"] = n.HolderIdentity, n.LeaseDurationSeconds, n.LeaseTransitions
	spec["renewTime"] = n.RenewTime.Format(microTime)
	if !n.AcquireTime.IsZero() {
		spec["acquireTime"] = n.AcquireTime.Format(microTime)
	}
	return map[string]any{"apiVersion": group + "/v1", "kind": "Lease", "metadata": metadata, "spec": spec}, nil
}

const group = "coordination.k8s.io"

// checkName returns nil if a Lease can have that name.
func checkName(what, name string, longest int) error {
	const letters = "abcdefghijklmnopqrstuvwxyz0123456789"
	ok := len(name) <= longest && name != ""
	for part := range strings.SplitSeq(name, ".") {
		ok = ok && part != "" && strings.Trim(part, letters+"-") == "" && strings.Trim(part, "-") == part
	}
	if !ok {
		return fmt.Errorf("%s %.80q; want small letters, digits, - and ., at most %d characters", what, name, longest)
	}
	return nil
}
