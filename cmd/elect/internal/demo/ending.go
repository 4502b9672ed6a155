package demo

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// conclude ends everything, reads the log, and writes what it proves and what to do next. It returns an error if
// something is wrong; the log should have at least lives lives of the job.
func (t *Demo) conclude(lives int, played error) error {
	if played != nil {
		lives = 0 // it was interrupted
	}
	keep := t.cfg.Keep
	leader := -1
	t.tell(func(m *model) {
		m.over = true
		leader = m.worker()
	})
	t.acting.Lock() // an act that is under way may start a node; later ones are refused
	t.processes.end(leader)
	t.acting.Unlock()
	g, err := verdict(t.processes.log())
	err = errors.Join(played, err, t.close())
	out := &printer{to: t.cfg.Out, colour: t.cfg.Colour, elect: t.cfg.Command}
	if len(g.lives) > 0 {
		out.verdict(&g)
	}
	if keep {
		out.byHand(t.processes.dir)
	}
	if err = errors.Join(err, g.err(lives)); err == nil {
		out.next()
	}
	return err
}

// printer writes the text after the picture, or into a pipe.
type printer struct {
	to     io.Writer
	colour bool
	elect  string // the command, as a person types it
}

func (p *printer) say(r ...piece) { fmt.Fprintln(p.to, row(r).paint(p.colour)) }

func (p *printer) verdict(g *ledger) {
	p.say()
	p.say(piece{fmt.Sprintf("The log that the jobs wrote: %s by %s, in %s of the job. ", plural(g.lines, "line"), plural(g.leaders(), "leader"), plural2(len(g.lives), "life", "lives")), normal})
	rise := piece{"Tokens rise", normal}
	if g.disorder > 0 {
		rise = piece{"TOKENS FELL", failed}
	}
	p.say(rise, piece{": " + tokens(g.lives) + ".", normal})
	if n := g.late + g.leaked; n > 0 {
		p.say(piece{fmt.Sprintf("Late writes with an old token: %d, of which the log refused %d.", n, g.late), normal})
	}
	style := leading
	if g.overlaps > 0 {
		style = failed
	}
	p.say(piece{"Two jobs at the same time: ", normal}, piece{plural2(g.overlaps, "time", "times"), style}, piece{".", normal})
}

// tokens lists those of the lives, or both ends of a long list.
func tokens(lives []life) string {
	const most = 12
	var all []string
	for _, l := range lives {
		all = append(all, l.token.String())
	}
	if len(all) > most {
		all = append(append(all[:most/2:most/2], "…"), all[len(all)-most/2:]...)
	}
	return strings.Join(all, ", ")
}

func plural(n int, one string) string { return plural2(n, one, one+"s") }

func plural2(n int, one, more string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + more
}

// byHand says how to go on with the kept files.
func (p *printer) byHand(dir string) {
	quoted := "'" + strings.ReplaceAll(dir, "'", `'\''`) + "'"
	if !strings.ContainsAny(dir, " '\"\\$`!*?[](){}<>|&;~#") {
		quoted = dir
	}
	p.say()
	p.say(piece{"Everything is kept in " + dir + ".", normal})
	p.say(piece{"To go on by hand, in each of four terminals:", normal})
	p.say()
	p.say(piece{"    D=" + quoted + `; E=$(cat "$D/url")`, strong})
	p.say()
	p.say(piece{"in three of them, with --id n1, n2 and n3:", normal})
	p.say()
	if p.elect == "elect" {
		p.say(piece{`    elect run --election "$E" --name ` + election + ` --id n1 -- elect demo-job "$D/job.log"`, strong})
	} else {
		p.say(piece{"    " + p.elect + ` run --election "$E" --name ` + election + ` --id n1 -- \`, strong})
		p.say(piece{"        " + p.elect + ` demo-job "$D/job.log"`, strong})
	}
	p.say()
	p.say(piece{"and in the fourth:", normal})
	p.say()
	for _, verb := range []string{"status", "members", "history", "resign"} {
		p.say(piece{"    " + p.elect + " " + verb + ` --election "$E" --name ` + election, strong})
	}
}

func (p *printer) next() {
	p.say()
	for _, hint := range [][2]string{
		{"Now yours, in two terminals:", p.elect + " run -- COMMAND"},
		{"On three machines:", p.elect + " certs n1=HOST1 n2=HOST2 n3=HOST3"},
		{"", "It prints how to go on; docs/peers.md has more."},
		{"To read next:", "docs/getting-started.md, docs/peers.md,"},
		{"", "docs/guarantees.md"},
	} {
		style := normal
		if strings.HasPrefix(hint[1], p.elect+" ") {
			style = strong
		}
		p.say(piece{fmt.Sprintf("%-29s", hint[0]), normal}, piece{hint[1], style})
	}
}
