package container_test

import (
	"bufio"
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
	"time"

	"github.com/marketsim/marketsim/internal/testkit"
	"github.com/marketsim/marketsim/market/backend/container"
)

// starterEnv makes the test binary be a program that starts a container, says so and waits to be killed. It also says
// that it is interrupted.
const starterEnv = "CONTAINER_TEST_STARTER"

func TestMain(m *testing.M) {
	if os.Getenv(starterEnv) == "" {
		os.Exit(m.Run())
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	context.AfterFunc(ctx, func() { fmt.Println("interrupted") })
	s, err := container.Starter{Image: os.Getenv("MARKETSIM_IMAGE")}.Start(ctx)
	if err == nil {
		fmt.Println(s.Target.Addr)
		select {}
	}
}

// newStarter starts that program, and returns what reads what it says.
func newStarter(t *testing.T, env ...string) (*exec.Cmd, *bufio.Reader) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), starterEnv+"=1"), env...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd, bufio.NewReader(out)
}

// docker is what the command of this name says; nothing if it fails.
func docker(args ...string) string {
	out, _ := exec.Command("docker", args...).Output()
	return strings.TrimSpace(string(out))
}

// ended removes a container at the end of the test, if it is there then.
func ended(t *testing.T, id string) string {
	t.Cleanup(func() { docker("rm", "--force", "--volumes", id) })
	return id
}

// The next start removes the containers of killed processes, and none of one that lives, or is elsewhere.
func TestStartRemovesContainersOfTheKilled(t *testing.T) {
	s := testkit.Start(t, container.Starter{Image: os.Getenv("MARKETSIM_IMAGE")}) // or there is nothing to test
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		testkit.Require(t, "proc", err.Error())
	}
	at := func(addr string) string {
		_, port, _ := strings.Cut(strings.TrimSpace(addr), ":")
		return docker("ps", "--quiet", "--no-trunc", "--filter", "publish="+port)
	}
	living := at(s.Target.Addr)
	cmd, says := newStarter(t)
	addr, _ := says.ReadString('\n')
	dead := ended(t, at(addr))
	label := docker("inspect", "--format", `{{index .Config.Labels "marketsim.process"}}`, dead)
	made := func(label string) string {
		image := docker("inspect", "--format", "{{.Image}}", living)
		return ended(t, docker("create", "--label", "marketsim.process="+label, image))
	}
	own := docker("inspect", "--format", `{{index .Config.Labels "marketsim.process"}}`, living)
	reused, elsewhere := made(own+"1"), made("another"+label)
	_ = cmd.Process.Kill() // and nobody waits for it yet
	for stat := []byte(nil); !bytes.Contains(stat, []byte(") Z ")); time.Sleep(time.Millisecond) {
		stat, _ = os.ReadFile(fmt.Sprintf("/proc/%d/stat", cmd.Process.Pid))
	}
	testkit.Start(t, container.Starter{Image: os.Getenv("MARKETSIM_IMAGE")})
	there := docker("ps", "--all", "--quiet", "--no-trunc")
	for _, c := range []struct {
		of, id string
		stays  bool
	}{
		{"a process that lives", living, true},
		{"a killed process", dead, false},
		{"a process whose id is used again", reused, false},
		{"a process elsewhere", elsewhere, true},
	} {
		if stays := strings.Contains(there, c.id); c.id == "" || stays != c.stays {
			t.Errorf("the container %q of %s stays: %v, want %v", c.id, c.of, stays, c.stays)
		}
	}
}

// Who is interrupted while the engine makes a container removes it.
func TestInterruptedCreation(t *testing.T) {
	testkit.Start(t, container.Starter{Image: os.Getenv("MARKETSIM_IMAGE")}) // or there is nothing to test
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
			made <- c.ID
			<-heard
			return err
		},
	})
	defer proxy.Close()
	cmd, says := newStarter(t, "DOCKER_HOST=tcp://"+proxy.Listener.Addr().String())
	id := ended(t, <-made)
	err := cmd.Process.Signal(os.Interrupt)
	_, _ = says.ReadString('\n')
	close(heard)
	_ = cmd.Wait()
	if err != nil || id == "" || strings.Contains(docker("ps", "--all", "--quiet", "--no-trunc"), id) {
		t.Errorf("container %q is left, %v", id, err)
	}
}
