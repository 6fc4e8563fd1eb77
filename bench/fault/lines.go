package fault

import (
	"github.com/marketsim/marketsim/market/backend"
	"github.com/marketsim/marketsim/market/backend/wire"
)

// marketLine puts a proxy between the actors to come and the market. Their locks go past it, straight to their servers.
func (s *Stage) marketLine() *wire.Proxy {
	p := s.proxy(s.cast.Market)
	if s.cast.Locks == nil {
		direct := s.cast.Market
		s.cast.Locks = &direct
	}
	s.cast.Market = addressed(p)
	return p
}

// lockLines puts a proxy between the actors to come and each Redis that their lock lives on.
func (s *Stage) lockLines() []*wire.Proxy {
	if s.masters == nil {
		where := s.cast.Market
		if s.cast.Locks != nil {
			where = *s.cast.Locks
		}
		p := s.proxy(where)
		through := addressed(p)
		s.cast.Locks = &through
		return []*wire.Proxy{p}
	}
	proxies := make([]*wire.Proxy, len(s.cast.Masters))
	through := make([]endpoint, len(s.cast.Masters))
	for i, m := range s.cast.Masters {
		proxies[i] = s.proxy(m)
		through[i] = addressed(proxies[i])
	}
	s.cast.Masters = through
	return proxies
}

// otherLines puts a line between the actors to come and each ZooKeeper or etcd server of their lock.
func (s *Stage) otherLines() (lines []*wire.Line) {
	through := func(addrs []string) []string {
		all := make([]string, len(addrs))
		for i, addr := range addrs {
			l := s.line(addr)
			lines, all[i] = append(lines, l), l.Addr()
		}
		return all
	}
	if !s.failed() {
		s.cast.ZooKeeper, s.cast.Etcd = through(s.cast.ZooKeeper), through(s.cast.Etcd)
	}
	return lines
}

// proxy starts a proxy for the length of the play. Of a failed stage it leads nowhere.
func (s *Stage) proxy(to endpoint) *wire.Proxy {
	p, err := wire.Start(backend.Target{Network: to.Network, Addr: to.Addr})
	if err != nil {
		s.fail(err)
		return nil
	}
	s.own(p)
	return p
}

func (s *Stage) line(addr string) *wire.Line {
	l, err := wire.Forward(addr)
	if err != nil {
		s.fail(err)
		return nil
	}
	s.own(l)
	return l
}

func addressed(p *wire.Proxy) endpoint {
	if p == nil {
		return endpoint{}
	}
	return at(p.Target())
}
