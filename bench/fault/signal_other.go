//go:build !unix

package fault

import (
	"fmt"

	"github.com/marketsim/marketsim/market/backend"
)

var errNoSignals = fmt.Errorf("this operating system cannot stop a process and continue it: %w",
	backend.ErrUnavailable)

func pause(int) error  { return errNoSignals }
func resume(int) error { return errNoSignals }
