package market

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"
)

// ErrPrefix is returned by NewKeys.
var ErrPrefix = errors.New("invalid key prefix")

// Keys spells every key of one market. It is the only place where a key is spelled.
type Keys struct{ prefix string }

// What follows the prefix in each key, but for the number or name of what it is about.
const (
	usersKey     = "users:"
	inventoryKey = "inventory:"
	marketKey    = "market:"
	lockKey      = "lock:"
	fenceKey     = "fence:"
	versionKey   = "version:"
	outcomesKey  = "outcomes"
	runKey       = "run"
)

// keyTypes are the Redis types of a market's keys, by what follows the prefix. Those
// of locks are the locks' own.
var keyTypes = map[string]string{
	usersKey: "hash", inventoryKey: "set", marketKey: "zset", versionKey: "string", outcomesKey: "hash", runKey: "hash",
}

// spelled matches what follows the prefix in the keys of a market and of its locks. A
// lock is named after the market, an item or an account, and whatever it adds begins with
// a sign; without a name it is a key of all locks.
var spelled = regexp.MustCompile(`^(?:` +
	`(` + usersKey + `|` + inventoryKey + `|` + versionKey + `)\d+|` +
	`(` + marketKey + `|` + outcomesKey + `|` + runKey + `)|` +
	`(?:` + lockKey + `|` + fenceKey + `)(?:market|(?:` + usersKey + `)?\d+)(?:\W.*)?|` +
	strings.TrimSuffix(lockKey, ":") + `(?::` + strings.TrimSuffix(usersKey, ":") + `)?` +
	`)$`)

// kind is what follows the prefix in a key, as keyTypes has it, empty for a lock's;
// ours: the key is this market's.
func (k Keys) kind(key string) (kind string, ours bool) {
	name, under := strings.CutPrefix(key, k.prefix)
	parts := spelled.FindStringSubmatch(name)
	if !under || parts == nil {
		return "", false
	}
	return parts[1] + parts[2], true
}

// TypeOf is the Redis type of a key of this market; empty: it is a lock's, which has its
// own types. Ours says whether the key has a name of this market's or its locks' at all.
func (k Keys) TypeOf(key string) (redisType string, ours bool) {
	kind, ours := k.kind(key)
	return keyTypes[kind], ours
}

// AccountOf is whose account a key is, if it is one.
func (k Keys) AccountOf(key string) (id UserID, isAccount bool) {
	digits, _ := strings.CutPrefix(key, k.prefix+usersKey)
	n, err := strconv.ParseInt(digits, 10, 64)
	id = UserID(n)
	return id, err == nil && key == k.User(id)
}

// longestPrefix is how many characters a prefix may have before its ':'. Every key repeats it.
const longestPrefix = 250

// isPrefix reports whether s ends in ':' and holds nothing by which it could match other
// people's keys. It is no regular expression: one that counts to 250 takes 3 ms to compile,
// in each process that imports the package.
func isPrefix(s string) bool {
	name, ends := strings.CutSuffix(s, ":")
	length := utf8.RuneCountInString(name)
	return ends && length >= 1 && length <= longestPrefix && !strings.ContainsFunc(name, isGlobOrBlank)
}

func isGlobOrBlank(r rune) bool {
	return r <= ' ' || r == '\x7f' || strings.ContainsRune(`*?[]\`, r)
}

// NewKeys returns the keys under prefix, for example "marketsim:{7f3a}:", or ErrPrefix,
// wrapped. On Redis Cluster braces keep the market and its locks on one slot.
func NewKeys(prefix string) (Keys, error) {
	if !isPrefix(prefix) {
		return Keys{}, fmt.Errorf("%w %.50q: it must be a name of at most %d characters that ends in ':', for example "+
			"\"mytest:\", without spaces, control characters and the glob characters * ? [ ] \\",
			ErrPrefix, prefix, longestPrefix)
	}
	return Keys{prefix: prefix}, nil
}

// Prefix returns what every key starts with.
func (k Keys) Prefix() string { return k.prefix }

// User is the hash of an account: name, funds.
func (k Keys) User(id UserID) string { return k.prefix + usersKey + decimal(id) }

// Inventory is the set of items a user owns and has not listed.
func (k Keys) Inventory(id UserID) string { return k.prefix + inventoryKey + decimal(id) }

// Market is the sorted set of listings: Member, scored by price.
func (k Keys) Market() string { return k.prefix + marketKey }

// Lock is the key of the lock called name. Locks that need more keys derive
// them from this one.
func (k Keys) Lock(name string) string { return k.prefix + lockKey + name }

// Fence is the string that says which holder of the lock called name registered
// last. It outlives that holder.
func (k Keys) Fence(name string) string { return k.prefix + fenceKey + name }

// Version is the number of times that an item was listed or bought, where a
// strategy counts it.
func (k Keys) Version(id ItemID) string { return k.prefix + versionKey + decimal(id) }

func decimal[T ~int64](id T) string { return strconv.FormatInt(int64(id), 10) }

// Outcomes is the hash of workers to their last operation and its outcome (see
// the parameter idempotent).
func (k Keys) Outcomes() string { return k.prefix + outcomesKey }

// Run is the hash that says what a run made under the prefix, so that it can be
// removed without a SCAN.
func (k Keys) Run() string { return k.prefix + runKey }

// Member is how a listing is spelled in the market: "<item>.<seller>".
func Member(item ItemID, seller UserID) string { return string(appendMember(nil, item, seller)) }

func appendMember(to []byte, item ItemID, seller UserID) []byte {
	to = append(strconv.AppendInt(to, int64(item), 10), '.')
	return strconv.AppendInt(to, int64(seller), 10)
}

// ParseMember is the inverse of Member.
func ParseMember(member string) (ItemID, UserID, error) {
	item, seller, ok := strings.Cut(member, ".")
	i, err1 := strconv.ParseInt(item, 10, 64)
	s, err2 := strconv.ParseInt(seller, 10, 64)
	var room [40]byte // so that nothing is allocated, of millions of members
	if !ok || err1 != nil || err2 != nil || string(appendMember(room[:0], ItemID(i), UserID(s))) != member {
		return 0, 0, fmt.Errorf("market member %q is not of the form <item>.<seller>", member)
	}
	return ItemID(i), UserID(s), nil
}
