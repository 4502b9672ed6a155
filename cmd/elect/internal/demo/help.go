package demo

import "fmt"

// helpPage explains the picture to a first-time user.
func helpPage(m *model, f frame) []row {
	width := min(f.width, mostWidth)
	rows := []row{words(strong, " What you see")}
	for _, text := range []string{
		"Three copies of one program run here, each as a process of its own. The job that they are for must never run twice at a time: think of a scheduler, or of one that sends invoices. So they elect a leader, two votes of three, and only the leader runs the job.",
		fmt.Sprintf("The others promise the leader not to elect anybody else for %s, and renew that all the time: its lease. A leader that cannot renew it ends its job before it runs out. Each leader has a greater token than all before it; the log refuses a write with an older one.", span(m.promise)),
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
		{"x", "chaos: something of that every few seconds, or no more"},
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
