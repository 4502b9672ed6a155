//go:build darwin || dragonfly || freebsd || openbsd

package keeper

// addresses are never held on this system.
type addresses struct{}

func (k *keeper) appear() error {
	if len(k.spec.Addresses) > 0 {
		return ErrNoAddresses
	}
	return nil
}

func (k *keeper) withdraw()         {}
func (a *addresses) until(int64)    {}
func (a *addresses) announce(int64) {}
func (a *addresses) next() int64    { return 0 }
