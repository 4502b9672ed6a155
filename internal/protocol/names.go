package protocol

import "fmt"

// name and value translate the enumerations to and from text.
func name[E ~uint8](names []string, e E) string {
	if int(e) < len(names) && names[e] != "" {
		return names[e]
	}
	return fmt.Sprintf("unknown-%d", e)
}

func value[E ~uint8](what string, names []string, text []byte) (E, error) {
	for i, n := range names {
		if n != "" && n == string(text) {
			return E(i), nil
		}
	}
	known := make([]string, 0, len(names))
	for _, n := range names {
		if n != "" {
			known = append(known, n)
		}
	}
	return 0, fmt.Errorf("%s %q; want one of %v", what, text, known)
}

// String returns the input's name, such as peer-closed.
func (k InputKind) String() string { return name(inputNames[:], k) }

// MarshalText implements encoding.TextMarshaler.
func (k InputKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *InputKind) UnmarshalText(text []byte) (err error) {
	*k, err = value[InputKind]("input", inputNames[:], text)
	return err
}

// String returns the command's name, such as resign.
func (v Verb) String() string { return name(verbNames[:], v) }

// MarshalText implements encoding.TextMarshaler.
func (v Verb) MarshalText() ([]byte, error) { return []byte(v.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (v *Verb) UnmarshalText(text []byte) (err error) {
	*v, err = value[Verb]("command", verbNames[:], text)
	return err
}

// String returns the order's name, such as stop.
func (k OrderKind) String() string { return name(orderNames[:], k) }

// MarshalText implements encoding.TextMarshaler.
func (k OrderKind) MarshalText() ([]byte, error) { return []byte(k.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (k *OrderKind) UnmarshalText(text []byte) (err error) {
	*k, err = value[OrderKind]("order", orderNames[:], text)
	return err
}

// String returns the operation's name, such as write.
func (o Op) String() string { return name(opNames[:], o) }

// MarshalText implements encoding.TextMarshaler.
func (o Op) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (o *Op) UnmarshalText(text []byte) (err error) {
	*o, err = value[Op]("operation", opNames[:], text)
	return err
}

// String returns the status's name, such as conflict.
func (s Status) String() string { return name(statusNames[:], s) }

// MarshalText implements encoding.TextMarshaler.
func (s Status) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *Status) UnmarshalText(text []byte) (err error) {
	*s, err = value[Status]("status", statusNames[:], text)
	return err
}

// String returns the role's name, such as pre-candidate.
func (r Role) String() string { return name(roleNames[:], r) }

// MarshalText implements encoding.TextMarshaler.
func (r Role) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler.
func (r *Role) UnmarshalText(text []byte) (err error) {
	*r, err = value[Role]("role", roleNames[:], text)
	return err
}
