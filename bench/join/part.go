package join

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// chunkSize bounds what is sent to the server or asked of it at a time, which others wait for.
const chunkSize = 1 << 20

// Hand hands over what this member has measured, in place of what it handed over before.
func (m *Member) Hand(ctx context.Context, part []byte) error {
	return m.store(ctx, m.index, part)
}

// Publish stores what all members came to together, in place of what was published before, and comes to a step.
func (m *Member) Publish(ctx context.Context, step int, whole []byte) error {
	if err := m.store(ctx, m.config.Of, whole); err != nil {
		return err
	}
	return m.Come(ctx, step)
}

// Part is what the i-th member handed over, from 0.
func (m *Member) Part(ctx context.Context, i int) ([]byte, error) { return m.load(ctx, i) }

// Published is what was published last.
func (m *Member) Published(ctx context.Context) ([]byte, error) { return m.load(ctx, m.config.Of) }

func (m *Member) store(ctx context.Context, i int, part []byte) error {
	key := m.config.Keys.Part(i)
	if err := m.conn.Unlink(ctx, key).Err(); err != nil {
		return fmt.Errorf("hand over %s: %w", key, err)
	}
	for chunk := range slices.Chunk(part, chunkSize) {
		if err := m.conn.RPush(ctx, key, chunk).Err(); err != nil {
			return fmt.Errorf("hand over %s: %w", key, err)
		}
	}
	return nil
}

func (m *Member) load(ctx context.Context, i int) ([]byte, error) {
	key := m.config.Keys.Part(i)
	chunks, err := m.conn.LLen(ctx, key).Result()
	var part strings.Builder
	for j := int64(0); j < chunks && err == nil; j++ {
		var chunk string
		chunk, err = m.conn.LIndex(ctx, key, j).Result()
		part.WriteString(chunk)
	}
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", key, err)
	}
	return []byte(part.String()), nil
}
