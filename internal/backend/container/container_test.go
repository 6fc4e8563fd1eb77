package container_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/marketsim/marketsim/internal/backend"
	"github.com/marketsim/marketsim/internal/backend/container"
	"github.com/marketsim/marketsim/internal/process"
	"github.com/marketsim/marketsim/internal/redisconn"
	"github.com/marketsim/marketsim/internal/testkit"
)

// A server in a container can be reached from this machine alone, asks for a password that the
// engine does not show, and writes no data to disk.
func TestContainer(t *testing.T) {
	t.Parallel()
	s := testkit.Start(t, container.Starter{Image: os.Getenv("MARKETSIM_IMAGE")})
	conn := testkit.Dial(t, s)

	if err := backend.Preflight(t.Context(), conn); err != nil {
		t.Error(err)
	}

	if got := s.Describe(); !strings.Contains(got, "in Docker at redis://") {
		t.Errorf("described as %q", got)
	}

	_, port, _ := strings.Cut(s.Target.Addr, ":")
	says := inspected(t, port)
	if !strings.Contains(says, `"HostIp": "127.0.0.1"`) ||
		strings.Contains(says, `"HostIp": "0.0.0.0"`) {
		t.Errorf("the container listens beside 127.0.0.1:\n%s", says)
	}
	if strings.Contains(says, s.Target.Password) {
		t.Error("the engine shows the password")
	}

	without := s.Target
	without.Password = ""
	if _, err := redisconn.To(without).Dial(t.Context()); !errors.Is(err, redisconn.ErrAuth) {
		t.Errorf("without the password: %v", err)
	}

	info, err := s.Info(t.Context())
	if err != nil || info.Config["save"] != "" || info.Config["appendonly"] != "no" {
		t.Errorf("Info says %+v, %v; want no persistence", info, err)
	}

	if err := s.Close(); err != nil {
		t.Error(err)
	}
	if _, err := s.Dial(t.Context()); !errors.Is(err, redisconn.ErrUnreachable) {
		t.Errorf("after Close, Dial says %v", err)
	}
}

// inspected is all that the engine says of the container whose port is bound to
// this one of the machine.
func inspected(t *testing.T, port string) string {
	t.Helper()
	id, err := exec.CommandContext(t.Context(),
		"docker", "ps", "--quiet", "--filter", "publish="+port).Output()
	if err != nil {
		testkit.Require(t, "docker", err.Error())
	}
	all, err := exec.CommandContext(t.Context(),
		"docker", "inspect", strings.TrimSpace(string(id))).Output()
	if err != nil {
		t.Fatal(err)
	}
	return string(all)
}

// An engine that accepts and never answers must not stop a run from going on to
// the next backend. testcontainers looks for its engine once a process, so the
// test needs one of its own.
func TestEngineDoesNotAnswer(t *testing.T) {
	t.Parallel()
	if os.Getenv("CONTAINER_TEST_CHILD") != "" {
		_, err := container.Starter{}.Start(t.Context())
		fmt.Printf("unavailable=%v error=%v\n", errors.Is(err, process.ErrUnavailable), err)
		return
	}

	silent := testkit.Must(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer silent.Close()
	child := exec.CommandContext(t.Context(),
		os.Args[0], "-test.run=^TestEngineDoesNotAnswer$", "-test.timeout=2m")
	child.Env = append(os.Environ(),
		"CONTAINER_TEST_CHILD=1", "DOCKER_HOST=tcp://"+silent.Addr().String())

	start := time.Now()
	out, err := child.CombinedOutput()
	said, _, _ := strings.Cut(string(out), "\n")
	if err != nil || !strings.HasPrefix(said, "unavailable=true") {
		t.Errorf("got %v, %s; want that Docker is unavailable", err, out)
	}

	// it takes seconds on a machine that does nothing else
	if took := time.Since(start); took > time.Minute {
		t.Errorf("it took %v", took)
	}
}

func TestNoSuchImage(t *testing.T) {
	t.Parallel()
	if docker("version", "--format", "{{.Server.Version}}") == "" {
		testkit.Require(t, "docker", "no engine answers")
	}

	// There is no registry at this address.
	const image = "127.0.0.1:1/no-such-image:none"
	_, err := container.Starter{Image: image}.Start(t.Context())
	if !errors.Is(err, process.ErrUnavailable) || !strings.Contains(err.Error(), image) {
		t.Errorf("got %v, want an error that says what is unavailable", err)
	}

	_, err = container.Starter{Image: image, NoPull: true}.Start(t.Context())
	if !strings.Contains(fmt.Sprint(err), "not pulled") {
		t.Errorf("got %v, want that it is not pulled", err)
	}
}
