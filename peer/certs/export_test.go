package certs

const (
	Unnamed = unnamed
	ValidCA = validCA
)

// Roles returns all roles.
func Roles() []Role { return roles() }

// OperatorID returns the id in the certificate of an operator.
func OperatorID(role Role, name string) string { return operatorID(role, name) }

// ReloadError returns why the files are not in force.
func (i *Identity) ReloadError() error { return i.reloadError() }
