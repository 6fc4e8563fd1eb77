package lock

import (
	"errors"
	"io"
	"sync"
)

// Process is what the Lockers of one process share, such as one subscription for all of them. The zero value is ready.
// It is safe for concurrent use.
type Process struct {
	mu     sync.Mutex
	shared map[string]io.Closer
}

// Share returns what was made for key before, or makes it.
func (p *Process) Share(key string, create func() (io.Closer, error)) (io.Closer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if c, ok := p.shared[key]; ok {
		return c, nil
	}
	c, err := create()
	if err != nil {
		return nil, err
	}
	if p.shared == nil {
		p.shared = map[string]io.Closer{}
	}
	p.shared[key] = c
	return c, nil
}

// Close closes all that is shared, when every Locker has been closed.
func (p *Process) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, c := range p.shared {
		errs = append(errs, c.Close())
	}
	p.shared = nil
	return errors.Join(errs...)
}
