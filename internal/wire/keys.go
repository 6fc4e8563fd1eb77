package wire

import (
	"slices"
	"strings"
)

// The commands by the keys that they use themselves: none (scripts execute others), each argument (and with
// MSET, at worst, more), or the first.
var (
	keyless = strings.Fields("MULTI EXEC DISCARD UNWATCH EVAL EVALSHA EVAL_RO EVALSHA_RO HELLO AUTH SELECT QUIT " +
		"PING ECHO CLIENT TIME")
	manyKeys = strings.Fields("DEL UNLINK EXISTS MGET TOUCH WATCH MSET MSETNX")
	oneKey   = strings.Fields("GET SET SETNX SETEX PSETEX GETSET GETDEL GETEX DELEX APPEND STRLEN " +
		"INCR INCRBY DECR DECRBY " +
		"EXPIRE PEXPIRE EXPIREAT PEXPIREAT PERSIST TTL PTTL EXPIRETIME PEXPIRETIME TYPE " +
		"HGET HSET HSETNX HMSET HMGET HGETALL HDEL HEXISTS HINCRBY HKEYS HLEN HVALS HSCAN " +
		"HEXPIRE HPERSIST HTTL HPTTL HSETEX " +
		"LINDEX LPOS LINSERT LLEN LPOP LPUSH LRANGE LREM LSET LTRIM RPOP RPUSH " +
		"SADD SCARD SISMEMBER SMEMBERS SMISMEMBER SPOP SRANDMEMBER SREM SSCAN " +
		"ZADD ZCARD ZCOUNT ZINCRBY ZRANGE ZRANGEBYSCORE ZRANK ZREM " +
		"ZREMRANGEBYLEX ZREMRANGEBYRANK ZREMRANGEBYSCORE ZREVRANGE ZREVRANK " +
		"ZSCORE ZMSCORE ZSCAN ZPOPMAX ZPOPMIN ZRANDMEMBER")
)

// Keys returns the keys that a command uses: a script and a transaction none, but what they execute. What publishes or
// subscribes uses the key "channels". It reports false for a command that it does not know: that may use any key.
func Keys(command string, args []string) (keys []string, known bool) {
	command = strings.ToUpper(command)
	switch {
	case slices.Contains(keyless, command):
		return nil, true
	case slices.Contains(manyKeys, command):
		return args, true
	case strings.HasSuffix(command, "SUBSCRIBE") || command == "PUBLISH":
		return []string{"channels"}, true
	}
	return args[:min(1, len(args))], slices.Contains(oneKey, command)
}

// blocking are the commands that may wait for somebody else.
var blocking = strings.Fields("BLPOP BRPOP BLMOVE BLMPOP BRPOPLPUSH BZPOPMIN BZPOPMAX BZMPOP " +
	"XREAD XREADGROUP WAIT WAITAOF")

// Blocks reports whether a command may wait for somebody else.
func Blocks(command string) bool { return slices.Contains(blocking, strings.ToUpper(command)) }
