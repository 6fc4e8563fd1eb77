package join

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/redis/go-redis/v9"

	"github.com/marketsim/marketsim/market"
)

// The errors of Join that are mistakes of a command line. They are wrapped: test with errors.Is.
var (
	// ErrDiffers is returned when a setting is not that of the first member.
	ErrDiffers = errors.New("settings differ")
	// ErrFull is returned when as many have joined as the run is to have.
	ErrFull = errors.New("the run is full")
	// ErrBegun is returned when the run has begun without this process, or has ended just now.
	ErrBegun = errors.New("the run has begun")
)

// ErrAbandoned is returned, wrapped, by Join when all members of an earlier run of the same name were killed: their market
// is still there.
var ErrAbandoned = errors.New("an earlier run was killed")

var (
	//go:embed register.lua
	registerText string
	//go:embed tell.lua
	tellText string

	registerScript = redis.NewScript(registerText)
	tellScript     = redis.NewScript(tellText)
)

// register gives a process a place in the meeting.
func register(ctx context.Context, rdb redis.Scripter, c Config, token string) (index int, err error) {
	settings, err := json.Marshal(c.Settings) // which sorts them
	if err != nil {
		return 0, err
	}
	reply, err := registerScript.Run(ctx, rdb, c.keys(), token, c.Of, settings, c.Silence.Microseconds()).StringSlice()
	if err != nil {
		return 0, fmt.Errorf("join %s: %w", c.ID, err)
	}
	all := english.Plural(c.Of, "load machine", "")
	switch reply[0] {
	case "registered":
		return strconv.Atoi(reply[1])
	case "differs":
		return 0, differs(c, reply[1])
	case "full":
		return 0, fmt.Errorf("%w: %s has its %s; take another --join for another run", ErrFull, c.ID, all)
	case "begun":
		return 0, fmt.Errorf("%w: %s is under way with %s; take another --join for another run", ErrBegun, c.ID, all)
	case "ended":
		return 0, fmt.Errorf("%w: %s has ended, and its last load machine is leaving; join again for a new run", ErrBegun, c.ID)
	}
	return 0, fmt.Errorf("%w: all load machines of %s are gone; remove what they left with 'marketsim clean --prefix %s'",
		ErrAbandoned, c.ID, c.Keys.Prefix())
}

// differs names the first setting that is not that of the first member.
func differs(c Config, first string) error {
	theirs := map[string]string{}
	if err := json.Unmarshal([]byte(first), &theirs); err != nil {
		return fmt.Errorf("%w: those of the first load machine of %s cannot be read: %w", ErrDiffers, c.ID, err)
	}
	all := maps.Clone(theirs)
	maps.Copy(all, c.Settings)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if here, there := c.Settings[name], theirs[name]; here != there {
			return fmt.Errorf("%w: %s is %s here, and %s on the first load machine of %s", ErrDiffers, name, shown(here),
				shown(there), c.ID)
		}
	}
	return fmt.Errorf("%w, though each by itself is the same", ErrDiffers)
}

func shown(setting string) string {
	if setting == "" {
		return "not set"
	}
	return setting
}

// A view is what the meeting holds at a time of the server's clock.
type view struct {
	now     time.Time
	state   string
	members []memberView
	stop    *Over                // why the run is to end before its time; nil: it goes on
	at      map[string]time.Time // by step: when those who waited there go on
}

type memberView struct {
	joined bool
	beat   string // changes with each sign of life
	gone   string // "", "left" or "lost"
	step   int    // the last that it has come to
}

// readView reads what tell.lua answers.
func readView(now string, hash []any) (view, error) {
	fields := map[string]string{}
	for pair := range slices.Chunk(hash, 2) {
		fields[fmt.Sprint(pair[0])] = fmt.Sprint(pair[1])
	}
	of, err := strconv.Atoi(fields["of"])
	v := view{state: fields["state"], at: map[string]time.Time{}}
	v.now = micros(now, &err)
	for i := range of {
		m := memberView{beat: fields[field("beat", i)], gone: fields[field("gone", i)]}
		m.joined = m.beat != ""
		m.step, _ = strconv.Atoi(fields[field("step", i)]) // 0: none yet
		v.members = append(v.members, m)
	}
	for name, value := range fields {
		if step, ok := strings.CutPrefix(name, "at:"); ok {
			v.at[step] = micros(value, &err)
		}
	}
	if text, ok := fields["stop"]; ok {
		v.stop = &Over{}
		err = errors.Join(err, json.Unmarshal([]byte(text), v.stop))
	}
	return v, err
}

func field(name string, i int) string { return name + ":" + strconv.Itoa(i) }

// micros is a time in microseconds since 1970.
func micros(text string, err *error) time.Time {
	n, bad := strconv.ParseInt(text, 10, 64)
	*err = errors.Join(*err, bad)
	return time.UnixMicro(n)
}

// joined is how many have a place.
func (v view) joined() (n int) {
	for _, m := range v.members {
		if m.joined {
			n++
		}
	}
	return n
}

// came reports whether every member has come to a step that is not gone.
func (v view) came(step int) bool {
	return !slices.ContainsFunc(v.members, func(m memberView) bool { return m.gone == "" && m.step < step })
}

// Keys are the keys that so many members leave, whatever became of them.
func Keys(keys market.Keys, of int) []string {
	all := []string{keys.Meeting()}
	for i := range of + 1 {
		all = append(all, keys.Part(i))
	}
	return all
}

// ReadKeys are the keys of the meeting under a prefix; none if there is none.
func ReadKeys(ctx context.Context, rdb redis.Cmdable, keys market.Keys) ([]string, error) {
	of, err := rdb.HGet(ctx, keys.Meeting(), "of").Int()
	if errors.Is(err, redis.Nil) {
		return nil, nil
	}
	if err == nil && (of < 1 || of > Most) {
		err = fmt.Errorf("it has %d load machines", of)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: not a meeting of marketsim: %w", keys.Meeting(), err)
	}
	return Keys(keys, of), nil
}
