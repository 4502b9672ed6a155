package fencesql

import (
	"context"
	"database/sql"
	"time"

	"github.com/electd/elect/fence"
)

// dialect is the difference between databases. Its values have no state.
type dialect interface {
	quote(name string) string
	statements(table string) statements

	install(ctx context.Context, m *Mark) error

	// warnings are about settings of the server that may lose marks, a sentence each.
	warnings(ctx context.Context, m *Mark) ([]string, error)

	uninstall(ctx context.Context, m *Mark) error

	// begin begins the transaction of a claim. The transaction sees what was committed when it has waited for a lock,
	// waits for it no longer than patience, and has a durable commit. begin returns what identifies the session to
	// holders, 0 if nothing does, and a function to call when the transaction has ended.
	begin(ctx context.Context, conn *sql.Conn, patience time.Duration) (tx *sql.Tx, session int64, end func() error, err error)

	// holders are the sessions whose transactions a session waits for.
	holders(ctx context.Context, m *Mark, session int64) ([]holder, error)

	// terminate ends the connection of a holder.
	terminate(ctx context.Context, m *Mark, h holder) error

	// classify returns the meaning of an error of the database.
	classify(err error) verdict
}

// guarder is a dialect that can guard tables with triggers.
type guarder interface {
	guard(ctx context.Context, m *Mark, resource fence.Resource, tables []string) error
	unguard(ctx context.Context, m *Mark, resource fence.Resource, tables []string) error
	tables(ctx context.Context, m *Mark) (map[fence.Resource][]string, error)
}

// statements are those that all databases share except for their wording. Each is prepared with the arguments that
// are named here, in this order. Tokens are 64-bit integers.
type statements struct {
	add    string // resource; does nothing if it exists
	remove string // resource

	// highest reads the mark. Argument: resource. Result: a row with the token, as last committed or as written by the
	// same transaction.
	highest string

	// queue is what a claim does before it raises the mark. Argument: resource. It waits for transactions that hold the
	// mark, and later checks wait behind it until the claim's transaction ends. "": raise does that by itself.
	queue string

	// raise raises the mark of the resource, if it is not above the token. Arguments: token, resource, token. It waits
	// for transactions that hold the mark.
	raise string

	// confirm writes a record without data, so that a commit waits for everything that was committed before, here and at
	// standbys. "": what can be read is as durable as possible.
	confirm string

	// check holds the mark where it is until the transaction ends. Arguments: resource, token. Result: a row with the
	// mark, if that is not above the token, or none. It waits for a raise.
	check string

	// share is check, for a transaction that does nothing else and may be idle for long.
	share string

	// refusal reads the mark after a check that has found no row, in the same transaction. Argument: resource. Result: a
	// row with a mark that is no older than what check saw.
	refusal string

	// token makes the token known to the triggers of guarded tables until the transaction ends. Argument: token. "":
	// there are no such triggers. check does it too.
	token string

	// status reads all marks. Result: rows of resource, token, and milliseconds since 1970 of the last claim or NULL,
	// ordered by resource.
	status string

	// inline means that check and share are formats with a string for the resource and a number for the token, for
	// drivers that prepare each statement with arguments anew. The characters of a resource's name need no quoting.
	inline bool

	// dirty means that highest may read uncommitted data, if that is the default of the connection, unless it is in a
	// transaction that asks for another isolation level.
	dirty bool
}

// holder is a session in the way of a claim.
type holder struct {
	session int64
	text    string // its user and its statement
	may     bool   // it holds a check, so that terminating it makes way
}

// verdict is the meaning of an error of the database.
type verdict int

const (
	unknown verdict = iota // not known here
	// the database refused the statement, and has applied nothing of it; for a commit, nothing of the transaction
	refused
	waited     // as refused: a wait for a lock took too long
	serialized // as refused: concurrent transactions conflict; the caller should begin anew
	absent     // as refused: the table does not exist
)
