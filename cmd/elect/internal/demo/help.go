package demo

import "fmt"

// helpPage explains the picture to a first-time user.
func helpPage(m *model, f frame) []row {
	width := min(f.width, mostWidth)
	rows := []row{words(strong, " What you see")}
	for _, text := range []string{
		"Three copies of one program run here, each in a process of its own. Their job must never run twice at a time, like a scheduler or a program that sends invoices. So they elect a leader, with two votes of three, and only the leader runs the job.",
		fmt.Sprintf("The others promise the leader to elect no other node for %s, and renew that all the time: this is its lease. A leader that cannot renew its lease ends its job before the lease ends. Each leader has a greater token than all before it. The log refuses a write with an older token.", span(m.promise)),
	} {
		for _, line := range wrap(text, width-3, 0) {
			rows = append(rows, words(normal, "  "+line))
		}
	}
	rows = append(rows, nil)
	for _, k := range [][2]string{
		{"1 2 3", "select a node; so do the arrows and Tab"},
		{"k", "kill its elect run (SIGKILL); its job dies with it"},
		{"s", "start it again after that"},
		{"j", "kill the job only"},
		{"p", "pause it (SIGSTOP), or wake it (SIGCONT)"},
		{"c", "cut it off from the other two, or connect it again"},
		{"r", "ask the leader to resign"},
		{"w", "let a late write with an old token arrive at the log"},
		{"x", "chaos: do one of these every few seconds, or stop that"},
		{"q", "quit; everything that was started ends"},
	} {
		rows = append(rows, row{{fmt.Sprintf("  %-7s", k[0]), picked}, {k[1], normal}})
	}
	if m.dir != "" {
		rows = append(rows, nil, words(normal, "  These nodes are real. In another terminal you may ask them yourself:"),
			words(strong, `  elect status --name `+election+` --election "$(cat `+m.dir+`/url)"`))
	}
	for len(rows) < f.height-1 {
		rows = append(rows, nil)
	}
	return append(rows[:f.height-1], words(faint, " any key goes back, q quits"))
}
