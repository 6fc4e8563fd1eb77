// Package wire stands between clients and a server and does there what networks do on bad days, at a chosen moment
// instead of by luck.
//
// A [Line] forwards bytes of any protocol: it can be partitioned and healed, cut, pulled and muted. A [Proxy] is a Line
// that understands the Redis protocol: it can also hold or lose a chosen command or its reply, and drop the messages of
// subscriptions. Faults from another hand, such as random latency, are toxiproxy's.
//
// A connection passes in both directions what it was given, in order, and late rather than never: a client that gives up
// and hangs up during a partition, or while its command is held, still has it executed afterwards, as on a network whose
// packets were delayed.
package wire
