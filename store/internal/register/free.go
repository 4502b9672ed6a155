package register

import (
	"context"
	"fmt"

	"github.com/electd/elect/internal/protocol"
	"github.com/electd/elect/store/internal/drive"
)

// tenure identifies one in its store: its nonce is that of no other.
type tenure struct {
	Holder string `json:"holder"`
	Nonce  string `json:"nonce"`
	Count  uint64 `json:"count"`
}

func (e *Elector) tenure(count uint64) any {
	if e.own != count || e.nonce == (protocol.Nonce{}) {
		return nil
	}
	return tenure{Holder: e.cfg.ID, Nonce: e.nonce.String(), Count: count}
}

// Free writes the record free for a leader that is dead with all its work, as its own release would have. It replaces
// only the version that it has read, and only if that shows this tenure; so no later tenure is touched, and Free may
// be repeated.
//
// It is safe because nobody is left who acts under that tenure: not its work, and not the process that could renew. A
// renewal of it that is still on its way either lands before, and then the record is read again, or fails by its
// version. The record keeps the incarnation of the store at the acquisition, so that after a failover the others wait.
func Free(ctx context.Context, r Register, of *drive.Deceased) error {
	var t tenure
	if err := of.Tenure(&t); err != nil {
		return err
	}
	return drive.Free(ctx, func(ctx context.Context) error {
		k, err := r.Read(ctx)
		if err != nil || k.Version == "" {
			return err
		}
		_, in, err := decode(k.Text)
		if err != nil || in.Holder != t.Holder || in.Nonce != t.Nonce || in.Count != t.Count {
			return nil // another tenure's, or nobody's
		}
		free := record{
			Format: in.Format, Count: in.Count, Nonce: in.Nonce, Attempt: in.Attempt + 1, Lease: in.Lease, Store: in.Store,
			Freed: &mark{Holder: t.Holder, Nonce: t.Nonce, Count: t.Count},
		}
		text, err := free.text()
		if err != nil {
			return fmt.Errorf("%w: %w", ErrNotSent, err)
		}
		_, err = r.Write(ctx, k.Version, text)
		return err
	})
}
