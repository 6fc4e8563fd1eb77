package explore

import (
	"bufio"
	"context"
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/marketsim/marketsim/market/backend/embedded"
)

// A Server is a miniredis without a listener and without goroutines: it executes in the goroutine that asks.
type Server struct {
	T     *testing.T // that of the schedule: what the judge opens is cleaned up after it
	redis *miniredis.Miniredis
	world *world
	own   *conn                         // over which the search itself asks
	uses  func(key string, writes bool) // told of each key that a request uses; nil: nobody wants to know
	lacks string                        // a command that it does not know
	log   []*request                    // that were executed, to be executed again by a replica

	// send has a real server execute what a connection sends, in place of miniredis.
	send func(c *conn, commands [][]string)
}

func newServer(t *testing.T, w *world) *Server {
	s := &Server{T: t, world: w, redis: miniredis.NewMiniRedis()}
	s.redis.Seed(1)
	s.redis.ClockTTL(true)
	starts, _ := s.redis.Dial() // the only way to a server without a listener; it does not fail
	starts.Close()
	s.own = s.accept(nobody)
	touching := embedded.TouchingZREM(s.redis.Server())
	s.redis.Server().SetPreHook(func(p *server.Peer, cmd string, args ...string) bool {
		s.note(cmd, args)
		return touching(p, cmd, args...)
	})
	return s
}

// accept makes a connection of a client.
func (s *Server) accept(client int) *conn {
	c := &conn{world: s.world, client: client, changed: make(chan struct{}, 1)}
	c.Conn, _ = net.Pipe()
	s.serve(c)
	return c
}

// serve makes the server the other end of a connection.
func (s *Server) serve(c *conn) {
	c.server, c.peer = s, server.NewPeer(bufio.NewWriterSize(replier{c}, 256))
}

// Do executes a command for the search itself, and returns the reply as it is sent.
func (s *Server) Do(command ...string) string {
	s.own.received = nil
	s.execute(&request{conn: s.own, commands: [][]string{command}})
	return string(s.own.received)
}

// Locks is the server of the locks: this one, unless they have one of their own.
func (s *Server) Locks() *Server { return s.world.servers[len(s.world.servers)-1] }

// Connect opens a connection of the search itself, whose requests do not wait.
func (s *Server) Connect(context.Context) (net.Conn, error) { return s.accept(nobody), nil }

// execute executes a request, and sends the replies.
func (s *Server) execute(r *request) {
	if s.send != nil {
		s.send(r.conn, r.commands)
		return
	}
	for _, command := range r.commands {
		switch strings.ToUpper(command[0]) {
		case "SUBSCRIBE", "PSUBSCRIBE":
			r.subscribed = true
		case "WATCH":
			r.watched = append(r.watched, command[1:]...)
		case "EVAL":
			if !slices.Contains(s.world.scripts, command[1]) {
				s.world.scripts = append(s.world.scripts, command[1])
			}
		case "EXEC": // it reads what is watched
			for _, key := range r.watched {
				if s.uses != nil {
					s.uses(key, false)
				}
			}
			r.watched = nil
		}
		s.dispatch(r.peer, command)
	}
	r.peer.Flush()
}

// dispatch has miniredis execute a command, which it may change.
func (s *Server) dispatch(p *server.Peer, command []string) {
	s.redis.Server().Dispatch(p, slices.Clone(command))
}

// catchUp makes an empty server a replica: it executes a log, but for the last writes that changed something.
func (s *Server) catchUp(log []*request, without int, scripts []string) {
	for _, script := range scripts {
		s.Do("SCRIPT", "LOAD", script)
	}
	for held := s.again(log); len(log) > 0 && without > 0; {
		log = log[: len(log)-1 : len(log)-1]
		if holds := s.again(log); holds != held {
			held = holds
			without--
		}
	}
	s.Do("SCRIPT", "FLUSH") // a replica is told what scripts do, and not the scripts
	s.log = log
	// In this order, or every key expires: to the present, then a look, then the bubble's own clock.
	s.redis.SetTime(time.Now())
	s.redis.Exists("")
	s.redis.ClockTTL(false)
	s.redis.SetTime(time.Time{})
	s.redis.ClockTTL(true)
}

// again executes a log from the start, each entry at its time, and returns what the server holds then.
func (s *Server) again(log []*request) string {
	s.redis.FlushAll()
	peers := map[*conn]*server.Peer{}
	for _, e := range log {
		if peers[e.conn] == nil {
			peers[e.conn] = server.NewPeer(bufio.NewWriter(io.Discard))
		}
		s.redis.SetTime(e.at)
		for _, command := range e.commands {
			if gated(command) {
				s.dispatch(peers[e.conn], command)
			}
		}
	}
	return s.redis.Dump()
}

// note tells the keys of a command as it is executed: also one inside a script, and one that MULTI queues.
func (s *Server) note(cmd string, args []string) {
	if !s.redis.Server().IsRegisteredCommand(cmd) {
		s.lacks = cmd
	}
	if s.uses == nil || slices.Contains(keyless, cmd) {
		return
	}
	writes := !s.redis.Server().IsReadOnlyCommand(cmd) && cmd != "WATCH"
	switch {
	case slices.Contains(manyKeys, cmd):
	case strings.HasSuffix(cmd, "SUBSCRIBE") || cmd == "PUBLISH":
		args = []string{"channels"}
	case len(args) > 0 && slices.Contains(oneKey, cmd):
		args = args[:1]
	default:
		args = []string{everything}
	}
	for _, key := range args {
		s.uses(key, writes)
	}
}

// The commands by the keys that they name: none (those of scripts are noted when they are executed), each argument (and
// with MSET, at worst, more), or the first. What is not here conflicts with everything.
var (
	keyless  = strings.Fields("MULTI EXEC DISCARD UNWATCH EVAL EVALSHA EVAL_RO EVALSHA_RO SCRIPT HELLO PING ECHO CLIENT TIME")
	manyKeys = strings.Fields("DEL UNLINK EXISTS MGET TOUCH WATCH MSET MSETNX")
	oneKey   = strings.Fields("GET SET SETNX SETEX PSETEX GETSET GETDEL GETEX DELEX APPEND STRLEN INCR INCRBY DECR DECRBY " +
		"EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST TTL PTTL EXPIRETIME PEXPIRETIME TYPE HGET HSET HSETNX HMSET HMGET HGETALL " +
		"HDEL HEXISTS HINCRBY HKEYS HLEN HVALS HSCAN HEXPIRE HPERSIST HTTL HPTTL HSETEX LINDEX LPOS LINSERT LLEN LPOP LPUSH " +
		"LRANGE LREM LSET LTRIM RPOP RPUSH SADD SCARD SISMEMBER SMEMBERS SMISMEMBER SPOP SRANDMEMBER SREM SSCAN ZADD ZCARD " +
		"ZCOUNT ZINCRBY ZRANGE ZRANGEBYSCORE ZRANK ZREM ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGE ZREVRANK " +
		"ZSCORE ZMSCORE ZSCAN ZPOPMAX ZPOPMIN ZRANDMEMBER")
)
