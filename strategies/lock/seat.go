package lock

import "slices"

// seat is a place where one worker can be told that a lock may be free. Whoever sits before it tries the lock misses
// no message between the try and the wait.
type seat struct {
	hub            *hub
	channel, token string
	woken          chan struct{} // holds one value
	listens        bool          // guarded by hub.mu
}

// sit takes a seat. It costs no round trip: messages come if somebody else listens already, and otherwise after listen.
func (h *hub) sit(channel, token string) *seat {
	s := &seat{hub: h, channel: channel, token: token, woken: make(chan struct{}, 1)}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.seats[channel] = append(h.seats[channel], s)
	return s
}

// listen sees to it that messages come. If none did so far, the seat is woken once they do.
func (s *seat) listen() {
	s.hub.mu.Lock()
	defer s.hub.mu.Unlock()
	if s.listens {
		return
	}
	s.listens = true
	if !s.hub.started && s.hub.ctx.Err() == nil {
		s.hub.started = true
		s.hub.done.Go(s.hub.run)
	}
	s.hub.change()
}

// leave gives the seat up. One who did not take the lock may have been woken in vain: it wakes another.
func (s *seat) leave(taken bool) {
	h := s.hub
	h.mu.Lock()
	defer h.mu.Unlock()
	rest := slices.DeleteFunc(h.seats[s.channel], func(other *seat) bool { return other == s })
	h.seats[s.channel] = rest
	if len(rest) == 0 {
		delete(h.seats, s.channel)
		h.change()
	}
	if !taken {
		h.wakeOne(s.channel)
	}
}

// change tells the subscription that what is wanted may have changed.
func (h *hub) change() {
	select {
	case h.changed <- struct{}{}:
	default:
	}
}

// wake reports whether the seat had not been woken already.
func (s *seat) wake() bool {
	select {
	case s.woken <- struct{}{}:
		return true
	default:
		return false
	}
}
