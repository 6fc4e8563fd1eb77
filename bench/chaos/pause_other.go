//go:build !unix

package chaos

import "errors"

func pause(int) error { return errors.ErrUnsupported }

func resume(int) error { return errors.ErrUnsupported }

// pausable says whether processes can be stopped here.
const pausable = false
