package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/marketsim/marketsim/bench"
	"github.com/marketsim/marketsim/strategies/catalogue"
)

// traders are all strategies under all mixes. It is told which flags were given.
func (f *runFlags) traders(given func(flag string) bool) ([]trader, error) {
	if len(f.strategies) == 0 {
		return nil, usageError{fmt.Errorf("which strategies? give --strategy with one or more of %s", strings.Join(names(), ", "))}
	}
	for flag, words := range map[string][]string{
		"redlock": f.locks.redlock, "zookeeper": f.locks.zookeeper, "etcd": f.locks.etcd,
	} {
		if given(flag) && len(words) == 0 {
			return nil, usageError{fmt.Errorf("--%s names no server", flag)}
		}
	}
	mixes, err := f.parseMixes(given)
	if err != nil {
		return nil, err
	}
	var all []trader
	for _, text := range f.strategies {
		specs, err := f.parseSpecs(text)
		if err != nil {
			return nil, err
		}
		for _, mix := range mixes {
			for _, spec := range specs {
				all = append(all, trader{spec, mix})
			}
		}
	}
	return all, nil
}

// parseMixes are the mixes of --mix, or the single one of --sellers and --buyers.
func (f *runFlags) parseMixes(given func(flag string) bool) ([]bench.Mix, error) {
	texts := f.mixes
	if given("sellers") || given("buyers") {
		switch {
		case given("mix"):
			return nil, usageError{errors.New("give either --mix or --sellers and --buyers")}
		case !given("sellers") || !given("buyers"):
			return nil, usageError{errors.New("--sellers and --buyers go together")}
		}
		texts = []string{bench.Mix{Sellers: f.sellers, Buyers: f.buyers}.String()}
	}
	if len(texts) == 0 {
		return nil, usageError{errors.New("--mix names no mix: give SELLERSxBUYERS, such as 5x5")}
	}
	var mixes []bench.Mix
	for _, text := range texts {
		mix, err := bench.ParseMix(text)
		if err != nil {
			return nil, err
		}
		mixes = append(mixes, mix)
	}
	return mixes, nil
}

// names are the strategies that a spec may begin with.
func names() []string {
	var all []string
	for _, s := range catalogue.Full().Strategies {
		all = append(all, s.Name)
	}
	return all
}
