package trace

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"unicode/utf8"
)

// Reader is an io.Reader; this package does no I/O of its own, and so does not
// import io.
type Reader interface {
	Read(p []byte) (n int, err error)
}

// Decoder reads a trace line by line. It refuses fields that it does not know,
// lines longer than [MaxHeader] and [MaxLine], numbers that do not rise, and whatever else
// [Event] excludes. It holds no more than a line in memory.
type Decoder struct {
	lines  lines
	header Header
	order  order
	torn   bool
}

// NewDecoder reads the header.
func NewDecoder(r Reader) (*Decoder, error) {
	d := &Decoder{lines: lines{r: r}}
	line, ok, err := d.lines.next()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, onLine(1, errors.New("there is nothing; want the header of a trace"))
	}
	if err := decode[Header](line, &d.header); err != nil {
		return nil, onLine(1, err)
	}
	if err := d.header.Validate(); err != nil {
		return nil, onLine(1, err)
	}
	d.order = newOrder(&d.header)
	d.lines.groups = d.order.group
	return d, nil
}

// Torn reports, after the last event, whether a line followed it that was cut
// short, as when the recorder was killed while it wrote. It is left out. Only the
// last line of a recorder's trace may be so.
func (d *Decoder) Torn() bool { return d.torn }

// Header is the header, which the decoder goes on using.
func (d *Decoder) Header() *Header { return &d.header }

// Line is the number of the line that was read last, from 1.
func (d *Decoder) Line() int { return d.lines.n }

// Next returns the next event, which is the caller's, and nil at the end. After
// an error the trace is over.
func (d *Decoder) Next() (*Event, error) {
	line, ok, err := d.lines.next()
	if err != nil || !ok {
		return nil, err
	}
	if d.header.Source == Recorder && d.lines.ragged() && !json.Valid(line) {
		d.torn = true
		d.lines.n--
		return nil, nil
	}
	e := new(Event)
	if err := decode(line, e); err != nil {
		return nil, onLine(d.lines.n, err)
	}
	if err := d.order.next(e); err != nil {
		return nil, onLine(d.lines.n, err)
	}
	return e, nil
}

// Events yields the events that are left; an error comes once, last.
func (d *Decoder) Events() iter.Seq2[*Event, error] {
	return func(yield func(*Event, error) bool) {
		for {
			e, err := d.Next()
			if e == nil && err == nil || !yield(e, err) || err != nil {
				return
			}
		}
	}
}

// lines splits the input into lines.
type lines struct {
	r    Reader
	n    int    // of the last line
	buf  []byte // read and not yet handed out
	off  int
	over bool
	// groups: the trace is of a group.
	groups bool
}

// ragged reports whether the last line that was handed out has no end.
func (l *lines) ragged() bool {
	return l.over && l.off == len(l.buf) && (l.off == 0 || l.buf[l.off-1] != '\n')
}

// next returns the next line without its end, valid until the next call, and
// false after the last one.
func (l *lines) next() ([]byte, bool, error) {
	from := l.off // where to look for the end of the line
	most := longest(l.n+1, l.groups)
	for {
		if i := bytes.IndexByte(l.buf[from:], '\n'); i >= 0 && from+i-l.off <= most {
			line := l.buf[l.off : from+i]
			l.off = from + i + 1
			l.n++
			return line, true, nil
		}
		if len(l.buf)-l.off > most {
			return nil, false, onLine(l.n+1, fmt.Errorf("more than %d bytes", most))
		}
		if l.over {
			line := l.buf[l.off:]
			if l.off = len(l.buf); len(line) == 0 {
				return nil, false, nil
			}
			l.n++
			return line, true, nil
		}
		l.buf = l.buf[:copy(l.buf, l.buf[l.off:])]
		l.off, from = 0, len(l.buf)
		if cap(l.buf)-len(l.buf) < 4096 {
			l.buf = append(make([]byte, 0, max(64<<10, 2*cap(l.buf))), l.buf...)
		}
		n, err := l.r.Read(l.buf[len(l.buf):cap(l.buf)])
		l.buf = l.buf[:len(l.buf)+n]
		switch {
		case err == nil:
		case errors.Is(err, endOfFile()):
			l.over = true
		default:
			return nil, false, fmt.Errorf("after line %d: %w", l.n, err)
		}
	}
}

// endOfFile is io.EOF, recognized by its text.
func endOfFile() error {
	_, err := new(bytes.Reader).ReadByte()
	return err
}

// cutShort is io.ErrUnexpectedEOF, recognized by its text.
func cutShort() error {
	return json.NewDecoder(bytes.NewReader([]byte("{"))).Decode(new(struct{}))
}

// decode reads a line strictly.
func decode[T any](line []byte, v *T) error {
	if !utf8.Valid(line) {
		return errors.New("it is not UTF-8")
	}
	err := strict(line, v)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("it is no JSON: %v at byte %d", e, e.Offset)
	}
	path, err := blame[T](nil, line, err)
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		err = fmt.Errorf("%s; want %s", e.Value, words(e.Type.String()))
	}
	if unknown, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		err = fmt.Errorf("the field %s is not known here", unknown)
	}
	return at(strings.Join(path, ""), err)
}

// words puts Go's names of types into words.
func words(kind string) string {
	switch {
	case strings.HasPrefix(kind, "uint") || strings.HasSuffix(kind, "Incarnation"):
		return "a whole number, 0 or more"
	case strings.HasPrefix(kind, "int"), strings.HasSuffix(kind, "Duration"), strings.HasSuffix(kind, "Instant"):
		return "a whole number"
	case kind == "bool":
		return "true or false"
	case strings.HasPrefix(kind, "[]uint8"):
		return "bytes in base64"
	case strings.HasPrefix(kind, "["):
		return "a list"
	case kind == "string", strings.HasSuffix(kind, "ID"), strings.HasSuffix(kind, "Kind"), strings.HasSuffix(kind, "Source"), strings.HasSuffix(kind, "Type"), strings.HasSuffix(kind, "Reason"):
		return "text"
	}
	return "an object"
}

func strict(text []byte, v any) error {
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		if errors.Is(err, endOfFile()) {
			return errors.New("an empty line; want an object")
		}
		if errors.Is(err, cutShort()) {
			return errors.New("it is no JSON: it is cut short")
		}
		return err
	}
	if rest := bytes.TrimSpace(text[d.InputOffset():]); len(rest) > 0 {
		return fmt.Errorf("%d bytes after the object; want one object a line", len(rest))
	}
	return nil
}

// blame finds the innermost value that is wrong, by decoding each alone. err is the error of the
// value at path.
func blame[T any](path []string, value []byte, err error) ([]string, error) {
	try := func(step string, part []byte) ([]string, error, bool) {
		at := append(path[:len(path):len(path)], step)
		text := bytes.Clone(part)
		for i := len(at) - 1; i >= 0; i-- {
			if strings.HasPrefix(at[i], "[") {
				text = append(append([]byte{'['}, text...), ']')
			} else {
				name, _ := json.Marshal(strings.TrimPrefix(at[i], ".")) // a string always can be
				text = append(append(append(append([]byte{'{'}, name...), ':'), text...), '}')
			}
		}
		if err := strict(text, new(T)); err != nil {
			at, err := blame[T](at, part, err)
			return at, err, true
		}
		return nil, nil, false
	}
	if len(path) > 16 { // deeper than the schema
		return path, err
	}
	var object map[string]json.RawMessage
	var list []json.RawMessage
	if json.Unmarshal(value, &object) == nil {
		for _, name := range sortedNames(object) {
			step := name
			if len(path) > 0 {
				step = "." + name
			}
			if at, err, found := try(step, object[name]); found {
				return at, err
			}
		}
	} else if json.Unmarshal(value, &list) == nil {
		for i, part := range list {
			if at, err, found := try(fmt.Sprintf("[%d]", i), part); found {
				return at, err
			}
		}
	}
	return path, err
}
