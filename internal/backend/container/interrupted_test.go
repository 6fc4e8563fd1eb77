package container_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"testing"

	"github.com/marketsim/marketsim/internal/backend/container"
	"github.com/marketsim/marketsim/internal/testkit"
)

// starterEnv makes the test binary be a program that starts a container, and
// says when it is interrupted.
const starterEnv = "CONTAINER_TEST_STARTER"

func TestMain(m *testing.M) {
	if os.Getenv(starterEnv) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, func() { fmt.Println("interrupted") })
	_, _ = container.Starter{Image: os.Getenv("MARKETSIM_IMAGE")}.Start(ctx)
}

// docker is what the command of this name says; nothing if it fails.
func docker(args ...string) string {
	out, _ := exec.Command("docker", args...).Output()
	return strings.TrimSpace(string(out))
}

// A start that is interrupted while the engine makes a container removes it.
func TestInterruptedCreation(t *testing.T) {
	t.Parallel()
	network, addr, _ := strings.Cut(docker("context", "inspect", "--format", "{{.Endpoints.docker.Host}}"), "://")
	made, heard := make(chan string), make(chan bool)
	proxy := httptest.NewServer(&httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.Out.URL.Scheme, r.Out.URL.Host = "http", "docker" },
		Transport: &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, addr)
		}},
		ModifyResponse: func(r *http.Response) error {
			if !strings.HasSuffix(r.Request.URL.Path, "/containers/create") {
				return nil
			}
			answer, err := io.ReadAll(r.Body)
			r.Body = io.NopCloser(bytes.NewReader(answer))
			var c struct{ ID string }
			err = errors.Join(err, json.Unmarshal(answer, &c))
			// The container is there, but the program learns of it only after the interrupt.
			made <- c.ID
			<-heard
			return err
		},
	})
	defer proxy.Close()

	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), starterEnv+"=1", "DOCKER_HOST=tcp://"+proxy.Listener.Addr().String())
	says := testkit.Must(cmd.StdoutPipe())(t)
	testkit.Succeeds(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })

	go func() {
		_, _ = says.Read(make([]byte, 1)) // it was interrupted, or has ended
		close(heard)
	}()

	var id string
	select {
	case id = <-made:
	case <-heard:
		testkit.Require(t, "docker", "no container was made")
	}
	t.Cleanup(func() { docker("rm", "--force", "--volumes", id) })

	err := cmd.Process.Signal(os.Interrupt)
	<-heard
	_ = cmd.Wait()
	if err != nil || id == "" || strings.Contains(docker("ps", "--all", "--quiet", "--no-trunc"), id) {
		t.Errorf("container %q is left, %v", id, err)
	}
}
