package drive

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Parameter is one that a store's URL may have.
type Parameter struct {
	name   string
	read   func(values []string) error
	hidden bool // it is refused, so no error names it as one to take
}

// ParseParameters reads the query of a URL, which may have these parameters and no others. What is not there stays as
// it is. No error shows the value of a [Text].
func ParseParameters(query string, known ...Parameter) error {
	all, err := url.ParseQuery(query)
	if err != nil {
		return errors.New("the parameters do not parse; want NAME=VALUE, & between two, and special characters as %XX") // the error could show a password
	}
	for _, name := range slices.Sorted(maps.Keys(all)) {
		i := slices.IndexFunc(known, func(p Parameter) bool { return p.name == name })
		if i < 0 {
			return fmt.Errorf("unknown parameter %.40q; want %s", name, names(known))
		}
		if err := known[i].read(all[name]); err != nil {
			return err
		}
	}
	return nil
}

// names are those of parameters, for people.
func names(known []Parameter) string {
	var all []string
	for _, p := range known {
		if !p.hidden {
			all = append(all, p.name)
		}
	}
	last := len(all) - 1
	return strings.Join(all[:last], ", ") + " or " + all[last]
}

// Value is a parameter that is given once, and not empty.
func Value(name string, read func(value string) error) Parameter {
	return Parameter{name: name, read: func(values []string) error {
		if len(values) != 1 || values[0] == "" {
			return fmt.Errorf("%s is empty, or given %d times; want it once", name, len(values))
		}
		return read(values[0])
	}}
}

// Text is a parameter that may have any value.
func Text(name string, to *string) Parameter {
	return Value(name, func(value string) error { *to = value; return nil })
}

// Texts is a parameter that may be given any number of times.
func Texts(name string, to *[]string) Parameter {
	return Parameter{name: name, read: func(values []string) error { *to = values; return nil }}
}

// Duration is a time above 0.
func Duration(name string, to *time.Duration) Parameter {
	return Value(name, func(value string) (err error) {
		if *to, err = time.ParseDuration(value); err != nil || *to <= 0 {
			return fmt.Errorf("%s=%.40s; want a time such as 5s", name, value)
		}
		return nil
	})
}

// Choice is on or off.
func Choice(name string, to *string) Parameter {
	return Value(name, func(value string) error {
		if *to = value; value != "on" && value != "off" {
			return fmt.Errorf("%s=%.40s; want on or off", name, value)
		}
		return nil
	})
}

// Era is the parameter era, of tokens.
func Era(to *uint16) Parameter {
	return Value("era", func(value string) error {
		n, err := strconv.ParseUint(value, 10, 16)
		if err != nil {
			return fmt.Errorf("era=%.40s; want 0 to 65535", value)
		}
		*to = uint16(n)
		return nil
	})
}

// Refuse is a parameter that users may expect. why says what to take in its place.
func Refuse(name, why string) Parameter {
	return Parameter{name: name, hidden: true, read: func([]string) error { return errors.New(why) }}
}

// ReadPassword reads a file, and drops the newlines at its end.
func ReadPassword(file string) (string, error) {
	text, err := os.ReadFile(file)
	return strings.TrimRight(string(text), "\r\n"), err
}
