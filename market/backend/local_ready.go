package backend

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
)

const (
	readyTimeout = 20 * time.Second // a disk may be busy when it reads what it wrote; one that ends says so at once
	readyPoll    = 5 * time.Millisecond
)

// awaitReady polls until the server answers, ends, or the time is up.
func (s *Server) awaitReady(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	for {
		err := s.ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-s.process.exited:
			return s.process.exitError()
		case <-ctx.Done():
			return fmt.Errorf("the server did not answer: %w", err)
		case <-time.After(readyPoll):
		}
	}
}

// ready reports whether our server, and not another one that took its port, answers.
func (s *Server) ready(ctx context.Context) error {
	conn, err := s.Dial(ctx)
	if errors.Is(err, ErrAuth) {
		return nil // it answers; an ACL file keeps us out
	}
	if err != nil {
		return err
	}
	defer conn.Close()
	fields, err := infoFields(ctx, conn, "server")
	if _, denied := Denied(err); denied {
		return nil
	}
	if err == nil && fields["process_id"] != strconv.Itoa(s.PID()) {
		<-s.process.exited // it cannot bind, so it ends
		return errPortTaken
	}
	return err
}

// exitError says why the server ended, in its own words.
func (p *process) exitError() error {
	log := p.log.String()
	if strings.Contains(log, "Address already in use") {
		return errPortTaken
	}
	return fmt.Errorf("the server ended as soon as it was started (%v); the end of its log:\n%s", p.state, log)
}
