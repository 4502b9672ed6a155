package arch_test

import (
	"fmt"
	"path"
	"slices"
)

// requirements reports what a go.mod requires directly and the table does not
// list, and what the table lists and nothing requires. Modules of this
// repository may require each other freely: directions decides on those.
func requirements(t *tree, h house) []finding {
	var found []finding
	ours := make(map[string]bool)
	for _, m := range t.mods {
		ours[m.module] = true
	}
	used := make([]bool, len(h.requirements))
	for _, m := range t.mods {
		file := path.Join(m.dir, "go.mod")
		for _, needs := range m.direct {
			if ours[needs] {
				continue
			}
			i := slices.IndexFunc(h.requirements, func(r requirement) bool { return r.module == m.dir && r.needs == needs })
			if i < 0 {
				found = append(found, finding{file, fmt.Sprintf("requires %s, which is not in the table", needs)})
			} else {
				used[i] = true
			}
			if m.dir == "." && needs != "golang.org/x/sys" {
				found = append(found, finding{file, fmt.Sprintf("the root module requires %s: whoever imports elect would get it too", needs)})
			}
		}
	}
	for i, r := range h.requirements {
		file := path.Join(r.module, "go.mod")
		if !used[i] {
			found = append(found, finding{file, fmt.Sprintf("the table lists %s, but it is not required: remove the line", r.needs)})
		}
		if r.why == "" {
			found = append(found, finding{file, fmt.Sprintf("the table gives no reason for %s", r.needs)})
		}
	}
	return found
}

// workspace reports modules that go.work does not use, directories that it
// uses and that hold no module, and modules named after another place.
func workspace(t *tree, h house) []finding {
	var found []finding
	used := make([]bool, len(h.apart))
	var dirs []string
	for _, m := range t.mods {
		dirs = append(dirs, m.dir)
		if want := path.Join(base, m.dir); m.module != want {
			found = append(found, finding{path.Join(m.dir, "go.mod"), fmt.Sprintf("the module's path is %s, want %s", m.module, want)})
		}
		if i := slices.IndexFunc(h.apart, func(e exception) bool { return e.at == m.dir }); i >= 0 {
			used[i] = !slices.Contains(t.work, m.dir)
		} else if !slices.Contains(t.work, m.dir) {
			found = append(found, finding{"go.work", fmt.Sprintf("does not use the module in %s, so that its tests would never run", m.dir)})
		}
	}
	for _, dir := range t.work {
		if !slices.Contains(dirs, dir) {
			found = append(found, finding{"go.work", fmt.Sprintf("uses %s, which holds no go.mod", dir)})
		}
	}
	return append(found, stale("apart", h.apart, used)...)
}
