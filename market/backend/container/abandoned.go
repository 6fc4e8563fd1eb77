package container

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"github.com/moby/moby/client"
)

// makerLabel says which process made a container.
const makerLabel = "marketsim.process"

// process names a process of Linux, given its id or "self": by the boot of this machine, the namespace of its id and
// its user, who may not see those of others, because an engine may have users on several machines and in containers of
// one; then by its id and when it began, because ids are used again. The error wraps fs.ErrNotExist if it has ended.
func process(id string) (string, error) {
	boot, err1 := os.ReadFile("/proc/sys/kernel/random/boot_id")
	namespace, err2 := os.Readlink("/proc/self/ns/pid")
	text, err3 := os.ReadFile("/proc/" + id + "/stat")
	if err := errors.Join(err1, err2, err3); err != nil {
		return "", err
	}
	stat := string(text)
	id, _, _ = strings.Cut(stat, " ")
	// The name after the id stands in parentheses and may hold anything; the third and the 22nd field are what follows.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	if state := fields[0]; state == "Z" || state == "X" { // only its parent has not noticed
		return "", fmt.Errorf("process %s has ended: %w", id, fs.ErrNotExist)
	}
	return fmt.Sprintf("%s %s %d %s %s", strings.TrimSpace(string(boot)), namespace, os.Getuid(), id, fields[19]), nil
}

// removeAbandoned removes the containers of processes that have ended of where self, this process, runs. What cannot be
// removed now stays for the next start.
func removeAbandoned(ctx context.Context, engine *client.Client, self string) {
	ctx, cancel := context.WithTimeout(ctx, stopTimeout)
	defer cancel()
	labelled := client.Filters{}.Add("label", makerLabel)
	all, _ := engine.ContainerList(ctx, client.ContainerListOptions{All: true, Filters: labelled})
	for _, c := range all.Items {
		maker := c.Labels[makerLabel]
		fields := strings.Fields(maker)
		if len(fields) != 5 || !slices.Equal(fields[:3], strings.Fields(self)[:3]) {
			continue
		}
		now, err := process(fields[3])
		if errors.Is(err, fs.ErrNotExist) || err == nil && now != maker {
			_, _ = engine.ContainerRemove(ctx, c.ID, client.ContainerRemoveOptions{Force: true, RemoveVolumes: true})
		}
	}
}
