package certs

import (
	"fmt"
	"strings"

	"github.com/electd/elect/internal/protocol"
)

// Role says which requests the holder of an operator's certificate may make. Each role
// includes the weaker ones.
type Role string

// The roles, the weakest first.
const (
	Observe    Role = "observe"    // look: status, members, watch, history
	Operate    Role = "operate"    // and resign, transfer, pause, resume
	Administer Role = "administer" // and change the membership
)

// roles returns all roles, the weakest first.
func roles() []Role { return []Role{Observe, Operate, Administer} }

// ParseRole returns text as a role, or says what is wrong with it.
func ParseRole(text string) (Role, error) {
	if r := Role(text); r.rank() > 0 {
		return r, nil
	}
	return "", fmt.Errorf("role %.40q; want %s, %s or %s", text, Observe, Operate, Administer)
}

// rank orders the roles; 0 is none.
func (r Role) rank() int {
	for i, known := range roles() {
		if r == known {
			return i + 1
		}
	}
	return 0
}

// Includes reports whether r permits all that other permits. An unknown role permits nothing.
func (r Role) Includes(other Role) bool { return r.rank() > 0 && r.rank() >= other.rank() }

// operatorID returns the id in the certificate of an operator: ~ROLE/NAME, or without a name ~ROLE. For [Operate]
// without a name it is unnamed.
func operatorID(role Role, name string) string {
	switch {
	case name != "":
		return "~" + string(role) + "/" + name
	case role == Operate:
		return unnamed
	}
	return "~" + string(role)
}

// RoleOf returns the role and the name in the id of a certificate: "" if it is not an operator's, or has no name.
func RoleOf(id string) (role Role, name string) {
	for _, r := range roles() {
		if id == operatorID(r, "") {
			return r, ""
		}
		if name, ok := strings.CutPrefix(id, "~"+string(r)+"/"); ok && checkName(name) == nil {
			return r, name
		}
	}
	return "", ""
}

// checkName says what is wrong with the name of an operator.
func checkName(name string) error {
	if _, err := protocol.ParseNodeID(name); err != nil || name == "." || name == ".." {
		return fmt.Errorf("operator name %.80q; want 1 to 64 letters, digits, '.', '_' and '-', and neither . nor .. alone", name)
	}
	return nil
}

// fileOf is the name of the files of an operator's certificate.
func fileOf(role Role, name string) string {
	switch {
	case name != "":
		return name
	case role == Operate:
		return operatorFile
	}
	return string(role)
}

// reserved reports whether no node and no operator may have that name, because its
// files have another purpose. Some file systems do not distinguish case.
func reserved(name string) bool {
	switch strings.ToLower(name) {
	case caFile, operatorFile, string(Observe), string(Operate), string(Administer):
		return true
	}
	return false
}
