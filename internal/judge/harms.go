package judge

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/marketsim/marketsim/verify"
)

// said notes an answer.
func (p *pair) said(i int, c *player, heard string) {
	line := strings.TrimSpace(heard)
	word, fence, _ := strings.Cut(line, " ")
	c.told = line
	switch {
	case p.shop != nil:
		p.draw(i, "*is told: "+line+"*", "")
		c.phase = ended
		if !p.shop.tells(i, word) {
			p.failed = c.wrong("buy", among(heard, purchased))
		}
		p.reaches(exclusive, p.shop.yes == 1 && p.shop.no == 1)
	case c.phase == acquiring && word == "acquired":
		if !p.stalled {
			p.waited(c)
		}
		c.until, c.phase = c.since.Add(p.surely), inside
		p.enter(i, c)
		p.grows(c, fence)
	case c.phase == acquiring && word != "timeout" && word != "error":
		p.failed = c.wrong("acquire", among(heard, "acquired timeout error"))
	case c.phase == acquiring: // it has given up, and is asked again
		c.before, c.first = time.Time{}, ""
		p.draw(i, "*is told: "+line+"*", "")
		c.tell("acquire " + p.name)
	case c.phase == releasing && !slices.Contains([]string{"released", "lost", "done", "error"}, word):
		p.failed = c.wrong("release", among(heard, "released lost done error"))
	case c.phase == releasing:
		p.released = c.name
		p.draw(i, "*is told: "+line+"*", "")
		other := p.clients[1-i]
		if other.entered.After(c.entered) && other.entered.After(c.until) {
			p.reaches(noticesLoss, word == "lost")
			p.reaches(ownerOnly, other.phase == inside && c.left > 1) // it locks again, and would get in
			if word == "released" {
				p.harm(verify.NotTold, c.name+" is told that it has released the lock, and "+other.name+" had got it meanwhile")
			}
		}
		c.left--
		c.phase = ended
		if c.left > 0 {
			c.phase, c.before, c.first = acquiring, time.Time{}, ""
			c.tell("acquire " + p.name)
		}
	}
}

// enter notes that a client has entered, and a harm if the other one is inside, too.
func (p *pair) enter(i int, c *player) {
	p.draw(i, "*enters*", "")
	p.changes++
	p.entered++
	p.reaches(exclusive, p.entered == takes && p.contended)
	p.reaches(survivesCrash, p.orphaned)
	c.entered = time.Now()
	if other := p.clients[1-i]; other.phase == inside && other.life != nil {
		harm, how := verify.TwoHolders, " and within its lease"
		switch {
		case !c.before.IsZero() && other.entered.After(c.before.Add(p.surely*49/50)):
			harm, how = verify.Outlived, ", because the lease of "+c.name+" has run out while it took the lock"
		case !time.Now().Before(other.until.Add(-p.surely / 50)):
			harm, how = verify.Outlived, ", whose lease has run out"
		case p.released != "" && p.released != other.name:
			harm, how = verify.FreedAnothers, how+", after a release by "+p.released
		}
		p.harm(harm, c.name+" enters while "+other.name+" is inside"+how)
	}
	p.released = ""
}

// waited notes a harm if a client that takes the lock has been kept out for more than two
// leases in which nothing happened, and nobody is inside.
func (p *pair) waited(c *player) {
	holds := slices.ContainsFunc(p.clients, func(other *player) bool { return other.phase == inside && other.life != nil })
	long := time.Since(p.last)
	waits := p.shop == nil && c.phase == acquiring && c.life != nil && c.paused.IsZero()
	if waits && !holds && long > 2*p.lease+settling {
		p.harm(verify.LockedOut, fmt.Sprintf("%s has waited for %s, while nobody was inside and nothing happened",
			c.name, long.Round(time.Millisecond)))
	}
}

// reaches notes that something has put a promise to the test, if it is so.
func (p *pair) reaches(promise string, is bool) {
	if is {
		p.reached[promise] = true
	}
}

// grows notes a fencing token, which has to be larger than all before it.
func (p *pair) grows(c *player, said string) {
	fence, err := strconv.ParseInt(said, 10, 64)
	if err != nil { // it has none
		return
	}
	p.reaches(fenced, p.fence > 0)
	// It was stopped, perhaps after it had got its token.
	overtaken := fence < p.fence && !c.before.IsZero()
	if fence <= p.fence && !overtaken {
		p.harm(verify.FenceRepeats, fmt.Sprintf("%s gets fencing token %d after %d", c.name, fence, p.fence))
	}
	p.fence = max(p.fence, fence)
}

func (p *pair) harm(h verify.Harm, text string) {
	p.harms = append(p.harms, verify.Violation{Harm: h, Text: text})
}
